"""Ranks that find one another by a file, so that any of them may end before the others.

A script `start`s itself once for every rank. In a process that was started so, `own_rank` says
which rank it is, and `join` makes it one. (`launch.py` ends all ranks when one of them fails.)
"""

import os
import subprocess
import sys

RANK = "TORCH_TEST_RANK"
WORLD = "TORCH_TEST_WORLD"
MEETING = "TORCH_TEST_MEETING"


def start(folder, world, variables=None, arguments=(), **options):
    """The processes of all ranks, which meet in `folder`; with further environment `variables`, the
    `arguments` of the script, and `options` as of `subprocess.Popen`."""
    environment = {**os.environ, **(variables or {}), WORLD: str(world),
                   MEETING: os.path.join(folder, "meeting")}
    command = [sys.executable, sys.argv[0], *arguments]
    return [subprocess.Popen(command, env={**environment, RANK: str(rank)}, **options)
            for rank in range(world)]


def own_rank():
    """The rank that this process is; None if it has not been started as one."""
    return int(os.environ[RANK]) if RANK in os.environ else None


def join():
    """Takes a GPU, and joins the process group of all ranks."""
    import torch
    import torch.distributed as dist

    rank = own_rank()
    torch.cuda.set_device(rank % torch.cuda.device_count())
    dist.init_process_group("nccl", init_method=f"file://{os.environ[MEETING]}", rank=rank,
                            world_size=int(os.environ[WORLD]))
