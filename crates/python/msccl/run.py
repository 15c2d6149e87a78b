"""``python -m msccl.run train.py …``: a script, with this library in the place of NCCL.

``python -m msccl.run -m torch.distributed.run --nproc-per-node 8 train.py`` runs a module. All
processes that the script starts have the library, too. At the end it says on standard error if
NCCL's functions led to another library.
"""

from __future__ import annotations

import atexit
import os
import runpy
import sys
from collections.abc import Sequence

from msccl._errors import Error
from msccl._place import install, status

USAGE = "usage: python -m msccl.run SCRIPT [ARGUMENT]…, or python -m msccl.run -m MODULE …"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script or module of the command line; returns an exit code if it does not start.

    >>> from msccl.run import main
    >>> main([])
    2
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    is_module = given[:1] == ["-m"]
    words = given[1:] if is_module else given
    if not words or words[0].startswith("-"):
        print(USAGE, file=sys.stderr)
        return 2
    try:
        path = install()
    except Error as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if os.environ.get("RANK", "0") == "0":
        hint = "NCCL_DEBUG=INFO says which algorithm serves each call"
        print(f"msccl: {path} is in place; {hint}", file=sys.stderr)
    atexit.register(check)
    _run(words, is_module)
    return 0


def _run(words: list[str], is_module: bool) -> None:
    sys.argv = words
    if is_module:
        # As with `python -m`, the working folder comes first.
        sys.path[0] = os.getcwd()
        runpy.run_module(words[0], run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = os.path.dirname(os.path.abspath(words[0]))
        runpy.run_path(words[0], run_name="__main__")


def check() -> None:
    """Says on standard error if NCCL's functions lead to another library in this process.

    >>> import msccl
    >>> from msccl.run import check
    >>> path = msccl.install()
    >>> check()
    """
    found = status()
    if not found.in_place:
        print(f"msccl: {found}; `msccl doctor` says more", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
