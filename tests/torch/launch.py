"""Starts one process per rank on this host, without torchrun.

A script calls `launch.main(parser, run)`. Started by a person it is the parent, which starts itself
once for every rank and waits; started by the parent it is a rank and calls `run(args, rank, world)`.
Environment variables such as LD_PRELOAD reach the ranks as they are.
"""

import ctypes
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
    parser.add_argument("--hosts", type=int, default=1, metavar="N",
                        help="let the ranks believe that they live on N hosts (default 1)")
    parser.add_argument("--timeout", type=int, default=600, metavar="SECONDS",
                        help="most time for everything (default 600)")
    parser.add_argument("--expect-library", metavar="TEXT",
                        help="fail unless the path of the NCCL library in use contains this")
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
        if args.hosts > 1:
            environment["NCCL_HOSTID"] = f"host{rank * args.hosts // args.world}"
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


def mapped():
    """The mapped files of this process: start, end and path of every piece."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith("/"):
                start, end = (int(number, 16) for number in fields[0].split("-"))
                yield start, end, fields[5].strip()


def nccl_library():
    """The file whose functions PyTorch calls.

    That NVIDIA's library is mapped proves nothing: importing PyTorch opens it by its path whatever
    was preloaded. Calls go to the first library of the global scope that has the function, which is
    a preloaded one if there is any, and else to what libtorch_cuda.so depends on.
    """
    scopes = [ctypes.CDLL(None)]
    scopes += [ctypes.CDLL(path) for path in {path for *_, path in mapped()}
               if os.path.basename(path) == "libtorch_cuda.so"]
    for scope in scopes:
        try:
            address = ctypes.cast(scope.ncclAllReduce, ctypes.c_void_p).value
        except AttributeError:
            continue
        return next((path for start, end, path in mapped() if start <= address < end), "unknown")
    return "none"


def say_library(args, rank):
    """Prints whose functions PyTorch calls, so that nobody measures another library."""
    library = nccl_library()
    if rank == 0:
        print(f"NCCL library: {library}", flush=True)
    if args.expect_library and args.expect_library not in library:
        sys.exit(f"expected a library whose path contains {args.expect_library!r}, not {library}")
