"""What is only moved: broadcast, all-gather, all-to-all, gather, scatter."""

import torch
import torch.distributed as dist

from checks.checking import Skip, check, same


@check
def broadcast_from_every_root(me):
    for root in range(me.world):
        for dtype in me.dtypes() + [torch.bool]:
            expected = me.values(root, 4001, torch.int32).to(dtype)
            tensor = expected.clone() if me.rank == root else torch.zeros_like(expected)
            dist.broadcast(tensor, root)
            same(tensor.to(torch.float32), expected.to(torch.float32), f"{dtype} root {root}")


@check
def all_gather_list(me):
    for dtype in (torch.float32, torch.bool if me.nccl else torch.int32):
        outputs = [torch.zeros(1003, device=me.device, dtype=dtype) for _ in range(me.world)]
        dist.all_gather(outputs, me.values(me.rank, 1003, torch.int32).to(dtype))
        for rank, output in enumerate(outputs):
            same(output, me.values(rank, 1003, torch.int32).to(dtype), f"{dtype} of {rank}")


@check
def all_gather_uneven_list(me):
    if not me.nccl:
        raise Skip("gloo wants equal parts")
    outputs = [me.full(50 + 7 * rank, torch.float32) for rank in range(me.world)]
    dist.all_gather(outputs, me.values(me.rank, 50 + 7 * me.rank, torch.float32))
    for rank, output in enumerate(outputs):
        same(output, me.values(rank, 50 + 7 * rank, torch.float32), f"of {rank}")


@check
def all_gather_into_tensor(me):
    for dtype in me.dtypes():
        for count in me.sizes():
            expected = torch.cat([me.values(rank, count, dtype) for rank in range(me.world)])
            flat = me.full(count * me.world, dtype)
            dist.all_gather_into_tensor(flat, me.values(me.rank, count, dtype))
            same(flat, expected, f"{dtype} x {count}")
            if not me.nccl:
                continue
            stacked = me.full(count * me.world, dtype).view(me.world, count)
            dist.all_gather_into_tensor(stacked, me.values(me.rank, count, dtype))
            same(stacked.flatten(), expected, f"stacked {dtype} x {count}")


@check
def all_gather_in_place(me):
    whole = me.full(1003 * me.world, torch.float32)
    part = whole[1003 * me.rank:][:1003]
    part.copy_(me.values(me.rank, 1003, torch.float32))
    dist.all_gather_into_tensor(whole, part)
    same(whole, torch.cat([me.values(rank, 1003, torch.float32) for rank in range(me.world)]))


@check
def all_to_all_single_equal(me):
    for dtype in me.dtypes():
        for count in me.sizes():
            send = torch.cat([me.values(me.rank, count, dtype, to) for to in range(me.world)])
            output = me.full(count * me.world, dtype)
            dist.all_to_all_single(output, send)
            parts = [me.values(rank, count, dtype, me.rank) for rank in range(me.world)]
            same(output, torch.cat(parts), f"{dtype} x {count}")


@check
def all_to_all_single_unequal(me):
    def count(source, to):
        return (source * 5 + to * 3) % 4 * 111

    send = [me.values(me.rank, count(me.rank, to), torch.float32, to) for to in range(me.world)]
    expected = [me.values(rank, count(rank, me.rank), torch.float32, me.rank)
                for rank in range(me.world)]
    output = me.full(sum(map(len, expected)), torch.float32)
    dist.all_to_all_single(output, torch.cat(send), [len(part) for part in expected],
                           [len(part) for part in send])
    same(output, torch.cat(expected))


@check
def all_to_all_lists(me):
    if not me.nccl:
        raise Skip("gloo has no all_to_all of lists")
    send = [me.values(me.rank, 10 + 3 * to, torch.float32, to) for to in range(me.world)]
    outputs = [me.full(10 + 3 * me.rank, torch.float32) for _ in range(me.world)]
    dist.all_to_all(outputs, send)
    for rank, output in enumerate(outputs):
        same(output, me.values(rank, 10 + 3 * me.rank, torch.float32, me.rank), f"from {rank}")


@check
def gather_and_scatter_every_root(me):
    for root in range(me.world):
        outputs = None
        if me.rank == root:
            outputs = [me.full(1003, torch.float32) for _ in range(me.world)]
        dist.gather(me.values(me.rank, 1003, torch.float32), outputs, root)
        for rank, output in enumerate(outputs or []):
            same(output, me.values(rank, 1003, torch.float32), f"gather from {rank}")
        inputs = None
        if me.rank == root:
            inputs = [me.values(root, 1003, torch.float32, to) for to in range(me.world)]
        output = me.full(1003, torch.float32)
        dist.scatter(output, inputs, root)
        same(output, me.values(root, 1003, torch.float32, me.rank), f"scatter from {root}")
