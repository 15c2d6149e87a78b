"""What collectives cost where they are used: decoding with tensor parallelism, and steps of DDP.

    python serve.py --world 8 --out nccl.json
    LD_PRELOAD=.../libnccl.so.2 python serve.py --world 8 --out ours.json --against nccl.json

`decode`: a model of 80 layers and hidden size 8192, sharded over the ranks, makes one token after another in a
CUDA graph: two all-reduces of batch x 8192 bfloat16 a layer. Weights are shared by every fourth layer, so that
the model fits any number of ranks; what is read from memory per token is that of a whole model.

`ddp`: eager steps of DistributedDataParallel over a stack of linear layers, gradients in buckets of 25 MiB.

Prints tokens and steps a second, medians of five; with `--against`, the ratio to an earlier run.
"""

import argparse
import json
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn.functional as functional

sys.dont_write_bytecode = True
import launch

HIDDEN = 8192
FEED_FORWARD = 28672
LAYERS = 80
DISTINCT_LAYERS = 4
REPEATS = 5


def weights(world, device):
    """This rank's part of the distinct layers: attention in and out, feed-forward up and down."""
    def matrix(rows, columns):
        return torch.randn(rows, columns, device=device, dtype=torch.bfloat16) * 0.01

    inner, wide = HIDDEN // world, FEED_FORWARD // world
    return [(matrix(HIDDEN, 3 * inner), matrix(inner, HIDDEN), matrix(HIDDEN, wide), matrix(wide, HIDDEN))
            for _ in range(DISTINCT_LAYERS)]


def token(x, layers, inner):
    """One token of every sequence of the batch."""
    for layer in range(LAYERS):
        into, out, up, down = layers[layer % len(layers)]
        part = (x @ into)[:, :inner] @ out
        dist.all_reduce(part)
        x = functional.rms_norm(x + part, (HIDDEN,))
        part = functional.gelu(x @ up) @ down
        dist.all_reduce(part)
        x = functional.rms_norm(x + part, (HIDDEN,))
    return x


def median_s(work, times):
    """Median over repeats of the seconds that one of `times` calls of `work` takes."""
    results = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        dist.barrier()
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(times):
            work()
        torch.cuda.synchronize()
        results.append((time.perf_counter() - start) / times)
    return statistics.median(results)


def decode(batch, world, device):
    """Tokens a second of a batch."""
    layers = weights(world, device)
    x = torch.randn(batch, HIDDEN, device=device, dtype=torch.bfloat16)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(2):
            token(x, layers, HIDDEN // world)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        token(x, layers, HIDDEN // world)
    graph.replay()
    return batch / median_s(graph.replay, 10)


def ddp(device):
    """Eager training steps a second."""
    layers = [torch.nn.Linear(4096, 4096, device=device) for _ in range(12)]
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), device_ids=[device.index])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(256, 4096, device=device)

    def step():
        optimizer.zero_grad(set_to_none=True)
        model(x).square().mean().backward()
        optimizer.step()

    for _ in range(5):
        step()
    return 1 / median_s(step, 20)


def run(args, rank, world):
    device = launch.device(args, rank)
    launch.say_library(args, rank)
    dist.init_process_group("nccl", store=launch.store(rank, world), rank=rank, world_size=world,
                            device_id=device)
    results = {}
    for batch in args.batch:
        results[f"decode, batch {batch}, tokens/s"] = decode(batch, world, device)
    results["ddp, steps/s"] = ddp(device)
    if rank == 0:
        earlier = json.load(open(args.against)) if args.against else {}
        for name, value in results.items():
            ratio = f"  {value / earlier[name]:.3f} of {args.against}" if name in earlier else ""
            print(f"{name:34} {value:10.1f}{ratio}", flush=True)
        if args.out:
            json.dump(results, open(args.out, "w"), indent=1)
    torch.cuda.synchronize()
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--out", help="where the results go, as JSON")
    parser.add_argument("--against", help="an earlier --out to compare with")
    launch.main(parser, run)
