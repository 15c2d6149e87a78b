"""Steps of training, with DDP and FSDP2, and how much of each is communication.

    python steps.py --ours .../libnccl.so.2 --turns 7        (NVIDIA's library and ours, in turns)

A stack of linear layers in bfloat16, in four widths. Beside wide layers communication hides, since products grow
with the cube of the width and gradients with its square; narrow ones are all communication and launches. Rows are
few, so that the widths between are those where it matters which library there is. The *share* is what a step takes
longer than one of the same model without any other rank.

Steps a second: medians of the repeats of a turn, then of turns; the spread is that of the turns. Without a GPU
(`--backend gloo`) all sizes are tiny, which tests the script and measures nothing.
"""

import argparse
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

sys.dont_write_bytecode = True
import launch

WAYS = ["ddp", "fsdp2"]
WIDTHS = [1024, 2048, 4096, 8192]
LAYERS, ROWS, STEPS, REPEATS = 8, 512, 20, 5


def layers(width, device):
    torch.manual_seed(3)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    linear = [torch.nn.Linear(width, width, device=device, dtype=dtype) for _ in range(LAYERS)]
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


def steps_per_s(way, width, device):
    net = spread_out(way, layers(width, device), device)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-4)
    x = torch.randn(ROWS, width, device=device, dtype=next(net.parameters()).dtype)

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
    for _ in range(REPEATS):
        settle()
        start = time.perf_counter()
        steps(STEPS)
        found.append(STEPS / (time.perf_counter() - start))
    return statistics.median(found)


def run(args, rank, world):
    device = launch.join(args, rank, world)
    results = {"library": launch.nccl_library(), "world": world}
    for width in args.widths if device.type == "cuda" else [16]:
        alone = steps_per_s(None, width, device)
        for way in args.ways:
            together = steps_per_s(way, width, device)
            results[f"{way}, {width}, steps/s"] = together
            results[f"{way}, {width}, share"] = max(0.0, 1 - together / alone)
            if rank == 0:
                print(f"{way:6} {width:6} {together:9.1f} steps/s, {100 * (1 - together / alone):5.1f} % "
                      "communication", flush=True)
    launch.leave(device)
    return results


def report(theirs, ours):
    print(f"A: {theirs['library']}\nB: {ours['library']}")
    print(f"{'':16} {'A':>9} spread {'B':>9} spread  share of A  speed-up")
    ratios = []
    for name, b in ours.items():
        if not name.endswith("steps/s") or name not in theirs:
            continue
        a, case = theirs[name], name.removesuffix(", steps/s")
        ratios.append(b / a)
        spreads = [of["spread"][name] for of in (theirs, ours)]
        print(f"{case:16} {a:9.1f} {100 * spreads[0]:5.1f}% {b:9.1f} {100 * spreads[1]:5.1f}% "
              f"{100 * theirs[f'{case}, share']:9.1f}% {b / a:9.3f}", flush=True)
    print(f"geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--widths", nargs="+", type=int, default=WIDTHS)
    launch.main(parser, run, report)
