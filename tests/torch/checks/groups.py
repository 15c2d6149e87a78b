"""Barriers, objects, handles, coalescing, subgroups and splits."""

import torch
import torch.distributed as dist

from checks.checking import Skip, check, same


@check
def barriers(me):
    for _ in range(5):
        dist.barrier()


@check
def objects(me):
    mine = {"rank": me.rank, "text": "x" * (100 * me.rank)}

    def of(rank):
        return {"rank": rank, "text": "x" * (100 * rank)}

    everyone = [None] * me.world
    dist.all_gather_object(everyone, mine)
    assert everyone == [of(rank) for rank in range(me.world)], everyone
    shared = [of(1 % me.world), 42] if me.rank == 0 else [None, None]
    dist.broadcast_object_list(shared, 0)
    assert shared == [of(1 % me.world), 42], shared
    gathered = [None] * me.world if me.rank == 0 else None
    dist.gather_object(mine, gathered, 0)
    assert me.rank != 0 or gathered == [of(rank) for rank in range(me.world)], gathered
    given = [None]
    dist.scatter_object_list(given, [of(rank) for rank in range(me.world)], 0)
    assert given == [mine], given


@check
def handles_waited_for_late(me):
    tensors = [me.values(me.rank, count, torch.float32) for count in (1, 50_001, 7, 300_000)]
    handles = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    gathered = me.full(1003 * me.world, torch.float32)
    handles.append(dist.all_gather_into_tensor(
        gathered, me.values(me.rank, 1003, torch.float32), async_op=True))
    for handle in reversed(handles):
        handle.wait()
    for tensor in tensors:
        same(tensor, me.total(len(tensor), torch.float32), f"{len(tensor)} elements")
    same(gathered, torch.cat([me.values(rank, 1003, torch.float32) for rank in range(me.world)]))


@check
def futures(me):
    tensor = me.values(me.rank, 1003, torch.float32)
    doubled = dist.all_reduce(tensor, async_op=True).get_future().then(lambda it: it.value()[0] * 2)
    same(doubled.wait(), me.total(1003, torch.float32) * 2)


@check
def coalesced(me):
    if not me.nccl:
        raise Skip("gloo does not coalesce")
    tensors = [me.values(me.rank, count, torch.float32) for count in (1, 1003, 77_777)]
    with dist._coalescing_manager(device=me.device, async_ops=True) as manager:
        for tensor in tensors:
            dist.all_reduce(tensor)
    manager.wait()
    for tensor in tensors:
        same(tensor, me.total(len(tensor), torch.float32), f"all_reduce of {len(tensor)}")
    places = [me.full(count * me.world, torch.float32) for count in (5, 1003)]
    with dist._coalescing_manager(device=me.device):
        for place in places:
            count = len(place) // me.world
            dist.all_gather_into_tensor(place, me.values(me.rank, count, torch.float32))
    for place in places:
        count = len(place) // me.world
        parts = [me.values(rank, count, torch.float32) for rank in range(me.world)]
        same(place, torch.cat(parts), f"all_gather of {count}")
    outputs = [me.full(count, torch.float32) for count in (5, 1003)]
    with dist._coalescing_manager(device=me.device):
        for output in outputs:
            whole = me.values(me.rank, len(output) * me.world, torch.float32)
            dist.reduce_scatter_tensor(output, whole)
    for output in outputs:
        total = me.total(len(output) * me.world, torch.float32)
        same(output, total[len(output) * me.rank:][:len(output)], f"reduce_scatter {len(output)}")


@check
def several_streams(me):
    if not me.on_gpu:
        raise Skip("there are no streams")
    streams = [torch.cuda.Stream() for _ in range(3)]
    tensors = []
    for turn in range(9):
        stream = streams[turn % 3]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            tensor = me.values(me.rank, 1000 + turn, torch.float32)
            dist.all_reduce(tensor)
            tensors.append(tensor)
    torch.cuda.synchronize()
    for tensor in tensors:
        same(tensor, me.total(len(tensor), torch.float32))


@check
def subgroups(me):
    halves = [list(range(0, me.world, 2)), list(range(1, me.world, 2))]
    overlapping = [list(range(me.world - 1)), list(range(1, me.world))]
    for ranks in halves + overlapping:
        if not ranks:
            continue
        group = dist.new_group(ranks)
        if me.rank not in ranks:
            continue
        tensor = me.values(me.rank, 4001, torch.float32)
        dist.all_reduce(tensor, group=group)
        same(tensor, me.total(4001, torch.float32, ranks), f"ranks {ranks}")
        place = me.full(10 * len(ranks), torch.float32)
        dist.all_gather_into_tensor(place, me.values(me.rank, 10, torch.float32), group=group)
        parts = [me.values(rank, 10, torch.float32) for rank in ranks]
        same(place, torch.cat(parts), f"gather among {ranks}")
        dist.destroy_process_group(group)


@check
def split_groups(me):
    if not me.nccl:
        raise Skip("gloo does not split")
    middle = (me.world + 1) // 2
    parts = [list(range(middle)), list(range(middle, me.world))]
    parts = [ranks for ranks in parts if ranks]
    group = dist.split_group(dist.group.WORLD, parts)
    ranks = next(ranks for ranks in parts if me.rank in ranks)
    tensor = me.values(me.rank, 4001, torch.float32)
    dist.all_reduce(tensor, group=group)
    same(tensor, me.total(4001, torch.float32, ranks), f"ranks {ranks}")
    dist.destroy_process_group(group)


@check
def functional_collectives(me):
    import torch.distributed._functional_collectives as functional

    world = dist.group.WORLD
    tensor = me.values(me.rank, 1003, torch.float32)
    same(functional.all_reduce(tensor, "sum", world) + 0, me.total(1003, torch.float32), "sum")
    same(tensor, me.values(me.rank, 1003, torch.float32), "the input")
    gathered = functional.all_gather_tensor(tensor, 0, world) + 0
    same(gathered, torch.cat([me.values(rank, 1003, torch.float32) for rank in range(me.world)]))
