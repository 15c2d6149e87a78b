"""Puts the library in the place of NCCL, for this process and those that it starts."""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from pathlib import Path

from msccl._command import FOLDER
from msccl._errors import Error

#: The variable of the loader.
PRELOAD = "LD_PRELOAD"
#: Variables of programs that open NCCL by a path.
PATHS = ("VLLM_NCCL_SO_PATH", "SGLANG_NCCL_SO_PATH")


@dataclass(frozen=True)
class Status:
    """Which libraries with NCCL's interface this process has loaded, and which of them is used."""

    #: Whether NCCL's functions lead to this library.
    in_place: bool
    #: The file to which NCCL's functions lead; None if that is not known, or none is loaded.
    answers: Path | None
    #: All that are loaded. PyTorch from 2.15 on maps the file of its package in any case, beside
    #: the one that it uses.
    loaded: tuple[Path, ...]

    def __str__(self) -> str:
        if self.in_place:
            return f"{self.answers} is in place"
        loaded = ", ".join(map(str, self.loaded)) or "none"
        return f"{library()} is not in place; used: {self.answers or 'none'}; loaded: {loaded}"


def library() -> Path:
    """The file ``libnccl.so.2`` of this package.

    >>> import msccl
    >>> msccl.library().name
    'libnccl.so.2'
    """
    return FOLDER / "lib" / "libnccl.so.2"


def include() -> Path:
    """The folder with ``nccl.h`` and ``msccl.h``.

    >>> import msccl
    >>> (msccl.include() / "nccl.h").is_file()
    True
    """
    return FOLDER / "include"


def status() -> Status:
    """Which libraries with NCCL's interface this process has loaded, and which of them is used.

    >>> import msccl
    >>> msccl.install() == msccl.library()
    True
    >>> msccl.status().in_place
    True
    """
    loaded = _loaded("libnccl.so")
    answers = _answering() or (loaded[0] if len(loaded) == 1 else None)
    in_place = answers is not None and answers.samefile(library())
    return Status(in_place, answers, tuple(loaded))


def install() -> Path:
    """Puts this library in the place of NCCL, and returns its path.

    It must be called before PyTorch or another user of NCCL is imported: a library that a process
    has loaded cannot be replaced. It loads the library under the name that others ask the loader
    for, and sets ``LD_PRELOAD``, ``VLLM_NCCL_SO_PATH`` and ``SGLANG_NCCL_SO_PATH`` for processes
    that this one starts. No file is changed.

    Raises :class:`Error` if another library is loaded already.

    >>> import msccl, os
    >>> str(msccl.install()) in os.environ["LD_PRELOAD"]
    True
    """
    path, found = library(), status()
    if found.loaded and not found.in_place:
        raise Error(
            f"{found.answers or found.loaded[0]} is loaded already, and cannot be replaced: call "
            "msccl.install() before `import torch`, or start the program with `python -m msccl.run`"
        )
    try:
        ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
    except OSError as error:
        raise Error(f"cannot load {path}: {error}") from error
    set_for_children(path)
    return path


def set_for_children(path: Path) -> None:
    """Lets processes that this one starts load ``path``."""
    before = os.environ.get(PRELOAD, "").replace(":", " ").split()
    if str(path) not in before:
        os.environ[PRELOAD] = ":".join([str(path), *before])
    for name in PATHS:
        os.environ[name] = str(path)


class _Symbol(ctypes.Structure):
    """``Dl_info`` of the loader."""

    _fields_ = [
        ("file", ctypes.c_char_p),
        ("file_start", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("start", ctypes.c_void_p),
    ]


def _answering() -> Path | None:
    """The file to which NCCL's functions lead, as the loader resolves them for PyTorch: what is
    preloaded or loaded for all comes first, then what PyTorch itself needs."""
    everything = ctypes.CDLL(None)
    of_torch = _loaded("libtorch_cuda.so")
    for scope in [everything, *(ctypes.CDLL(str(path), os.RTLD_NOLOAD) for path in of_torch)]:
        try:
            function = scope.ncclGetVersion
        except AttributeError:
            continue
        symbol = _Symbol()
        address = ctypes.cast(function, ctypes.c_void_p)
        if everything.dladdr(address, ctypes.byref(symbol)) and symbol.file:
            return Path(os.fsdecode(symbol.file))
    return None


def _loaded(name: str) -> list[Path]:
    """Files that are mapped and whose names begin so."""
    try:
        maps = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise Error(f"it is not known which libraries are loaded: {error}") from error
    found: dict[str, Path] = {}
    for line in maps.splitlines():
        at = line.find("/")
        path = Path(line[at:].removesuffix(" (deleted)")) if at >= 0 else None
        if path is not None and path.name.startswith(name) and path.is_file():
            found.setdefault(str(path), path)
    return list(found.values())
