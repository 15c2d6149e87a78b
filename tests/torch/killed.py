"""A rank is killed; what does another one read behind its next all-reduce?

    LD_PRELOAD=.../libnccl.so.2 python killed.py

A survivor may wait, or learn of the failure, or end. It must never read a result. Every way is tried with
PyTorch's watchdog as it comes, with the watchdog told to do nothing, and with kernels that fault
(MSCCL_ON_FAILURE=trap).
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import meeting

ELEMENTS = 1 << 20
# How long a survivor may wait before it counts as one that waits.
PATIENCE_S = 15

WAYS = {
    "as it comes": {},
    "no watchdog": {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0"},
    "kernels fault": {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "0", "MSCCL_ON_FAILURE": "trap"},
}


def be_rank(rank):
    """Rank 1 is killed after the first all-reduce; rank 0 makes another one, and looks."""
    import torch
    import torch.distributed as dist

    meeting.join()
    x = torch.ones(ELEMENTS, device="cuda")
    dist.all_reduce(x)
    torch.cuda.synchronize()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(1)
    x.fill_(3)
    began = time.monotonic()
    try:
        dist.all_reduce(x)
        values = x.cpu()
    except Exception as error:  # Whatever it is, it was told.
        print(f"raised after {time.monotonic() - began:.2f} s: {str(error).splitlines()[0]}", flush=True)
        os._exit(0)
    print(f"READ {values[:4].tolist()} after {time.monotonic() - began:.2f} s", flush=True)
    os._exit(1)


def try_way(name, variables):
    """Whether the survivor read nothing."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = meeting.start(folder, 2, variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
        ranks[1].wait()
        try:
            said, complaint = ranks[0].communicate(timeout=PATIENCE_S)
            said = said.strip() or f"ended with {ranks[0].returncode}: {complaint.strip()[-200:]}"
        except subprocess.TimeoutExpired:
            ranks[0].kill()
            said, complaint = ranks[0].communicate()
            said = said.strip() or f"waits, for {PATIENCE_S} s and more"
        report = [line for line in complaint.splitlines() if line.lstrip().startswith("=>")]
        print(f"{name}: {said}", *report[:1], sep="\n    ", flush=True)
        return "READ" not in said


def main():
    if (rank := meeting.own_rank()) is not None:
        be_rank(rank)
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    results = [try_way(name, variables) for name, variables in WAYS.items()]
    print("ok" if all(results) else "FAILED: an unfinished result was read")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
