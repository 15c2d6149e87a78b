"""Every collective of torch.distributed, compared with what it must give.

    python collectives.py --world 4
    LD_PRELOAD=.../libnccl.so.2 python collectives.py --world 4 --expect-library /that/folder
    python collectives.py --world 3 --backend gloo          (dry run without GPUs)

One line per check; exit code 1 if any failed. Inputs are small whole numbers, so that every sum is
exact in every type and every order, and results are compared exactly.
"""

import argparse
import os
import sys
import time
import traceback

sys.dont_write_bytecode = True
import launch

CHECKS = []


def check(function):
    """Makes a function a check. Every rank calls it with its `Rank`; an exception fails it."""
    CHECKS.append(function)
    return function


class Skip(Exception):
    """Says why a check does not apply here."""


class Rank:
    """What checks need to know, and the tensors that they use."""

    def __init__(self, args, rank, world, device):
        self.args, self.rank, self.world, self.device = args, rank, world, device
        self.on_gpu = device.type == "cuda"
        self.nccl = args.backend == "nccl"
        self.narrow = None

    def dtypes(self):
        """The types that the backend reduces."""
        common = [torch.float32, torch.float64, torch.float16, torch.bfloat16,
                  torch.int8, torch.uint8, torch.int32, torch.int64]
        if self.narrow is None:
            self.narrow = [dtype for dtype in (torch.float8_e4m3fn, torch.float8_e5m2)
                           if self.nccl and self.reduces(dtype)]
        return common + self.narrow

    def reduces(self, dtype):
        """Whether PyTorch lets NCCL reduce this type; it decides before it calls the library."""
        try:
            dist.all_reduce(self.values(0, 1, dtype))
        except (RuntimeError, ValueError) as error:
            if "Float8" not in str(error):
                raise
            return False
        return True

    def values(self, rank, count, dtype, shift=0):
        """What `rank` contributes: zeros and ones, in a pattern of its own."""
        index = torch.arange(count, device=self.device)
        return ((index * 7 + rank * 3 + shift) % 5 < 2).to(torch.int32).to(dtype)

    def factors(self, rank, count, dtype):
        """Contributions to a product: every element is 2 on one rank and 1 on the others."""
        index = torch.arange(count, device=self.device)
        return ((index + rank) % self.world == 0).to(torch.int32).add(1).to(dtype)

    def total(self, count, dtype, ranks=None, shift=0):
        """The sum over all ranks."""
        ranks = range(self.world) if ranks is None else ranks
        parts = [self.values(rank, count, torch.int32, shift) for rank in ranks]
        return sum(parts).to(dtype)

    def sizes(self):
        return [1, 7, 1000, 65_537] if not self.args.quick else [1, 1003]

    def full(self, count, dtype):
        """A place for results, holding what no result is."""
        return torch.full((count,), 77, device=self.device, dtype=torch.float32).to(dtype)


def same(found, expected, what=""):
    """Fails unless two tensors are equal in every element."""
    if found.shape != expected.shape:
        raise AssertionError(f"{what}: shape {tuple(found.shape)}, not {tuple(expected.shape)}")
    if found.dtype.is_floating_point:
        found, expected = found.to(torch.float64), expected.to(torch.float64)
    wrong = (found != expected).nonzero()
    if wrong.numel():
        at = tuple(wrong[0].tolist())
        raise AssertionError(f"{what}: {len(wrong)} of {found.numel()} wrong, first at {at}: "
                             f"found {found[at].item()}, expected {expected[at].item()}")


# --- reductions ---------------------------------------------------------------------------------


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


# --- copies -------------------------------------------------------------------------------------


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


# --- point to point -----------------------------------------------------------------------------


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


# --- objects, handles, groups -------------------------------------------------------------------


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


# --- CUDA -----------------------------------------------------------------------------------------


@check
def cuda_graphs(me):
    if not me.on_gpu:
        raise Skip("there are no CUDA graphs")
    count = 5003
    whole = torch.zeros(count * me.world, device=me.device)
    summed, rooted = torch.zeros(count, device=me.device), torch.zeros(count, device=me.device)
    gathered, swapped = torch.zeros_like(whole), torch.zeros_like(whole)
    part = torch.zeros(count, device=me.device)

    def work():
        dist.all_reduce(summed)
        dist.all_gather_into_tensor(gathered, part)
        dist.reduce_scatter_tensor(rooted, whole)
        dist.all_to_all_single(swapped, whole)
        dist.broadcast(part, 0)

    def load(shift):
        whole.copy_(me.values(me.rank, count * me.world, torch.float32, shift))
        summed.copy_(me.values(me.rank, count, torch.float32, shift))
        part.copy_(me.values(me.rank, count, torch.float32, shift))

    def look(shift, what):
        ranks = range(me.world)
        same(summed, me.total(count, torch.float32, shift=shift), f"{what}: all_reduce")
        parts = [me.values(rank, count, torch.float32, shift) for rank in ranks]
        same(gathered, torch.cat(parts), f"{what}: all_gather")
        mine = slice(count * me.rank, count * (me.rank + 1))
        total = me.total(count * me.world, torch.float32, shift=shift)
        same(rooted, total[mine], f"{what}: reduce_scatter")
        wholes = [me.values(rank, count * me.world, torch.float32, shift) for rank in ranks]
        same(swapped, torch.cat([other[mine] for other in wholes]), f"{what}: all_to_all")
        same(part, parts[0], f"{what}: broadcast")

    load(0)
    work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        work()
    for shift in (1, 2, 3):
        load(shift)
        graph.replay()
        torch.cuda.synchronize()
        look(shift, f"replay {shift}")
        eager = me.values(me.rank, 777, torch.float32)
        dist.all_reduce(eager)
        same(eager, me.total(777, torch.float32), "an eager call between")
        load(shift + 10)
        work()
        torch.cuda.synchronize()
        look(shift + 10, f"eager {shift}")


@check
def registered_memory_pool(me):
    if not me.on_gpu or not me.nccl:
        raise Skip("only NCCL registers memory")
    backend = dist.group.WORLD._get_backend(me.device)
    pool = torch.cuda.MemPool(backend.mem_allocator)
    with torch.cuda.use_mem_pool(pool):
        tensor = torch.empty(100_003, device=me.device)
    backend.register_mem_pool(pool)
    for _ in range(2):
        tensor.copy_(me.values(me.rank, len(tensor), torch.float32))
        dist.all_reduce(tensor)
        same(tensor, me.total(len(tensor), torch.float32))
    torch.cuda.synchronize()
    backend.deregister_mem_pool(pool)
    del tensor


@check
def one_process_with_many_gpus(me):
    if not me.on_gpu or torch.cuda.device_count() < 2:
        raise Skip("needs two GPUs")
    if me.rank != 0:
        return
    devices = range(torch.cuda.device_count())
    tensors = [torch.full((1003,), float(gpu + 1), device=f"cuda:{gpu}") for gpu in devices]
    torch.cuda.nccl.all_reduce(tensors)
    total = float(sum(gpu + 1 for gpu in devices))
    for gpu in devices:
        torch.cuda.synchronize(gpu)
        same(tensors[gpu], torch.full_like(tensors[gpu], total), f"GPU {gpu}")


@check
def very_many_calls(me):
    tensor = torch.zeros(17, device=me.device)
    times = 200 if me.args.quick or not me.on_gpu else 5000
    for _ in range(times):
        tensor += me.values(me.rank, 17, torch.float32)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
    assert tensor.max().item() <= times, tensor


# --- running them ---------------------------------------------------------------------------------

UNSUPPORTED = ("not support", "not implemented", "unsupported", "invalid scalar type",
               "not compiled", "does not have", "no backend", "cannot use reduceop")


def attempt(function, me):
    """The outcome of a check on this rank: `ok`, `skip: why`, or what went wrong."""
    try:
        function(me)
        if me.on_gpu:
            torch.cuda.synchronize()
        return "ok"
    except Skip as why:
        return f"skip: {why}"
    except Exception as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        if not me.nccl and any(word in str(error).lower() for word in UNSUPPORTED):
            return f"skip: gloo: {text[:80]}"
        if os.environ.get("MSCCL_TEST_TRACE"):
            traceback.print_exc()
        return f"{type(error).__name__}: {text[:300]}"


def agree(store, me, number, outcome):
    """What all ranks made of a check; gives up when a rank does not answer."""
    store.set(f"{number}/{me.rank}", outcome)
    outcomes = []
    for rank in range(me.world):
        try:
            outcomes.append(store.get(f"{number}/{rank}").decode())
        except Exception:
            print(f"HANG    {CHECKS[number].__name__}: rank {rank} does not come back", flush=True)
            os._exit(1)
    return outcomes


def run(args, rank, world):
    """All checks on one rank."""
    global torch, dist
    import torch
    import torch.distributed as dist

    device = launch.device(args, rank)
    launch.say_library(args, rank)
    store = launch.store(rank, world)
    bound = {"device_id": device} if args.backend == "nccl" else {}
    # The process group keeps its own keys apart from those of the checks.
    prefixed = dist.PrefixStore("group", store)
    dist.init_process_group(args.backend, store=prefixed, rank=rank, world_size=world, **bound)
    me = Rank(args, rank, world, device)
    failed = skipped = 0
    start = time.monotonic()
    chosen = [(number, function) for number, function in enumerate(CHECKS)
              if not args.only or any(name in function.__name__ for name in args.only)]
    for number, function in chosen:
        began = time.monotonic()
        outcomes = agree(store, me, number, attempt(function, me))
        bad = [f"r{rank}: {text}" for rank, text in enumerate(outcomes)
               if text != "ok" and not text.startswith("skip")]
        skips = [text for text in outcomes if text.startswith("skip")]
        failed += bool(bad)
        skipped += bool(skips and not bad)
        if rank == 0:
            verdict = "FAILED " if bad else "skipped" if skips else "ok     "
            remark = " " + "; ".join(bad or skips[:1])[:600] if bad or skips else ""
            print(f"{verdict} {function.__name__}{remark} ({time.monotonic() - began:.2f} s)",
                  flush=True)
    store.set(f"end/{rank}", "1")
    for other in range(world):
        store.get(f"end/{other}")
    began = time.monotonic()
    dist.destroy_process_group()
    if rank == 0:
        print(f"destroyed the process group in {time.monotonic() - began:.2f} s", flush=True)
        print(f"{len(chosen)} checks, {failed} failed, {skipped} skipped, {world} ranks, "
              f"{time.monotonic() - start:.1f} s", flush=True)
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--only", action="append", metavar="NAME",
                        help="only checks whose name contains this")
    launch.main(parser, run)
