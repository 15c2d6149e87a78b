"""Starts one process per rank on this host, without torchrun.

A script calls `launch.main(parser, run)`. Started by a person it is the parent, which starts itself
once for every rank and waits; started by the parent it is a rank and calls `run(args, rank, world)`.
Environment variables such as LD_PRELOAD reach the ranks as they are.

A script that measures gives `report` as well, and its `run` returns on rank 0 a dictionary of what was
measured. Then `--ours LIBRARY` runs all ranks with the library that is there and again with LIBRARY preloaded,
in turns, and `report(theirs, ours)` compares the medians. `--out` keeps what was measured (of a comparison both, as
`theirs` and `ours`), `--against` compares with what was kept.
"""

import ctypes
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

RANK = "TORCH_TEST_RANK"
PORT = "TORCH_TEST_PORT"
OUT = "TORCH_TEST_OUT"
EARLIER = "TORCH_TEST_EARLIER"
GRACE_S = 20


def main(parser, run, report=None):
    """Parses the command line and is either the parent or a rank. Never returns."""
    parser.add_argument("--world", type=int, default=2, help="ranks (default 2)")
    parser.add_argument("--backend", choices=["nccl", "gloo"], default="nccl")
    parser.add_argument("--device", choices=["cuda", "cpu"], default=None,
                        help="where tensors live (default: cuda for nccl, cpu for gloo)")
    parser.add_argument("--hosts", type=int, default=1, metavar="N",
                        help="let the ranks believe that they live on N hosts (default 1)")
    parser.add_argument("--timeout", type=int, default=600, metavar="SECONDS",
                        help="most time for all ranks, each time they are started (default 600)")
    parser.add_argument("--expect-library", metavar="TEXT",
                        help="fail unless the path of the NCCL library in use contains this")
    if report:
        parser.add_argument("--ours", metavar="LIBRARY",
                            help="measure twice, the second time with this library preloaded, and compare")
        parser.add_argument("--turns", type=int, default=1,
                            help="with --ours, how often the libraries take turns (default 1)")
        parser.add_argument("--out", metavar="FILE", help="where the results go, as JSON")
        parser.add_argument("--against", metavar="FILE", help="an earlier --out to compare with")
    args = parser.parse_args()
    args.device = args.device or ("cuda" if args.backend == "nccl" else "cpu")
    if RANK in os.environ:
        be_rank(args, run)
        sys.exit(0)
    sys.exit(compare(args, report) if report else start_ranks(args, {}))


def be_rank(args, run):
    """This process is a rank; what it measured goes to its parent."""
    me = int(os.environ[RANK])
    results = run(args, me, args.world)
    if me == 0 and results is not None and OUT in os.environ:
        write(os.environ[OUT], results)
    sys.stdout.flush()


def compare(args, report):
    """Measures, once or with both libraries in turns; reports and returns the exit code."""
    against = earlier(args)
    preloads = [None, os.path.abspath(args.ours)] if check_ours(args) else [None]
    measured = [[] for _ in preloads]
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(args.turns if args.ours else 1):
            order = range(len(preloads)) if turn % 2 == 0 else reversed(range(len(preloads)))
            for number in order:
                code = measure(args, folder, preloads[number], measured[number])
                if code != 0:
                    return code
    found = [medians(results) for results in measured]
    if args.out:
        write(args.out, dict(zip(("theirs", "ours"), found)) if args.ours else found[0])
    if args.ours:
        report(*found)
    elif against:
        report(against, found[0])
    return 0


def check_ours(args):
    """Whether two libraries are to be compared; ends the program where that makes no sense."""
    if not args.ours:
        return False
    if not os.path.isfile(args.ours):
        sys.exit(f"--ours: there is no file {args.ours}")
    if os.environ.get("LD_PRELOAD"):
        sys.exit(f"--ours is for runs without LD_PRELOAD, which is {os.environ['LD_PRELOAD']}")
    if args.expect_library or args.against:
        sys.exit("--ours goes with neither --expect-library nor --against")
    return True


def measure(args, folder, preload, results):
    """Starts the ranks, with `preload` preloaded unless it is `None`, and adds what they measured to `results`.

    Files of the comparison lie in `folder`; what the first run measured all others know.
    """
    out, first = os.path.join(folder, "results.json"), os.path.join(folder, "first.json")
    more = {OUT: out}
    if preload:
        more["LD_PRELOAD"] = preload
    if os.path.exists(first):
        more[EARLIER] = first
    code = start_ranks(args, more)
    if code != 0:
        return code
    if not os.path.exists(out):
        print("rank 0 has measured nothing", flush=True)
        return 1
    results.append(read(out))
    os.replace(out, first if EARLIER not in more else out)
    return 0


def earlier(args):
    """What was measured before and is compared with: in this comparison, or by `--against`. Empty if there is
    nothing."""
    path = os.environ.get(EARLIER) or args.against
    results = read(path) if path else {}
    # A comparison has two.
    return results.get("ours", results)


def read(path):
    with open(path) as file:
        return json.load(file)


def write(path, results):
    with open(path, "w") as file:
        json.dump(results, file, indent=1)


def medians(turns):
    """One dictionary of several: medians of what was measured, and of all else the first. `spread` has how far the
    turns are apart, as a part of the median."""
    values = {name: [turn[name] for turn in turns] for name, value in turns[0].items() if isinstance(value, float)}
    found = dict(turns[0], **{name: statistics.median(of) for name, of in values.items()})
    found["spread"] = {name: (max(of) - min(of)) / found[name] if found[name] else 0.0
                       for name, of in values.items()}
    return found


def start_ranks(args, more):
    """Starts the ranks, with `more` in their environment; the exit code of the first that failed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    ranks = []
    for rank in range(args.world):
        environment = dict(os.environ, **more, **{RANK: str(rank), PORT: str(port)})
        if args.hosts > 1:
            environment["NCCL_HOSTID"] = f"host{rank * args.hosts // args.world}"
        ranks.append(subprocess.Popen([sys.executable, *sys.argv], env=environment))
    try:
        return wait(args, ranks)
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()


def wait(args, ranks):
    """Waits until all ranks have ended, or time is up; the exit code of the first that failed."""
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


def of_slowest(values, device):
    """The largest of what ranks have, value by value."""
    import torch
    import torch.distributed as dist

    tensor = torch.tensor(values, device=device, dtype=torch.float64)
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor.tolist()


def join(args, rank, world):
    """The device of a rank that has joined the process group of all."""
    import torch.distributed as dist

    here = device(args, rank)
    say_library(args, rank)
    bound = {"device_id": here} if args.backend == "nccl" else {}
    dist.init_process_group(args.backend, store=store(rank, world), rank=rank, world_size=world,
                            **bound)
    return here


def leave(device):
    """Leaves the process group when all have come so far: rank 0 has the store, which others need until then."""
    import torch
    import torch.distributed as dist

    dist.barrier()
    if device.type == "cuda":
        torch.cuda.synchronize()
    dist.destroy_process_group()


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
    preloaded = os.environ.get("LD_PRELOAD", "") if getattr(args, "ours", None) else ""
    if preloaded and os.path.realpath(preloaded) != os.path.realpath(library):
        sys.exit(f"{preloaded} was preloaded, but PyTorch calls {library}")
