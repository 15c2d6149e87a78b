"""Collectives of CuPy, compared with what they must give: one thread for each rank.

    LD_PRELOAD=.../libnccl.so.2 python cupy_collectives.py
    LD_PRELOAD=.../libnccl.so.2 MSCCL_DEVICE=host python cupy_collectives.py --host --world 4

`--host` has arrays of NumPy instead of GPUs: our library takes them with MSCCL_DEVICE=host, and
NVIDIA's takes none. Numbers are small integers, so every order of additions gives the same.
"""

import argparse
import contextlib
import faulthandler
import sys
from concurrent.futures import ThreadPoolExecutor

sys.dont_write_bytecode = True
import launch

#: Elements that a rank has for each rank; odd, so that blocks are not aligned.
COUNT = 4099
#: Types of elements.
TYPES = ("float32", "int64")
#: How long all of it may take.
LIMIT_S = 300


class Rank:
    """A rank with its communicator, and arrays where the library takes them."""

    def __init__(self, args, uid, rank):
        import cupy.cuda.nccl as nccl
        import numpy

        self.rank, self.world, self.nccl, self.numpy = rank, args.world, nccl, numpy
        self.cupy = None if args.host else __import__("cupy")
        with self.device():
            self.comm = nccl.NcclCommunicator(args.world, uid, rank)

    def device(self):
        return self.cupy.cuda.Device(self.rank) if self.cupy else contextlib.nullcontext()

    def call(self, function, values, elements, dtype, rest):
        """What `function` of the communicator makes of `values`, in `elements` elements."""
        module = self.cupy or self.numpy
        given, found = module.asarray(values, dtype), module.zeros(elements, dtype)
        kind = {"float32": self.nccl.NCCL_FLOAT32, "int64": self.nccl.NCCL_INT64}[dtype]
        pointers = [array.data.ptr if self.cupy else array.ctypes.data for array in (given, found)]
        getattr(self.comm, function)(*pointers, *rest(self.nccl, kind), 0)
        if self.cupy:
            self.cupy.cuda.Stream.null.synchronize()
            return self.cupy.asnumpy(found)
        return found


def checks(world):
    """By name: the function, the elements of a result, the arguments between the pointers and the
    stream, and what rank `r` must have of the rows of all ranks."""
    return {
        "all-reduce": ("allReduce", world * COUNT,
                       lambda nccl, kind: (world * COUNT, kind, nccl.NCCL_SUM),
                       lambda rows, r: rows.sum(0)),
        "all-reduce, max": ("allReduce", world * COUNT,
                            lambda nccl, kind: (world * COUNT, kind, nccl.NCCL_MAX),
                            lambda rows, r: rows.max(0)),
        "reduce-scatter": ("reduceScatter", COUNT,
                           lambda nccl, kind: (COUNT, kind, nccl.NCCL_SUM),
                           lambda rows, r: rows.sum(0)[r * COUNT:(r + 1) * COUNT]),
        "all-gather": ("allGather", world * world * COUNT,
                       lambda nccl, kind: (world * COUNT, kind),
                       lambda rows, r: rows.reshape(-1)),
        "broadcast": ("broadcast", world * COUNT,
                      lambda nccl, kind: (world * COUNT, kind, world - 1),
                      lambda rows, r: rows[-1]),
    }


def run(args, uid, rank):
    """The names of checks with a wrong result on one rank."""
    import numpy

    me, wrong = Rank(args, uid, rank), []
    with me.device():
        for name, (function, elements, rest, expected) in checks(args.world).items():
            for dtype in TYPES:
                for turn in range(args.turns):
                    generator = numpy.random.default_rng(turn)
                    rows = generator.integers(-8, 8, (args.world, args.world * COUNT))
                    found = me.call(function, rows[rank], elements, dtype, rest)
                    if not numpy.array_equal(found, expected(rows, rank)):
                        wrong.append(f"{name} of {dtype}")
        me.comm.destroy()
    return wrong


def needed(args):
    """What is missing here; nothing if all is there. Fills in how many ranks there are."""
    try:
        import cupy
        from cupy.cuda import nccl
        nccl.get_version()
    except (ImportError, AttributeError) as error:
        return f"CuPy with NCCL is not installed: {error}"
    if not args.host:
        try:
            gpus = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            return f"two GPUs are needed: {error}"
        if gpus < 2:
            return f"two GPUs are needed, CuPy {cupy.__version__} sees {gpus}"
        args.world = min(args.world or gpus, gpus)
    args.world = args.world or 2
    print(f"CuPy {cupy.__version__}, NCCL {nccl.get_version()}, {args.world} ranks", flush=True)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--host", action="store_true", help="arrays of the host, no GPUs")
    parser.add_argument("--world", type=int, help="ranks (default: one for each GPU, or 2)")
    parser.add_argument("--turns", type=int, default=5, help="calls of each kind (default 5)")
    parser.add_argument("--expect-library", metavar="TEXT",
                        help="fail unless the path of the preloaded library contains this")
    args = parser.parse_args()
    faulthandler.dump_traceback_later(LIMIT_S, exit=True)
    missing = needed(args)
    if missing:
        print(f"SKIPPED: {missing}")
        return
    launch.say_library(args, 0)
    from cupy.cuda import nccl

    uid = nccl.get_unique_id()
    with ThreadPoolExecutor(args.world) as ranks:
        running = [ranks.submit(run, args, uid, rank) for rank in range(args.world)]
        wrong = {rank: found.result() for rank, found in enumerate(running)}
    names = [f"{name} of {dtype}" for name in checks(args.world) for dtype in TYPES]
    for name in names:
        bad = [rank for rank, found in wrong.items() if name in found]
        print(f"WRONG  {name}, on ranks {bad}" if bad else f"ok     {name}")
    sys.exit(any(wrong.values()))


if __name__ == "__main__":
    main()
