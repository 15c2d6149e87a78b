"""``torch.distributed.init_process_group("msccl")``.

PyTorch 2.14 and later find this module by the entry point ``torch.distributed.backends``; with
earlier ones call :func:`register_backend`. The backend is PyTorch's own ``ProcessGroupNCCL`` over
this library. The library has to be in place before PyTorch is imported: by ``python -m msccl.run``,
``msccl launch`` or :func:`msccl.install`.
"""

from __future__ import annotations

import importlib
from typing import Any

from msccl._errors import Error
from msccl._place import status

#: The name of the backend.
NAME = "msccl"


def register_backend() -> None:
    """Makes the backend known to PyTorch.

    Raises :class:`Error` if this PyTorch cannot register backends for devices, or has no
    ``torch.distributed``. The backend ``"nccl"`` over this library is the same there.

    >>> import importlib.util, msccl.torch
    >>> if importlib.util.find_spec("torch") is not None:
    ...     msccl.torch.register_backend()
    """
    dist = _distributed()
    try:
        if NAME not in dist.Backend.backend_list:
            dist.Backend.register_backend(NAME, _create, extended_api=True, devices=["cuda"])
    except (AttributeError, TypeError) as error:
        version = importlib.import_module("torch").__version__
        raise Error(
            f"PyTorch {version} cannot register the backend msccl ({error}): use \"nccl\", which "
            "is the same where this library is in place"
        ) from error


#: What the entry point names.
_register = register_backend


def _distributed() -> Any:
    # PyTorch need not be there when this module is read, nor when types are checked.
    return importlib.import_module("torch.distributed")


def _create(options: Any, group_options: Any) -> Any:
    """Makes a process group."""
    found = status()
    if not found.in_place:
        raise Error(
            f"the backend msccl cannot be used: {found}. Start the program with `python -m "
            "msccl.run`, or call msccl.install() before `import torch`"
        )
    of_torch = getattr(_distributed(), "ProcessGroupNCCL", None)
    if of_torch is None:
        raise Error("the backend msccl cannot be used: this PyTorch was built without NCCL")
    if group_options is None:
        group_options = of_torch.Options()
    group_options._timeout = options.timeout
    group_options.global_ranks_in_group = options.global_ranks_in_group
    group_options.group_name = options.group_id
    store, rank, size = options.store, options.group_rank, options.group_size
    return of_torch(store, rank, size, group_options)
