"""Products of a tensor-parallel layer with the exchange before and after them.

    python products.py --ours .../libnccl.so.2            (NVIDIA's library, then ours)

Shapes are those of a Llama of 70 billion parameters: rows are tokens of all ranks, the first weight is 8192 x 28672
and the second 28672 x 8192, both split over ranks. For each number of rows: the product alone, the exchange alone,
one after the other, and overlapped: by PyTorch's asynchronous tensor parallelism under NVIDIA's library, by
`msccl.matmul` under ours. Every overlapped result is compared with the product of gathered inputs, or with the sum
of all ranks' products. Figures are medians over rounds, in microseconds, of the slowest rank.
"""

import argparse
import os
import statistics
import sys

import torch
import torch.distributed as dist

sys.dont_write_bytecode = True
import launch

DEPTH, WIDTH = 8192, 28672
FIGURES = ["product", "exchange", "one after the other", "overlapped"]


def median_us(args, device, body):
    """Of `args.times` calls a round; the slowest rank's."""
    found = []
    for number in range(args.rounds + 1):
        dist.barrier()
        torch.cuda.synchronize()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(5_000_000)
        start.record()
        for _ in range(args.times):
            body()
        end.record()
        torch.cuda.synchronize()
        us, = launch.of_slowest([start.elapsed_time(end) * 1e3 / args.times], device)
        if number > 0:
            found.append(us)
    return statistics.median(found)


def same(found, expected, what):
    """Products in other pieces are rounded otherwise."""
    error = (found.float() - expected.float()).abs().max() / expected.float().abs().max()
    assert error < 0.02, f"{what}: off by {error:.4f}"


class Layer:
    """One of the two products, with all that its variants need."""

    def __init__(self, kind, rows, rank, world, device, ours):
        torch.manual_seed(7 + rank)
        self.kind, self.world, self.ours = kind, world, ours
        self.group_name = dist.group.WORLD.group_name
        self.gathers = kind == "all-gather + product"
        depth, columns = (DEPTH, WIDTH // world) if self.gathers else (WIDTH // world, DEPTH)
        own = rows // world if self.gathers else rows
        def random(*shape):
            return torch.randn(*shape, device=device).bfloat16() / 8
        self.a, self.b = random(own, depth), random(depth, columns)
        self.whole = torch.empty(rows, depth, device=device, dtype=torch.bfloat16) if self.gathers else None
        self.out = torch.empty(rows, columns, device=device, dtype=torch.bfloat16)
        self.scattered = torch.empty(rows // world, columns, device=device, dtype=torch.bfloat16)
        if ours:
            from msccl.matmul import Products
            self.products = Products()
        else:
            import torch.distributed._symmetric_memory as symmetric
            symmetric.enable_symm_mem_for_group(self.group_name)

    def product(self):
        torch.mm(self.whole if self.gathers else self.a, self.b, out=self.out)

    def exchange(self):
        if self.gathers:
            dist.all_gather_into_tensor(self.whole, self.a)
        else:
            dist.reduce_scatter_tensor(self.scattered, self.out)

    def one_after_the_other(self):
        if self.gathers:
            self.exchange()
            self.product()
        else:
            self.product()
            self.exchange()
        return self.out if self.gathers else self.scattered

    def overlapped(self):
        if self.ours:
            if self.gathers:
                return self.products.all_gather_matmul(self.a, self.b)[1]
            return self.products.matmul_reduce_scatter(self.a, self.b)
        ops = torch.ops.symm_mem
        if self.gathers:
            return ops.fused_all_gather_matmul(self.a, [self.b], 0, self.group_name)[1][0]
        return ops.fused_matmul_reduce_scatter(self.a, self.b, "sum", 0, self.group_name)


def run(args, rank, world):
    device = launch.join(args, rank, world)
    library = launch.nccl_library()
    ours = bool(os.environ.get("LD_PRELOAD"))
    results = {"library": library, "world": world}
    for kind in ("all-gather + product", "product + reduce-scatter"):
        for rows in args.rows:
            layer = Layer(kind, rows, rank, world, device, ours)
            same(layer.overlapped(), layer.one_after_the_other(), kind)
            bodies = [layer.product, layer.exchange, layer.one_after_the_other, layer.overlapped]
            found = {name: median_us(args, device, body) for name, body in zip(FIGURES, bodies)}
            same(layer.overlapped(), layer.one_after_the_other(), kind)
            results.update({f"{kind}, {rows}, {name}": value for name, value in found.items()})
            if rank == 0:
                print(line(kind, rows, found), flush=True)
            if ours:
                layer.products.close()
    launch.leave(device)
    return results


def line(kind, rows, found):
    product, exchange, after, overlapped = (found[name] for name in FIGURES)
    longer = max(product, exchange)
    return (f"{kind:>25} {rows:>6} rows: product {product:.0f} us, exchange {exchange:.0f}, one after the other "
            f"{after:.0f}, overlapped {overlapped:.0f} ({overlapped / longer:.2f} of the longer)")


def report(theirs, ours):
    """Both libraries side by side."""
    against = {"one after the other": [], "overlapped": []}
    for name in ours:
        if not name.endswith(", overlapped"):
            continue
        kind, rows, _ = name.split(", ")
        sides = [{figure: of[f"{kind}, {rows}, {figure}"] for figure in FIGURES} for of in (theirs, ours)]
        for side, found in zip("AB", sides):
            print(f"{side} {line(kind, rows, found)}")
        for figure, ratios in against.items():
            ratios.append(sides[0][figure] / sides[1]["overlapped"])
    for figure, ratios in against.items():
        mean = statistics.geometric_mean(ratios)
        print(f"B overlapped against A {figure}: {mean:.2f} (geometric mean), least {min(ratios):.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[4096, 8192, 16384])
    parser.add_argument("--times", type=int, default=10, help="calls a round (default 10)")
    parser.add_argument("--rounds", type=int, default=7, help="of which medians are taken (default 7)")
    launch.main(parser, run, report)
