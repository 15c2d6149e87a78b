"""The command ``msccl``: within this process by a C function, and as a process of its own."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

from msccl._errors import Error, raise_failure

#: The folder of the package.
FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Answer:
    """What a command said, and its exit code."""

    exit: int
    stdout: str
    stderr: str


@lru_cache(maxsize=1)
def _functions() -> tuple[Any, Any]:
    path = FOLDER / "lib" / "libmsccl_python.so"
    try:
        interface = ctypes.CDLL(str(path))
    except OSError as error:
        raise Error(f"cannot load {path}: {error}; install the wheel of msccl again") from error
    call, free = interface.msccl_python_call, interface.msccl_python_free
    call.argtypes, call.restype = [ctypes.c_char_p], ctypes.c_void_p
    free.argtypes, free.restype = [ctypes.c_void_p], None
    return call, free


def run(*arguments: str, text: str | None = None) -> Answer:
    """Does what the command ``msccl`` does with ``arguments``, within this process."""
    request = json.dumps({"arguments": list(arguments), "text": text})
    call, free = _functions()
    address = call(request.encode())
    if not address:
        raise MemoryError("msccl has no memory for an answer")
    try:
        answer = json.loads(ctypes.string_at(address))
    finally:
        free(address)
    return Answer(answer["exit"], answer["stdout"], answer["stderr"])


def report(*arguments: str, text: str | None = None) -> Any:
    """The report of a command as JSON; raises what keeps it from saying anything."""
    answer = run("--quiet", *arguments, "--format", "json", text=text)
    if answer.exit not in (0, 1):
        raise_failure(answer.stdout, answer.stderr, text)
    return json.loads(answer.stdout)


def printed(*arguments: str, text: str | None = None) -> str:
    """What a command prints; raises what keeps it from printing."""
    answer = run("--quiet", *arguments, text=text)
    if answer.exit != 0:
        raise_failure(answer.stdout, answer.stderr, text)
    return answer.stdout


def options(**given: int | str | os.PathLike[str] | None) -> tuple[str, ...]:
    """The options of a command that are given: ``--per-node 4`` of ``per_node=4``."""
    words: list[str] = []
    for name, value in given.items():
        if value is not None:
            path_or_text = os.fspath(value) if isinstance(value, os.PathLike) else str(value)
            words += ["--" + name.replace("_", "-"), path_or_text]
    return tuple(words)


def program() -> Path:
    """The program ``msccl``."""
    return FOLDER / "bin" / "msccl"


def command(*arguments: str) -> str:
    """What the command ``msccl`` prints with these arguments.

    >>> print(command("verify", "allreduce/ring", "--ranks", "4").splitlines()[0])
    proved   allreduce/ring: ring, allreduce over 4 ranks, 4 chunks a block
    """
    return printed(*arguments)


def main() -> NoReturn:
    """Becomes the command ``msccl``."""
    path, arguments = str(program()), sys.argv[1:]
    if arguments[:1] == ["doctor"] and "--python" not in arguments:
        # The Python that is examined is this one, even if another is on the path.
        arguments += ["--python", sys.executable]
    os.execv(path, [path, *arguments])
