"""Sums, products, extremes and means: all-reduce, reduce, reduce-scatter."""

import torch
import torch.distributed as dist

from checks.checking import Skip, check, same


@check
def all_reduce_types_and_sizes(me):
    for dtype in me.dtypes():
        for count in me.sizes():
            tensor = me.values(me.rank, count, dtype)
            dist.all_reduce(tensor)
            same(tensor, me.total(count, dtype), f"{dtype} x {count}")


@check
def all_reduce_operators(me):
    for dtype in me.dtypes():
        count = 1003
        parts = torch.stack([me.values(rank, count, torch.int32) for rank in range(me.world)])
        product = torch.full((count,), 2, device=me.device, dtype=torch.int32)
        expected = {dist.ReduceOp.MIN: parts.amin(0), dist.ReduceOp.MAX: parts.amax(0)}
        for operator, result in expected.items():
            tensor = me.values(me.rank, count, dtype)
            dist.all_reduce(tensor, operator)
            same(tensor, result.to(dtype), f"{operator} {dtype}")
        tensor = me.factors(me.rank, count, dtype)
        dist.all_reduce(tensor, dist.ReduceOp.PRODUCT)
        same(tensor, product.to(dtype), f"PRODUCT {dtype}")


@check
def all_reduce_average(me):
    if not me.nccl:
        raise Skip("gloo does not average all types")
    for dtype in me.dtypes():
        # Multiples of the number of ranks, so that the mean is whole, and their sum is small.
        sign = -1 if me.rank % 2 and dtype != torch.uint8 else 1
        tensor = torch.full((1003,), sign * me.world, device=me.device, dtype=torch.int32)
        tensor = tensor.to(dtype)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        mean = me.world if dtype == torch.uint8 else me.world % 2
        expected = torch.full((1003,), mean, device=me.device, dtype=torch.int32)
        same(tensor, expected.to(dtype), str(dtype))


@check
def all_reduce_premultiplied(me):
    if not me.nccl:
        raise Skip("only NCCL multiplies before it adds")
    make = torch._C._distributed_c10d._make_nccl_premul_sum
    for dtype in (torch.float32, torch.float64, torch.float16):
        tensor = me.values(me.rank, 1003, dtype)
        dist.all_reduce(tensor, make(2.0))
        same(tensor, me.total(1003, dtype) * 2, f"{dtype} by a number")
        tensor = me.values(me.rank, 1003, dtype)
        dist.all_reduce(tensor, make(torch.full((1,), 4.0, device=me.device, dtype=dtype)))
        same(tensor, me.total(1003, dtype) * 4, f"{dtype} by a tensor")


@check
def all_reduce_bool_and_complex(me):
    flags = me.values(me.rank, 1003, torch.int32) > 0
    if me.nccl:
        dist.all_reduce(flags)
        same(flags, me.total(1003, torch.int32) > 0, "bool")
    real = me.values(me.rank, 1003, torch.float32)
    tensor = torch.complex(real, real * 2)
    dist.all_reduce(tensor)
    total = me.total(1003, torch.float32)
    same(torch.view_as_real(tensor), torch.view_as_real(torch.complex(total, total * 2)), "complex")


@check
def all_reduce_empty_and_large(me):
    empty = me.values(me.rank, 0, torch.float32)
    dist.all_reduce(empty)
    count = (1 << 20) + 3 if me.args.quick or not me.on_gpu else (1 << 25) + 3
    tensor = me.values(me.rank, count, torch.float32)
    dist.all_reduce(tensor)
    same(tensor, me.total(count, torch.float32), f"{count} elements")


@check
def all_reduce_misaligned(me):
    for shift in (1, 2, 3, 5):
        whole = me.full(5000, torch.float16)
        part = whole[shift:shift + 4001]
        part.copy_(me.values(me.rank, 4001, torch.float16))
        dist.all_reduce(part)
        same(part, me.total(4001, torch.float16), f"shifted by {shift}")
        same(whole[shift + 4001:], me.full(5000 - shift - 4001, torch.float16), "what follows")
        same(whole[:shift], me.full(shift, torch.float16), "what precedes")


@check
def reduce_to_every_root(me):
    for root in range(me.world):
        tensor = me.values(me.rank, 4001, torch.float32)
        dist.reduce(tensor, root)
        if me.rank == root:
            same(tensor, me.total(4001, torch.float32), f"root {root}")


@check
def reduce_scatter_list(me):
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        inputs = [me.values(me.rank, 1003, dtype, shift=rank) for rank in range(me.world)]
        output = me.full(1003, dtype)
        dist.reduce_scatter(output, inputs)
        same(output, me.total(1003, dtype, shift=me.rank), str(dtype))


@check
def reduce_scatter_uneven_list(me):
    if not me.nccl:
        raise Skip("gloo wants equal parts")
    inputs = [me.values(me.rank, 100 + 13 * rank, torch.float32, rank) for rank in range(me.world)]
    output = me.full(100 + 13 * me.rank, torch.float32)
    dist.reduce_scatter(output, inputs)
    same(output, me.total(100 + 13 * me.rank, torch.float32, shift=me.rank))


@check
def reduce_scatter_tensor(me):
    for dtype in me.dtypes():
        for count in me.sizes():
            whole = me.values(me.rank, count * me.world, dtype)
            output = me.full(count, dtype)
            dist.reduce_scatter_tensor(output, whole)
            expected = me.total(count * me.world, dtype)[count * me.rank:][:count]
            same(output, expected, f"{dtype} x {count}")


@check
def reduce_scatter_in_place(me):
    whole = me.values(me.rank, 1003 * me.world, torch.float32)
    part = whole[1003 * me.rank:][:1003]
    dist.reduce_scatter_tensor(part, whole)
    same(part, me.total(1003 * me.world, torch.float32)[1003 * me.rank:][:1003])
