"""A rank does not come to an all-reduce; what do the recordings of the others have of it?

    LD_PRELOAD=.../libnccl.so.2 python hung.py

For a call of each protocol: rank 0 records (docs/TRACING.md) and joins a call that rank 1 never
joins, waits, and is killed. Of that call its file must have the begin of every thread block that
sends first, with that first move and without an end. Ends with 1 if something is missing.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
import meeting
import recordings

BYTES = {"LL": 1 << 10, "LL128": 1 << 19, "Simple": 1 << 21}
WARM_CALLS = 3
# The host reads once a second what a launch has not shown, and writes its file as often.
WAIT_S = 4
TIMEOUT_S = 120


def be_rank(rank, size):
    """Both ranks make some calls; then rank 0 makes one more. Waits to be killed."""
    import torch
    import torch.distributed as dist

    meeting.join()
    x = torch.ones(size // 2, device="cuda", dtype=torch.float16)
    for _ in range(WARM_CALLS):
        dist.all_reduce(x)
        torch.cuda.synchronize()
    if rank == 0:
        dist.all_reduce(x)
        time.sleep(WAIT_S)
    print("ready", flush=True)
    time.sleep(TIMEOUT_S)


def unfinished(records):
    """The records behind the last begin, if that launch has no end."""
    part = []
    for record in records:
        if record.kind == recordings.BEGIN:
            part = [record]
        elif record.kind == recordings.END:
            part = []
        elif part:
            part.append(record)
    return part


def make_recording(size, folder):
    """Both ranks until rank 0 has waited; what it has recorded."""
    traces = os.path.join(folder, "traces")
    ranks = meeting.start(folder, 2, {"MSCCL_TRACE": traces}, ["--bytes", str(size)],
                          stdout=subprocess.PIPE, text=True)
    said = ranks[0].stdout.readline()
    for rank in ranks:
        rank.kill()
        rank.wait()
    assert said == "ready\n", f"rank 0 did not come to its last call: {said!r}"
    files = [recordings.Recording(os.path.join(traces, name)) for name in os.listdir(traces)]
    return next(file for file in files if file.header["rank"] == 0)


def try_size(protocol, size):
    """Whether the file has what it must have of the call that hangs."""
    with tempfile.TemporaryDirectory() as folder:
        recording = make_recording(size, folder)
    parts = {track: unfinished(pieces[-1]) for track, pieces in recording.tracks.items()}
    begun = {track: part for track, part in parts.items() if part}
    moved = [track for track, part in begun.items()
             if any(record.kind == recordings.MOVE for record in part)]
    print(f"{protocol}, {size} bytes: {len(begun)} of {len(parts)} thread blocks have begun the call "
          f"that hangs, {len(moved)} have moved something", flush=True)
    return bool(moved) and len(moved) == len(begun)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bytes", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if (rank := meeting.own_rank()) is not None:
        be_rank(rank, args.bytes)
    results = [try_size(protocol, size) for protocol, size in BYTES.items()]
    print("ok" if all(results) else "FAILED: a call that hangs has left no records")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
