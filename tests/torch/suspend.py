"""Gives up the memory of a communicator, makes it again, and puts into windows of peers, on GPUs.

    python suspend.py --world 2 --library .../libnccl.so.2

Makes a communicator of its own through the C API of the library, beside PyTorch, which only brings
the ranks together and holds the buffers: all-reduces, also from a CUDA graph, before and after
`ncclCommSuspend` and `ncclCommResume`, as often as `--cycles` says, with the free memory of the
GPU; then `ncclPutSignal` and `ncclWaitSignal` between neighbours.
"""

import argparse
import ctypes
import sys

import torch
import torch.distributed as dist

sys.dont_write_bytecode = True
import launch

FLOAT, SUM, SUSPEND_MEM, SYMMETRIC = 7, 0, 1, 1


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_byte * 128)]


class WaitSignal(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int) for name in ("count", "peer", "index", "context")]


class Communicator:
    """One rank of a communicator of `library`."""

    def __init__(self, library, me, world):
        self.library = ctypes.CDLL(library)
        unique = UniqueId()
        if me == 0:
            self.call("ncclGetUniqueId", ctypes.byref(unique))
        shared = [bytes(unique.bytes)]
        dist.broadcast_object_list(shared, src=0)
        ctypes.memmove(ctypes.byref(unique), shared[0], 128)
        self.handle = ctypes.c_void_p()
        self.call("ncclCommInitRank", ctypes.byref(self.handle), world, unique, me)

    def call(self, name, *arguments):
        result = getattr(self.library, name)(*arguments)
        if result != 0:
            last = self.library.ncclGetLastError
            last.restype = ctypes.c_char_p
            raise RuntimeError(f"{name} gave {result}: {last(None)}")

    def all_reduce(self, tensor):
        memory = address(tensor)
        count = ctypes.c_size_t(tensor.numel())
        self.call("ncclAllReduce", memory, memory, count, FLOAT, SUM, self.handle, stream())

    def figure(self, which):
        value = ctypes.c_uint64()
        self.call("ncclCommMemStats", self.handle, which, ctypes.byref(value))
        return value.value


def address(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


def stream():
    return ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)


def check_sums(communicator, me, world, sizes=(1, 1000, 300000, 20000000)):
    for size in sizes:
        tensor = torch.full((size,), float(me + 1), device="cuda")
        communicator.all_reduce(tensor)
        torch.cuda.synchronize()
        assert bool((tensor == world * (world + 1) / 2).all()), f"wrong sum of {size}"


def captured(communicator, tensor):
    communicator.all_reduce(tensor)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        communicator.all_reduce(tensor)
    return graph


def check_replay(graph, tensor, me, world):
    tensor.fill_(float(me + 1))
    graph.replay()
    torch.cuda.synchronize()
    assert bool((tensor == world * (world + 1) / 2).all()), "wrong sum of a graph"


def cycles(communicator, me, world, count):
    """Suspends and resumes; free memory of the GPU, while suspended and after, first and last."""
    free = lambda: torch.cuda.mem_get_info()[0] >> 20
    seen = []
    for turn in range(count):
        torch.cuda.synchronize()
        dist.barrier()
        communicator.call("ncclCommSuspend", communicator.handle, SUSPEND_MEM)
        suspended = free()
        communicator.call("ncclCommResume", communicator.handle)
        if turn in (0, count - 1):
            seen.append((suspended, free()))
        check_sums(communicator, me, world, sizes=(1000, 300000))
    return seen


def put_and_wait(communicator, me, world, turns):
    """Writes into the next rank's window, turn by turn; what was put before a signal is there."""
    # Windows are memory of the library.
    memory = ctypes.c_void_p()
    elements = 1 << 20
    count, size_bytes = ctypes.c_size_t(elements), ctypes.c_size_t(4 * elements)
    communicator.call("ncclMemAlloc", ctypes.byref(memory), size_bytes)
    window = ctypes.c_void_p()
    communicator.call("ncclCommWindowRegister", communicator.handle, memory, size_bytes,
                      ctypes.byref(window), SYMMETRIC)
    source = torch.empty(elements, device="cuda")
    result = torch.empty(elements, device="cuda")
    cudart = ctypes.CDLL("libcudart.so." + torch.version.cuda.split(".")[0])
    to_peer, from_peer = (me + 1) % world, (me - 1) % world
    for turn in range(turns):
        source.fill_(float(100 * turn + me))
        communicator.call("ncclPutSignal", address(source), count, FLOAT, to_peer, window,
                          ctypes.c_size_t(0), 0, 0, 0, communicator.handle, stream())
        wait = WaitSignal(1, from_peer, 0, 0)
        communicator.call("ncclWaitSignal", 1, ctypes.byref(wait), communicator.handle, stream())
        copied = cudart.cudaMemcpyAsync(address(result), memory, size_bytes, 3, stream())
        assert copied == 0
        torch.cuda.synchronize()
        assert bool((result == float(100 * turn + from_peer)).all()), f"turn {turn}: {result[:4]}"
        dist.barrier()
    communicator.call("ncclCommWindowDeregister", communicator.handle, window)
    communicator.call("ncclMemFree", memory)


def run(args, me, world):
    device = launch.join(args, me, world)
    communicator = Communicator(args.library, me, world)
    check_sums(communicator, me, world)
    tensor = torch.ones(5000, device="cuda")
    graph = captured(communicator, tensor)
    check_replay(graph, tensor, me, world)
    total, freed = communicator.figure(3), communicator.figure(0)
    seen = cycles(communicator, me, world, args.cycles)
    check_sums(communicator, me, world)
    check_replay(graph, tensor, me, world)
    put_and_wait(communicator, me, world, 20)
    communicator.call("ncclCommDestroy", communicator.handle)
    if me == 0:
        (suspended, resumed), (last_suspended, last_resumed) = seen[0], seen[-1]
        print(f"memory: {total >> 20} MiB, of which {freed >> 20} MiB are freed; free on the GPU "
              f"while suspended {suspended} MiB, after {resumed}; "
              f"after {args.cycles} cycles {last_suspended} and {last_resumed}")
        print("sums, graph and windows: right")
    launch.leave(device)


def main():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--library", required=True, help="whose communicators are suspended")
    parser.add_argument("--cycles", type=int, default=500)
    launch.main(parser, run)


if __name__ == "__main__":
    main()
