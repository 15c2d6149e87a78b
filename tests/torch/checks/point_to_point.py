"""Sends and receives, alone and in batches."""

import torch
import torch.distributed as dist

from checks.checking import check, same


@check
def send_and_recv_round_the_ring(me):
    to, source = (me.rank + 1) % me.world, (me.rank - 1) % me.world
    for count in me.sizes():
        message, place = me.values(me.rank, count, torch.float32), me.full(count, torch.float32)
        if me.rank == 0:
            dist.send(message, to)
            dist.recv(place, source)
        else:
            dist.recv(place, source)
            dist.send(message, to)
        same(place, me.values(source, count, torch.float32), f"{count} elements")


@check
def isend_and_irecv_between_pairs(me):
    peer = me.rank ^ 1
    if peer >= me.world:
        return
    mine = [me.values(me.rank, count, torch.float32) for count in (3, 0, 70_001)]
    theirs = [me.full(len(message), torch.float32) for message in mine]
    for message, place in zip(mine, theirs):
        first, second = (dist.isend, dist.irecv) if me.rank < peer else (dist.irecv, dist.isend)
        tensors = (message, place) if me.rank < peer else (place, message)
        handles = [first(tensors[0], peer), second(tensors[1], peer)]
        for handle in handles:
            handle.wait()
        same(place, me.values(peer, len(place), torch.float32), f"{len(place)} elements")


@check
def batched_sends_and_receives(me):
    peers = [rank for rank in range(me.world) if rank != me.rank]
    for count in (1, 1003, 200_003):
        places = {peer: me.full(count, torch.float32) for peer in peers}
        pieces = {peer: me.values(me.rank, count, torch.float32, peer) for peer in peers}
        work = [dist.P2POp(dist.isend, pieces[peer], peer) for peer in peers]
        work += [dist.P2POp(dist.irecv, places[peer], peer) for peer in peers]
        for handle in dist.batch_isend_irecv(work):
            handle.wait()
        for peer in peers:
            expected = me.values(peer, count, torch.float32, me.rank)
            same(places[peer], expected, f"{count} elements from {peer}")
