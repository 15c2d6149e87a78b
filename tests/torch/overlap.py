"""Computation and communication at once: matrix products beside an all-reduce.

    python overlap.py --world 8 --ours .../libnccl.so.2      (NVIDIA's library, then ours)
    python overlap.py --world 8 --mib 64 256                 (whichever library there is)

For every size: an all-reduce of bfloat16 alone, matrix products that take about as long alone, and both at once in
two streams, each repeated so often that a round takes milliseconds. Rounds of the three take turns; the figures are
medians over rounds, in microseconds per all-reduce, of the slowest rank. The efficiency says how much of what
could be hidden was:

    (products + all-reduce - both) / min(products, all-reduce)

1 if the shorter of the two costs nothing, 0 if they might as well run one after the other. One line of JSON follows
for every size. With `--ours` both libraries are measured beside the same products.

Without a GPU (`--backend gloo`) all sizes are tiny: it tests the script and measures nothing.
"""

import argparse
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist

sys.dont_write_bytecode = True
import launch

WARM_UP = 3
# Products are square in the output, and about so long each: the all-reduce finds room whenever one ends.
PRODUCT_SIDE = 4096
PRODUCT_US = 100.0
DEPTH_STEP = 64


class Streams:
    """Two streams and events of a GPU, or the clock of a host, where there is one after the other."""

    def __init__(self, device):
        self.on_gpu = device.type == "cuda"
        if self.on_gpu:
            self.compute, self.traffic = torch.cuda.Stream(), torch.cuda.Stream()

    def elapsed_us(self, products, reduces, times):
        """How long `times` calls of both take, each in its stream; `None` for one that is left out."""
        if not self.on_gpu:
            return self.elapsed_on_host_us(products, reduces, times)
        cuda = torch.cuda
        start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        main = cuda.current_stream()
        # While the GPU sleeps for about a millisecond, the host gets ahead of it.
        cuda._sleep(2_000_000)
        start.record(main)
        works = [(stream, work) for stream, work in ((self.traffic, reduces), (self.compute, products))
                 if work]
        for stream, _ in works:
            stream.wait_event(start)
        for _ in range(times):
            for stream, work in works:
                with cuda.stream(stream):
                    work()
        for stream, _ in works:
            main.wait_stream(stream)
        end.record(main)
        end.synchronize()
        return start.elapsed_time(end) * 1e3

    @staticmethod
    def elapsed_on_host_us(products, reduces, times):
        start = time.perf_counter()
        for _ in range(times):
            for work in (reduces, products):
                if work:
                    work()
        return (time.perf_counter() - start) * 1e6


class Products:
    """So many products of a side x depth matrix by a depth x side matrix."""

    def __init__(self, count, side, depth, device, dtype):
        self.shape = [count, side, side, depth]
        self.left = torch.randn(side, depth, device=device, dtype=dtype)
        self.right = torch.randn(depth, side, device=device, dtype=dtype)
        self.out = torch.empty(side, side, device=device, dtype=dtype)

    def __call__(self):
        for _ in range(self.shape[0]):
            torch.mm(self.left, self.right, out=self.out)


def settle(device):
    dist.barrier()
    if device.type == "cuda":
        torch.cuda.synchronize()


def mean_us(streams, device, products, reduces, times):
    """Of one call among `times`, after some to warm up, on the slowest rank."""
    streams.elapsed_us(products, reduces, WARM_UP)
    settle(device)
    mean, = launch.of_slowest([streams.elapsed_us(products, reduces, times) / times], device)
    return mean


def fitting(streams, target_us, device, dtype):
    """Products that take about `target_us` together, the same on all ranks."""
    side = PRODUCT_SIDE if streams.on_gpu else 64
    deep = 64 * DEPTH_STEP if streams.on_gpu else DEPTH_STEP
    us_per_depth = mean_us(streams, device, Products(1, side, deep, device, dtype), None, 10) / deep
    count = max(2, round(target_us / PRODUCT_US)) if streams.on_gpu else 2
    depth = max(1, round(target_us / count / us_per_depth / DEPTH_STEP)) * DEPTH_STEP
    return Products(count, side, min(depth, 64 * deep), device, dtype)


def measure(args, size, shape, streams, device):
    """Products, of `shape` if it is given, and the figures of one size beside them."""
    dtype = torch.bfloat16 if streams.on_gpu else torch.float32
    tensor = torch.zeros(size // dtype.itemsize, device=device, dtype=dtype)

    def reduces():
        dist.all_reduce(tensor)

    reduce_us = mean_us(streams, device, None, reduces, 10)
    times = max(3, min(50, round(10_000 / reduce_us)))
    if shape:
        count, side, _, depth = shape
        products = Products(count, side, depth, device, dtype)
    else:
        products = fitting(streams, reduce_us, device, dtype)
    kinds = {"products_us": (products, None), "allreduce_us": (None, reduces), "both_us": (products, reduces)}
    rounds = {name: [] for name in kinds}
    for _ in range(args.rounds):
        for name, (left, right) in kinds.items():
            rounds[name].append(mean_us(streams, device, left, right, times))
    found = {name: statistics.median(values) for name, values in rounds.items()}
    shorter = min(found["products_us"], found["allreduce_us"])
    found["efficiency"] = (found["products_us"] + found["allreduce_us"] - found["both_us"]) / shorter
    return products.shape, found


def run(args, rank, world):
    device = launch.join(args, rank, world)
    streams = Streams(device)
    results = {"library": launch.nccl_library(), "world": world}
    unit, unit_name = (1 << 20, "MiB") if streams.on_gpu else (1 << 10, "KiB")
    earlier = launch.earlier(args)
    for mib in args.mib:
        size = f"{mib} {unit_name}"
        shape, found = measure(args, mib * unit, earlier.get(f"{size}, shape"), streams, device)
        results[f"{size}, shape"] = shape
        results.update({f"{size}, {name}": value for name, value in found.items()})
        if rank == 0:
            print(line(size, found, shape), flush=True)
            print(json.dumps({"bytes": mib * unit, "world": world, "library": results["library"],
                              "products": shape, **found}), flush=True)
    launch.leave(device)
    return results


def line(name, found, shape):
    count, rows, columns, depth = shape
    return (f"{name:>8}: {count} products of {rows} x {depth} x {columns} {found['products_us']:.1f} us, "
            f"all-reduce {found['allreduce_us']:.1f} us, both {found['both_us']:.1f} us, "
            f"efficiency {found['efficiency']:.3f}")


def report(theirs, ours):
    """Both libraries side by side."""
    print(f"A: {theirs['library']}\nB: {ours['library']}")
    names = [("products", "products_us"), ("all-reduce", "allreduce_us"), ("both", "both_us")]
    head = "".join(f"{label + ' A':>14}{'B':>10}" for label, _ in names)
    print(f"{'us':>9}{head}{'efficiency A':>15}{'B':>8}{'both, speed-up':>17}")
    for size in [name.split(",")[0] for name in ours if name.endswith(", shape")]:
        if f"{size}, both_us" not in theirs:
            continue
        pairs = [(theirs[f"{size}, {name}"], ours[f"{size}, {name}"]) for _, name in names]
        cells = "".join(f"{a:14.1f}{b:10.1f}" for a, b in pairs)
        one, other = theirs[f"{size}, efficiency"], ours[f"{size}, efficiency"]
        a, b = pairs[-1]
        print(f"{size:>9}{cells}{one:15.3f}{other:8.3f}{a / b:17.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, nargs="+", default=[64, 128, 256, 512, 1024],
                        help="sizes of the all-reduce (default 64 128 256 512 1024)")
    parser.add_argument("--rounds", type=int, default=9, help="of which medians are taken (default 9)")
    launch.main(parser, run, report)
