"""Do the bits of an element depend on the size of its call?

    LD_PRELOAD=.../libnccl.so.2 MSCCL_ORDER=flat python invariance.py --ranks 4

Every rank all-reduces one vector as a whole. Then it does so again in pieces of many sizes, at many
offsets, in and out of place, in a CUDA graph, and as a reduce-scatter with an all-gather behind it,
and compares all bits with those of the whole. The vector is also the output of a layer that is
split over the ranks, for a batch of 64 rows: rows alone, rows in batches of every size, and the
whole batch three times.

Without LD_PRELOAD the same is measured of NCCL, as it comes, or as NCCL_ALGO and its relatives pin
it. NCCL needs a GPU for each rank; ranks of ours share GPUs where there are fewer.
"""

import argparse
import os
import sys
import tempfile

sys.dont_write_bytecode = True
import meeting


def sizes(most):
    """Elements of pieces: powers of two and what lies 7/5 above them."""
    size = 1
    while size <= most:
        yield size
        if size * 7 // 5 not in (size, 2 * size) and size * 7 // 5 <= most:
            yield size * 7 // 5
        size *= 2


class Rank:
    """One rank, its vector, and the all-reduce of all of it."""

    def __init__(self, torch, dist, data_type, elements, ranks, rank):
        self.torch, self.dist, self.ranks = torch, dist, ranks
        generator = torch.Generator().manual_seed(rank + 1)
        values = torch.randn(elements, generator=generator) * 10 ** (rank % 3)
        self.input = values.to(data_type).cuda()
        self.whole = self.input.clone()
        dist.all_reduce(self.whole)

    def differ(self, result, start):
        """How many elements of `result` have other bits than the whole from `start` on."""
        torch = self.torch
        expected = self.whole[start:start + result.numel()]
        kind = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[result.element_size()]
        return int((result.view(kind) != expected.view(kind)).sum())

    def pieces(self, size, repeats):
        """Elements that differ if pieces of `size` are reduced, at shifted offsets."""
        found, compared = 0, 0
        for repeat in range(repeats):
            start = (repeat * 977 + repeat) % max(1, self.input.numel() - size + 1)
            # The shift moves the address, so that it is not aligned.
            buffer = self.input.new_empty(size + repeat)[repeat:]
            buffer.copy_(self.input[start:start + size])
            self.dist.all_reduce(buffer)
            found += self.differ(buffer, start)
            compared += size
        return found, compared

    def scattered(self, size):
        """Elements that differ if a reduce-scatter and an all-gather take the place."""
        block = max(1, size // self.ranks)
        size = block * self.ranks
        part = self.input.new_empty(block)
        self.dist.reduce_scatter_tensor(part, self.input[:size].contiguous())
        result = self.input.new_empty(size)
        self.dist.all_gather_into_tensor(result, part)
        return self.differ(result, 0), size

    def rows(self, batch=64):
        """Elements that differ if rows of a batch are reduced in batches of other sizes."""
        hidden = self.input.numel() // batch
        found, compared = 0, 0
        for rows in (1, 2, 3, 5, 8, 13, 32):
            for first in range(0, batch - rows + 1, rows):
                part = self.input[first * hidden:(first + rows) * hidden].clone()
                self.dist.all_reduce(part)
                found += self.differ(part, first * hidden)
                compared += part.numel()
        return found, compared

    def runs(self, times=3):
        """Elements that differ if the whole is reduced again."""
        found = 0
        for _ in range(times):
            again = self.input.clone()
            self.dist.all_reduce(again)
            found += self.differ(again, 0)
        return found, times * self.input.numel()

    def replayed(self, size):
        """Elements that differ if the all-reduce runs from a graph, twice."""
        torch = self.torch
        buffer, graph = self.input[:size].clone(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self.dist.all_reduce(buffer)
        found = 0
        for _ in range(2):
            buffer.copy_(self.input[:size])
            graph.replay()
            found += self.differ(buffer, 0)
        return found, 2 * size


def be_rank(arguments, rank):
    import torch
    import torch.distributed as dist

    meeting.join()
    types = [torch.float32, torch.float16, torch.bfloat16, torch.int32]
    total = 0
    for data_type in types:
        elements = arguments.bytes // data_type.itemsize
        one = Rank(torch, dist, data_type, elements, arguments.ranks, rank)
        counts = {"pieces": (0, 0), "scattered": (0, 0), "graphs": (0, 0)}
        for size in sizes(elements):
            repeats = 4 if size <= 1 << 16 else 1
            for name, ran in [("pieces", one.pieces(size, repeats)),
                              ("scattered", one.scattered(size)),
                              ("graphs", one.replayed(size) if size <= 1 << 20 else (0, 0))]:
                counts[name] = tuple(map(sum, zip(counts[name], ran)))
        counts["rows"], counts["runs"] = one.rows(), one.runs()
        if rank == 0:
            said = ", ".join(f"{name} {found} of {all}" for name, (found, all) in counts.items())
            print(f"{str(data_type)[6:]:9} elements that differ: {said}", flush=True)
        total += sum(found for found, _ in counts.values())
    dist.barrier()
    torch.cuda.synchronize()
    sys.stdout.flush()
    # Communicators that hold graphs end with the process.
    os._exit(1 if total else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--bytes", type=int, default=64 << 20, help="of the whole")
    arguments = parser.parse_args()
    if (rank := meeting.own_rank()) is not None:
        be_rank(arguments, rank)
    with tempfile.TemporaryDirectory() as folder:
        ranks = meeting.start(folder, arguments.ranks, arguments=sys.argv[1:])
        ends = [rank.wait() for rank in ranks]
    print("ok" if not any(ends) else f"DIFFERENT or failed: the ranks ended with {ends}")
    sys.exit(1 if any(ends) else 0)


if __name__ == "__main__":
    main()
