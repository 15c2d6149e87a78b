"""What collectives cost where they are used: decoding with tensor parallelism, and steps of DDP.

    python serve.py --world 8 --ours .../libnccl.so.2        (NVIDIA's library, then ours, and the speed-up)
    python serve.py --world 8 --out nccl.json                (whichever library there is)
    python serve.py --world 8 --only decode --layers 8       (less of it, where many ranks share a GPU)

`decode`: a model of 80 layers and hidden size 8192, sharded over the ranks, makes one token after another in a
CUDA graph: two all-reduces of batch x 8192 bfloat16 a layer. Weights are shared by every fourth layer, so that
the model fits any number of ranks; what is read from memory per token is that of a whole model.

`ddp`: eager steps of DistributedDataParallel over a stack of linear layers, gradients in buckets of 25 MiB.

Prints tokens and steps a second, medians of five; with `--ours` or `--against`, the speed-up. Without a GPU
(`--backend gloo`) all sizes are tiny and nothing is captured, which tests the script and measures nothing.
"""

import argparse
import statistics
import sys
import time
from dataclasses import dataclass, replace

import torch
import torch.distributed as dist
import torch.nn.functional as functional

sys.dont_write_bytecode = True
import launch


@dataclass
class Model:
    """What is decoded and trained."""
    hidden: int = 8192
    feed_forward: int = 28672
    layers: int = 80
    distinct_layers: int = 4
    ddp_width: int = 4096
    ddp_layers: int = 12
    repeats: int = 5


PARTS = ["decode", "ddp"]
TINY = Model(hidden=64, feed_forward=128, layers=3, distinct_layers=2, ddp_width=32, ddp_layers=2, repeats=3)


def weights(model, world, device, dtype):
    """This rank's part of the distinct layers: attention in and out, feed-forward up and down."""
    def matrix(rows, columns):
        return torch.randn(rows, columns, device=device, dtype=dtype) * 0.01

    hidden, inner, wide = model.hidden, model.hidden // world, model.feed_forward // world
    return [(matrix(hidden, 3 * inner), matrix(inner, hidden), matrix(hidden, wide), matrix(wide, hidden))
            for _ in range(model.distinct_layers)]


def token(model, x, layers, inner):
    """One token of every sequence of the batch."""
    for layer in range(model.layers):
        into, out, up, down = layers[layer % len(layers)]
        part = (x @ into)[:, :inner] @ out
        dist.all_reduce(part)
        x = functional.rms_norm(x + part, (model.hidden,))
        part = functional.gelu(x @ up) @ down
        dist.all_reduce(part)
        x = functional.rms_norm(x + part, (model.hidden,))
    return x


def median_s(model, device, work, times):
    """Median over repeats of the seconds that one of `times` calls of `work` takes."""
    def settle():
        if device.type == "cuda":
            torch.cuda.synchronize()

    results = []
    for _ in range(model.repeats):
        settle()
        dist.barrier()
        settle()
        start = time.perf_counter()
        for _ in range(times):
            work()
        settle()
        results.append((time.perf_counter() - start) / times)
    return statistics.median(results)


def decode(model, batch, world, device):
    """Tokens a second of a batch."""
    inner = model.hidden // world
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    layers = weights(model, world, device, dtype)
    x = torch.randn(batch, model.hidden, device=device, dtype=dtype)
    if device.type != "cuda":
        return batch / median_s(model, device, lambda: token(model, x, layers, inner), 2)
    stream = torch.cuda.Stream()
    # The weights are made in another stream.
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(2):
            token(model, x, layers, inner)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    # Other threads of PyTorch and of the libraries go on with what they do.
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        token(model, x, layers, inner)
    graph.replay()
    return batch / median_s(model, device, graph.replay, 10)


def ddp(model, device):
    """Eager training steps a second."""
    width = model.ddp_width
    layers = [torch.nn.Linear(width, width, device=device) for _ in range(model.ddp_layers)]
    ids = [device.index] if device.type == "cuda" else None
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), device_ids=ids)
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    x = torch.randn(256, width, device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        net(x).square().mean().backward()
        optimizer.step()

    for _ in range(5):
        step()
    return 1 / median_s(model, device, step, 20)


def run(args, rank, world):
    device = launch.join(args, rank, world)
    model = Model() if device.type == "cuda" else TINY
    results = {"library": launch.nccl_library(), "world": world}

    def add(name, value):
        results[name] = value
        if rank == 0:
            print(f"{name:34} {value:10.1f}", flush=True)

    if args.layers:
        model = replace(model, layers=args.layers)
    if "decode" in args.only:
        for batch in args.batch:
            add(f"decode, batch {batch}, tokens/s", decode(model, batch, world, device))
    if "ddp" in args.only:
        add("ddp, steps/s", ddp(model, device))
    launch.leave(device)
    return results


def report(theirs, ours):
    """What became faster by how much."""
    print(f"A: {theirs['library']}\nB: {ours['library']}\n{'medians':34} {'A':>10} {'B':>10}  speed-up")
    for name, b in ours.items():
        a = theirs.get(name)
        if isinstance(a, float):
            print(f"{name:34} {a:10.1f} {b:10.1f}  {b / a:8.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 64], help="sequences (default 1 8 64)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="default: both")
    parser.add_argument("--layers", type=int, help="of the model that decodes (default 80)")
    launch.main(parser, run, report)
