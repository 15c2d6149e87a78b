"""Matrix products beside collectives of others: which of the two waits for which.

    python beside.py --ours .../libnccl.so.2              (NVIDIA's library, then ours)
    MSCCL_SM_BUDGET=0 python beside.py --windows          (whichever library there is)

16 products of 8192 x 8192 matrices in bfloat16 on one stream, 64 collectives of 32 MiB on another one of higher
priority, as a layer does that fetches weights of the next. Each alone and both at once take turns; the figures are
medians over rounds, in milliseconds, of the slowest rank: products alone, collectives alone, both, and when the
collectives of both had ended. With `--windows` tensors of collectives lie in memory that all ranks register as
windows, which copy engines need.

Products of cuBLAS start as many thread blocks as the GPU has multiprocessors, each of which stays to the end. If
others hold some, the last blocks begin when the first have ended, and a product takes twice its time. With
`--leave N` the products beside collectives leave N multiprocessors free; those alone have all.

Without a GPU (`--backend gloo`) all sizes are tiny: it tests the script and measures nothing.
"""

import argparse
import statistics
import sys
import time

import torch
import torch.distributed as dist

sys.dont_write_bytecode = True
import launch

KINDS = ["all_gather", "all_to_all", "reduce_scatter"]
FIGURES = ["products", "collectives", "both", "collectives of both"]


class Work:
    """Products and collectives of one kind."""

    def __init__(self, args, kind, rank, world, device):
        self.kind, self.on_gpu = kind, device.type == "cuda"
        self.products, self.times = (args.products, args.times) if self.on_gpu else (2, 2)
        side, unit = (8192, 1 << 20) if self.on_gpu else (32, 1 << 10)
        dtype = torch.bfloat16 if self.on_gpu else torch.float32
        self.leave = args.leave
        self.left = torch.randn(side, side, device=device, dtype=dtype)
        self.out = torch.empty_like(self.left)
        elements = args.mib * unit // self.left.element_size() // world * world
        self.pool = self.windows(device) if args.windows and self.on_gpu else None
        if self.pool:
            with torch.cuda.use_mem_pool(self.pool):
                self.whole, self.other = (torch.zeros(elements, device=device, dtype=dtype) for _ in range(2))
            dist.group.WORLD._get_backend(device).register_mem_pool(self.pool, symm=True)
        else:
            self.whole, self.other = (torch.zeros(elements, device=device, dtype=dtype) for _ in range(2))
        self.own = self.whole.chunk(world)[rank]
        if self.on_gpu:
            low, high = torch.cuda.Stream.priority_range()
            self.compute, self.traffic = torch.cuda.Stream(priority=low), torch.cuda.Stream(priority=high)

    @staticmethod
    def windows(device):
        return torch.cuda.MemPool(dist.group.WORLD._get_backend(device).mem_allocator)

    def product(self):
        torch.mm(self.left, self.left, out=self.out)

    def collective(self):
        match self.kind:
            case "all_gather":
                dist.all_gather_into_tensor(self.whole, self.own)
            case "all_to_all":
                dist.all_to_all_single(self.whole, self.other)
            case "reduce_scatter":
                dist.reduce_scatter_tensor(self.own, self.whole)

    def run(self, products, collectives):
        """Milliseconds until all has ended, and until the collectives have."""
        if not self.on_gpu:
            start = time.perf_counter()
            for _ in range(self.products if products else 0):
                self.product()
            for _ in range(self.times if collectives else 0):
                self.collective()
            return [(time.perf_counter() - start) * 1e3] * 2
        torch._C._set_sm_carveout_experimental(self.leave if products and collectives else None)
        events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
        start, end, done = events
        # While the GPU sleeps, the host gets ahead of it.
        torch.cuda._sleep(20_000_000)
        start.record()
        for stream in (self.traffic, self.compute):
            stream.wait_event(start)
        with torch.cuda.stream(self.compute):
            for _ in range(self.products if products else 0):
                self.product()
        with torch.cuda.stream(self.traffic):
            for _ in range(self.times if collectives else 0):
                self.collective()
            done.record()
        for stream in (self.traffic, self.compute):
            torch.cuda.current_stream().wait_stream(stream)
        end.record()
        torch.cuda.synchronize()
        return [start.elapsed_time(end), start.elapsed_time(done)]

    def close(self, device):
        if self.pool:
            dist.group.WORLD._get_backend(device).deregister_mem_pool(self.pool)


def measure(args, kind, rank, world, device):
    work = Work(args, kind, rank, world, device)
    rounds = {name: [] for name in FIGURES}
    for number in range(args.rounds + 1):
        found = []
        for products, collectives in ((True, False), (False, True), (True, True)):
            dist.barrier()
            if work.on_gpu:
                torch.cuda.synchronize()
            found.append(launch.of_slowest(work.run(products, collectives), device))
        # The first round warms up.
        if number > 0:
            for name, value in zip(FIGURES, [found[0][0], found[1][1], *found[2]]):
                rounds[name].append(value)
    work.close(device)
    return {name: statistics.median(values) for name, values in rounds.items()}


def run(args, rank, world):
    device = launch.join(args, rank, world)
    if args.leave:
        # The one that heeds how many multiprocessors to leave.
        torch.backends.cuda.preferred_blas_library("cublaslt")
    results = {"library": launch.nccl_library(), "world": world}
    for kind in args.kinds:
        found = measure(args, kind, rank, world, device)
        results.update({f"{kind}, {name}": value for name, value in found.items()})
        if rank == 0:
            print(line(kind, found), flush=True)
    launch.leave(device)
    return results


def line(kind, found):
    products, collectives, both, done = (found[name] for name in FIGURES)
    return (f"{kind:>14}: products {products:.1f} ms, collectives {collectives:.1f}, both {both:.1f} "
            f"({both / products:.2f} of products), collectives end after {done:.1f} "
            f"({done / collectives:.2f} of alone)")


def report(theirs, ours):
    """Both libraries side by side."""
    print(f"A: {theirs['library']}\nB: {ours['library']}")
    for kind in KINDS:
        for side, of in (("A", theirs), ("B", ours)):
            if f"{kind}, both" in of:
                print(f"{side} {line(kind, {name: of[f'{kind}, {name}'] for name in FIGURES})}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--mib", type=int, default=32, help="bytes of the larger tensor (default 32 MiB)")
    parser.add_argument("--products", type=int, default=16)
    parser.add_argument("--times", type=int, default=64, help="collectives beside them (default 64)")
    parser.add_argument("--rounds", type=int, default=7, help="of which medians are taken (default 7)")
    parser.add_argument("--windows", action="store_true", help="register tensors of collectives as windows")
    parser.add_argument("--leave", type=int, help="multiprocessors that products beside collectives leave free")
    launch.main(parser, run, report)
