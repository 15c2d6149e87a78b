"""Every collective of torch.distributed, compared with what it must give.

    python collectives.py --world 4
    LD_PRELOAD=.../libnccl.so.2 python collectives.py --world 4 --expect-library /that/folder
    python collectives.py --world 3 --backend gloo          (dry run without GPUs)

One line per check; exit code 1 if any failed. Inputs are small whole numbers, so that every sum is
exact in every type and every order, and results are compared exactly. The checks are in `checks/`.
"""

import argparse
import os
import sys
import time
import traceback

import torch
import torch.distributed as dist

sys.dont_write_bytecode = True
import launch
from checks import copies, cuda, groups, point_to_point, reductions  # noqa: F401
from checks.checking import CHECKS, Rank, Skip

UNSUPPORTED = ("not support", "not implemented", "unsupported", "invalid scalar type",
               "not compiled", "does not have", "no backend", "cannot use reduceop")


def attempt(function, me):
    """The outcome of a check on this rank: `ok`, `skip: why`, or what went wrong."""
    try:
        function(me)
        if me.on_gpu:
            torch.cuda.synchronize()
        return "ok"
    except Skip as why:
        return f"skip: {why}"
    except Exception as error:
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        if not me.nccl and any(word in str(error).lower() for word in UNSUPPORTED):
            return f"skip: gloo: {text[:80]}"
        if os.environ.get("TORCH_TEST_TRACE"):
            traceback.print_exc()
        return f"{type(error).__name__}: {text[:300]}"


def agree(store, me, number, outcome):
    """What all ranks made of a check; gives up when a rank does not answer."""
    store.set(f"{number}/{me.rank}", outcome)
    outcomes = []
    for rank in range(me.world):
        try:
            outcomes.append(store.get(f"{number}/{rank}").decode())
        except Exception:
            print(f"HANG    {CHECKS[number].__name__}: rank {rank} does not come back", flush=True)
            os._exit(1)
    return outcomes


def run(args, rank, world):
    """All checks on one rank."""
    device = launch.device(args, rank)
    launch.say_library(args, rank)
    store = launch.store(rank, world)
    bound = {"device_id": device} if args.backend == "nccl" else {}
    # The process group keeps its own keys apart from those of the checks.
    prefixed = dist.PrefixStore("group", store)
    dist.init_process_group(args.backend, store=prefixed, rank=rank, world_size=world, **bound)
    me = Rank(args, rank, world, device)
    failed = skipped = 0
    start = time.monotonic()
    chosen = [(number, function) for number, function in enumerate(CHECKS)
              if not args.only or any(name in function.__name__ for name in args.only)]
    for number, function in chosen:
        began = time.monotonic()
        outcomes = agree(store, me, number, attempt(function, me))
        bad = [f"r{rank}: {text}" for rank, text in enumerate(outcomes)
               if text != "ok" and not text.startswith("skip")]
        skips = [text for text in outcomes if text.startswith("skip")]
        failed += bool(bad)
        skipped += bool(skips and not bad)
        if rank == 0:
            verdict = "FAILED " if bad else "skipped" if skips else "ok     "
            remark = " " + "; ".join(bad or skips[:1])[:600] if bad or skips else ""
            print(f"{verdict} {function.__name__}{remark} ({time.monotonic() - began:.2f} s)",
                  flush=True)
    store.set(f"end/{rank}", "1")
    for other in range(world):
        store.get(f"end/{other}")
    began = time.monotonic()
    dist.destroy_process_group()
    if rank == 0:
        print(f"destroyed the process group in {time.monotonic() - began:.2f} s", flush=True)
        print(f"{len(chosen)} checks, {failed} failed, {skipped} skipped, {world} ranks, "
              f"{time.monotonic() - start:.1f} s", flush=True)
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="smaller sizes")
    parser.add_argument("--only", action="append", metavar="NAME",
                        help="only checks whose name contains this")
    launch.main(parser, run)
