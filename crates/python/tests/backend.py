"""``init_process_group("msccl")`` with a PyTorch that is imagined, before and from 2.14 on.

    python backend.py CASE

Each case is a process of its own, because a library cannot be unloaded.
"""

import sys

import msccl
import torch
import torch.distributed as dist


def check_group(group):
    """The group is PyTorch's own, of what PyTorch gave."""
    assert type(group) is dist.ProcessGroupNCCL
    assert (group.store, group.rank, group.size) == ("a store", 1, 4)
    options = group.options
    assert (options._timeout.seconds, options.group_name) == (7, "0")
    assert options.global_ranks_in_group == ()


def in_place():
    """With the library in place, the name is enough from 2.14 on."""
    msccl.install()
    if torch.READS_ENTRY_POINTS:
        assert "msccl.torch" not in sys.modules
    else:
        refused(ValueError, "Unknown backend msccl")
        register()
    check_group(dist.init_process_group("msccl"))
    # Whoever registers it as well, as for an earlier PyTorch, does no harm.
    register()
    check_group(dist.init_process_group("msccl"))


def not_in_place():
    """Without the library in place, no group is made over another one."""
    if not torch.READS_ENTRY_POINTS:
        register()
    refused(msccl.Error, "the backend msccl cannot be used")


def register():
    import msccl.torch

    msccl.torch.register_backend()


def refused(kind, part):
    try:
        dist.init_process_group("msccl")
    except kind as error:
        assert part in str(error), error
    else:
        raise AssertionError(f"expected {kind.__name__}, and a group was made")


if __name__ == "__main__":
    {"in-place": in_place, "not-in-place": not_in_place}[sys.argv[1]]()
    print("right")
