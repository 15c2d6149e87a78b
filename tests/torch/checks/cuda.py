"""CUDA graphs, memory of the library, estimates, one process with many GPUs, very many calls."""

import concurrent.futures
import ctypes

import torch
import torch.distributed as dist

from checks.checking import Skip, check, same


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
def memory_while_a_graph_is_recorded(me):
    """Allocators ask the library for memory at any time, and a recording forbids that to those who do not take care."""
    if not me.on_gpu or not me.nccl:
        raise Skip("needs NCCL on GPUs")
    library = ctypes.CDLL("libnccl.so.2")
    memory, results = ctypes.c_void_p(), []
    tensor = me.values(me.rank, 1003, torch.float32)
    dist.all_reduce(tensor)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        dist.all_reduce(tensor)
        for size in (100, 5 << 20):
            results.append(library.ncclMemAlloc(ctypes.byref(memory), ctypes.c_size_t(size)))
            results.append(library.ncclMemFree(memory))
    if any(results):
        raise AssertionError(f"ncclMemAlloc and ncclMemFree gave {results}")
    tensor.copy_(me.values(me.rank, 1003, torch.float32, 1))
    graph.replay()
    torch.cuda.synchronize()
    same(tensor, me.total(1003, torch.float32, shift=1))


@check
def memory_is_freed_when_nothing_uses_it(me):
    """Memory is not taken away from kernels, not even while a graph is recorded."""
    if not me.on_gpu or not me.nccl:
        raise Skip("needs NCCL on GPUs")
    library, memory = ctypes.CDLL("libnccl.so.2"), ctypes.c_void_p()
    cycles = 300_000_000  # 0.1 s and more
    torch.cuda._sleep(1)
    torch.cuda.synchronize()

    def check_free(when):
        torch.cuda.set_device(me.device)
        assert library.ncclMemAlloc(ctypes.byref(memory), ctypes.c_size_t(1000)) == 0
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda._sleep(cycles)
            is_over = torch.cuda.Event()
            is_over.record()
        assert library.ncclMemFree(memory) == 0
        if not is_over.query():
            raise AssertionError(f"memory was freed while kernels may have used it, {when}")

    check_free("without a graph")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="thread_local"):
        with concurrent.futures.ThreadPoolExecutor(1) as worker:
            worker.submit(check_free, "while a graph is recorded").result()


@check
def estimates(me):
    """Whoever asks how long calls would take learns it, or that nobody knows; the calls do not happen."""
    if not me.on_gpu or not me.nccl:
        raise Skip("only NCCL estimates")
    tensor = me.full(1003, torch.float32)
    with dist._time_estimator(group=dist.group.WORLD, device=me.device) as estimator:
        dist.all_reduce(tensor)
    torch.cuda.synchronize()
    if not isinstance(estimator.estimated_time, float):
        raise AssertionError(f"the estimate is {estimator.estimated_time!r}")
    same(tensor, me.full(1003, torch.float32))


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
