"""Algorithms of one's own, and recordings, for the communicators of this process.

The library reads variables when a communicator is made. So what is registered, or recorded, counts
for communicators that are made afterwards.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from msccl import _command
from msccl._errors import Error
from msccl._program import Program

#: Variable: algorithms to load.
FILES = "MSCCL_XML_FILES"
#: Variable: where recordings go.
TRACE = "MSCCL_TRACE"

_folder: Path | None = None


def register(
    program: Program,
    collective: str | None = None,
    sizes: tuple[int, int | None] | None = None,
) -> Path:
    """Lets communicators that this process makes from now on serve calls by ``program``.

    ``collective`` is only checked. ``sizes`` are the least and the most bytes of the larger buffer
    that it serves; None is no end. It serves calls in place and out of place as far as it is proved
    for them. All ranks must register the same programs in the same order. Processes that this one
    starts inherit them. Returns the folder of the files that communicators read, which is deleted
    when this process ends.

    >>> import msccl
    >>> ring = msccl.compile("allreduce/ring", ranks=4)
    >>> folder = msccl.register(ring, "allreduce", sizes=(0, 65536))
    >>> small = msccl.explain("allreduce", "64K", ranks=4).served_by
    >>> large = msccl.explain("allreduce", "1M", ranks=4).served_by
    >>> small.startswith(str(folder)), large.startswith(str(folder))
    (True, False)
    """
    proof = program.proof
    if collective is not None and collective != proof.collective:
        raise Error(f"expected an algorithm for {collective}, found one for {proof.collective}")
    narrowed = None if sizes is None else _narrowed(sizes, proof.min_bytes, proof.max_bytes)
    before = [path for path in os.environ.get(FILES, "").split(":") if path]
    folder, files = _own_folder(), list(before)
    for placement in ("in", "out"):
        text = program._json_where_proved(placement)
        if text is None:
            continue
        algorithm = json.loads(text)
        if narrowed is not None:
            algorithm["sizes"] = narrowed
        path = folder / f"{len(files)}-{proof.name}-{placement}.json"
        path.write_text(json.dumps(algorithm), encoding="utf-8")
        files.append(str(path))
    os.environ[FILES] = ":".join(files)
    return folder


def _narrowed(
    sizes: tuple[int, int | None], served_from: int, served_to: int | None
) -> dict[str, int]:
    least, most = sizes
    ends = [end for end in (most, served_to) if end is not None]
    narrowed = {"min_bytes": max(least, served_from)}
    if ends:
        narrowed["max_bytes"] = min(ends)
        if narrowed["max_bytes"] < narrowed["min_bytes"]:
            raise Error(f"expected sizes that the algorithm serves, found {least} to {most} bytes")
    return narrowed


def _own_folder() -> Path:
    global _folder
    if _folder is None:
        _folder = Path(tempfile.mkdtemp(prefix="msccl-registered-"))
        atexit.register(_remove, _folder, os.getpid())
    return _folder


def _remove(folder: Path, owner: int) -> None:
    # A fork has the same handlers.
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Trace:
    """Recordings of one :func:`trace`."""

    #: The folder in which they lie.
    folder: Path

    def report(self) -> str:
        """What holds calls up, as ``msccl trace report`` says it.

        Raises :class:`Error` if nothing was recorded.

        >>> import msccl, subprocess, sys, tempfile
        >>> bench = "bench allreduce --device host --ranks 2 -b 64K -e 64K -n 3".split()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with msccl.trace(folder) as recordings:
        ...         _ = subprocess.run(
        ...             [sys.executable, "-m", "msccl", *bench], check=True, capture_output=True
        ...         )
        ...     print(recordings.report().splitlines()[0])  # doctest: +ELLIPSIS
        2 of 2 ranks on 1 host, ... launches in ...
        """
        return _command.printed("trace", "report", str(self.folder))


@contextmanager
def trace(path: str | os.PathLike[str]) -> Iterator[Trace]:
    """Communicators that are made within record what their calls do, in the folder ``path``.

    So do those of processes that are started within. Ranks on host threads record; those on GPUs
    do not, and say so in the log.

    >>> import msccl, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, msccl.trace(folder) as recordings:
    ...     os.environ["MSCCL_TRACE"] == str(recordings.folder)
    True
    >>> "MSCCL_TRACE" in os.environ
    False
    """
    folder = Path(path).absolute()
    before = os.environ.get(TRACE)
    os.environ[TRACE] = str(folder)
    try:
        yield Trace(folder)
    finally:
        if before is None:
            del os.environ[TRACE]
        else:
            os.environ[TRACE] = before
