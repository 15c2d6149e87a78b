"""Starts one process per rank on this host, without torchrun.

A script calls `launch.main(parser, run)`. Started by a person it is the parent, which starts itself
once for every rank and waits; started by the parent it is a rank and calls `run(args, rank, world)`.
Environment variables such as LD_PRELOAD reach the ranks as they are.
"""

import os
import socket
import subprocess
import sys
import time

RANK = "MSCCL_TEST_RANK"
PORT = "MSCCL_TEST_PORT"
GRACE_S = 20


def main(parser, run):
    """Parses the command line and is either the parent or a rank. Never returns."""
    parser.add_argument("--world", type=int, default=2, help="ranks (default 2)")
    parser.add_argument("--backend", choices=["nccl", "gloo"], default="nccl")
    parser.add_argument("--device", choices=["cuda", "cpu"], default=None,
                        help="where tensors live (default: cuda for nccl, cpu for gloo)")
    parser.add_argument("--timeout", type=int, default=600, metavar="SECONDS",
                        help="most time for everything (default 600)")
    parser.add_argument("--expect-library", metavar="TEXT",
                        help="fail unless the path of the mapped NCCL library contains this")
    args = parser.parse_args()
    args.device = args.device or ("cuda" if args.backend == "nccl" else "cpu")
    if RANK in os.environ:
        run(args, int(os.environ[RANK]), args.world)
        sys.stdout.flush()
        sys.exit(0)
    sys.exit(parent(args))


def parent(args):
    """Starts the ranks; the exit code of the first that failed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(args.world):
        environment = dict(os.environ, **{RANK: str(rank), PORT: str(port)})
        ranks.append(subprocess.Popen([sys.executable, *sys.argv], env=environment))
    end = time.monotonic() + args.timeout
    failed = None
    while any(rank.poll() is None for rank in ranks):
        codes = [(number, rank.poll()) for number, rank in enumerate(ranks)]
        bad = [(number, code) for number, code in codes if code not in (None, 0)]
        if bad and failed is None:
            failed = bad[0]
            print(f"rank {failed[0]} ended with {failed[1]}", flush=True)
            end = min(end, time.monotonic() + GRACE_S)
        if time.monotonic() > end:
            waiting = [number for number, code in codes if code is None]
            print(f"ranks {waiting} do not end and are killed", flush=True)
            for rank in ranks:
                rank.kill()
            return failed[1] if failed else 1
        time.sleep(0.05)
    codes = [rank.wait() for rank in ranks]
    return next((code for code in codes if code != 0), 0)


def store(rank, world):
    """The store by which the ranks find one another; rank 0 serves it."""
    import datetime

    import torch.distributed as dist

    port = int(os.environ[PORT])
    wait = datetime.timedelta(seconds=120)
    return dist.TCPStore("127.0.0.1", port, world, is_master=rank == 0, timeout=wait)


def device(args, rank):
    """The device of a rank; ranks share GPUs where these are fewer."""
    import torch

    if args.device == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        sys.exit("there is no GPU; --backend gloo --device cpu runs what gloo can")
    here = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(here)
    return here


def nccl_libraries():
    """The files of all NCCL libraries that this process has mapped."""
    with open("/proc/self/maps") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "/" in line}
    return sorted(path for path in paths if "libnccl" in os.path.basename(path))


def say_library(args, rank):
    """Prints which NCCL library this process has mapped, so that nobody measures another one."""
    found = nccl_libraries()
    if rank == 0:
        print(f"NCCL library: {', '.join(found) or 'none'}", flush=True)
    if args.expect_library and not any(args.expect_library in path for path in found):
        sys.exit(f"expected a library whose path contains {args.expect_library!r}, found {found}")
    if len(found) > 1:
        sys.exit(f"more than one NCCL library is mapped: {found}")
