"""Backends by name, and groups over them."""

from dataclasses import dataclass
from datetime import timedelta
from importlib.metadata import entry_points

from torch import READS_ENTRY_POINTS


class Backend:
    """The backends that are known."""

    backend_list = ["undefined", "gloo", "nccl"]
    creators = {}

    @classmethod
    def register_backend(cls, name, func, extended_api=False, devices=None):
        assert name not in cls.backend_list, f"{name} is registered twice"
        assert extended_api and devices == ["cuda"]
        cls.backend_list.append(name)
        cls.creators[name] = func


class ProcessGroupNCCL:
    """A group over NCCL, which keeps what it is made of."""

    class Options:
        pass

    def __init__(self, store, rank, size, options):
        self.store, self.rank, self.size, self.options = store, rank, size, options


@dataclass(frozen=True)
class Group:
    """What PyTorch tells the creator of a backend."""

    store: str = "a store"
    group_rank: int = 1
    group_size: int = 4
    timeout: timedelta = timedelta(seconds=7)
    group_id: str = "0"
    global_ranks_in_group: tuple = ()


def init_process_group(backend):
    """Makes the group of all ranks; PyTorch returns nothing, this returns the group."""
    if backend not in Backend.backend_list and READS_ENTRY_POINTS:
        for point in entry_points(group="torch.distributed.backends", name=backend):
            point.load()()
    if backend not in Backend.creators:
        raise ValueError(f"Unknown backend {backend}")
    return Backend.creators[backend](Group(), None)
