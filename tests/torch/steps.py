"""Steps of training, with DDP and FSDP2, and how much of each is communication.

    python steps.py --ours .../libnccl.so.2 --turns 7        (NVIDIA's library and ours, in turns)

A stack of linear layers in bfloat16. The products of a layer take as long as its rows times the square of its width,
and its communication as the square alone. So rows say what communication can hide behind: 512 are few, and thousands
are many. The width says whether bandwidth matters, or latency and launches. DDP has sizes of all kinds. FSDP2 takes
its host so long for every layer that narrow ones would time that: its layers are few and wide. The *share* is what a
step takes longer than one of the same model without any other rank.

Steps a second: medians of the repeats of a turn, then of turns; the spread is that of the turns. Without a GPU
(`--backend gloo`) all sizes are tiny, which tests the script and measures nothing.
"""

import argparse
import statistics
import sys
import time
import typing

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

sys.dont_write_bytecode = True
import launch


class Size(typing.NamedTuple):
    """Of a model, and of what goes through it."""

    layers: int
    width: int
    rows: int

    def steps(self):
        """How many steps make a repeat: the same on all ranks."""
        weights = self.layers * self.width**2
        step_s = 6 * self.rows * weights / FLOP_PER_S + 6 * weights / BYTES_PER_S
        return max(4, min(20, int(REPEAT_S / step_s)))

    def __str__(self):
        return f"{self.layers} x {self.width}, {self.rows} rows"


SIZES = {
    "ddp": [Size(8, width, 512) for width in (1024, 2048, 4096, 8192)] + [Size(8, 8192, 4096)],
    "fsdp2": [Size(4, 16384, 512), Size(4, 24576, 512), Size(4, 16384, 8192)],
}
TINY = Size(8, 16, 512)
REPEATS = 3
# A repeat is to last so long, by what an H100 does in a second.
REPEAT_S, FLOP_PER_S, BYTES_PER_S = 0.3, 7e14, 3e11


def layers(size, device):
    torch.manual_seed(3)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    linear = [torch.nn.Linear(size.width, size.width, device=device, dtype=dtype) for _ in range(size.layers)]
    return torch.nn.Sequential(*linear)


def spread_out(way, net, device):
    """The model as `way` has it on all ranks; `None` is a model of this rank alone."""
    if way == "ddp":
        ids = [device.index] if device.type == "cuda" else None
        return torch.nn.parallel.DistributedDataParallel(net, device_ids=ids)
    if way == "fsdp2":
        for layer in net:
            fully_shard(layer)
        fully_shard(net)
    return net


def steps_per_s(way, size, device, repeats):
    net = spread_out(way, layers(size, device), device)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    x = torch.randn(size.rows, size.width, device=device, dtype=next(net.parameters()).dtype)

    def settle():
        if device.type == "cuda":
            torch.cuda.synchronize()
        dist.barrier()

    def steps(times):
        for _ in range(times):
            optimizer.zero_grad(set_to_none=True)
            net(x).float().square().mean().backward()
            optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()

    steps(3)
    found = []
    for _ in range(repeats):
        settle()
        start = time.perf_counter()
        steps(size.steps())
        found.append(size.steps() / (time.perf_counter() - start))
    return statistics.median(found)


def run(args, rank, world):
    device = launch.join(args, rank, world)
    results = {"library": launch.nccl_library(), "world": world}
    for way in args.ways:
        for size in SIZES[way] if device.type == "cuda" else [TINY]:
            alone = steps_per_s(None, size, device, 1)
            together = steps_per_s(way, size, device, REPEATS)
            share = max(0.0, 1 - together / alone)
            results[f"{way}, {size}, steps/s"], results[f"{way}, {size}, share"] = together, share
            if rank == 0:
                print(f"{way:6} {size} {together:9.1f} steps/s, {100 * share:5.1f} % communication", flush=True)
    launch.leave(device)
    return results


def report(theirs, ours):
    print(f"A: {theirs['library']}\nB: {ours['library']}")
    print(f"{'':28} {'A':>9} spread {'B':>9} spread  share of A  speed-up")
    ratios = []
    for name, b in ours.items():
        if not name.endswith("steps/s") or name not in theirs:
            continue
        a, case = theirs[name], name.removesuffix(", steps/s")
        ratios.append(b / a)
        spreads = [of["spread"][name] for of in (theirs, ours)]
        print(f"{case:28} {a:9.1f} {100 * spreads[0]:5.1f}% {b:9.1f} {100 * spreads[1]:5.1f}% "
              f"{100 * theirs[f'{case}, share']:9.1f}% {b / a:9.3f}", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ways", nargs="+", choices=SIZES, default=list(SIZES))
    launch.main(parser, run, report)
