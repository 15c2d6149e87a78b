"""What goes wrong: programs that cannot be read, algorithms that are refused, and the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from msccl._program import Verdict


class Error(Exception):
    """A request that cannot be met, and why.

    >>> import msccl
    >>> try:
    ...     msccl.compile("allreduce/ring", ranks=0)
    ... except msccl.Error as error:
    ...     print(error)  # doctest: +ELLIPSIS
    error: invalid value '0' for '--ranks <N>': ...
    """


class ProgramError(Error, SyntaxError):
    """A program that cannot be understood: a :class:`SyntaxError`, which Python shows with the
    file, the line and a caret.

    >>> import msccl
    >>> try:
    ...     msccl.compile("algorithm x(ranks N = 2) implements allreduce(chunks N) { oops }")
    ... except msccl.ProgramError as error:
    ...     print(error.filename, error.lineno, error.offset, error.msg)
    <program> 1 64 expected `=` or `+=`, found `}`
    """

    def __init__(self, message: str, place: tuple[str, int, int, str, int, int]) -> None:
        SyntaxError.__init__(self, message, place)


class ProofError(Error):
    """An algorithm that is refused, with what the verifier says.

    >>> import msccl
    >>> body = "input@0[0] += input@1[0]"
    >>> text = f"algorithm x(ranks N = 2) implements allreduce(chunks N) {{ {body} }}"
    >>> try:
    ...     msccl.compile(text)
    ... except msccl.ProofError as error:
    ...     print(error.verdict.fault, error.verdict.at[0].line)
    wrong-result 1
    """

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.report or verdict.message)
        #: What the verifier says.
        self.verdict = verdict


def raise_failure(stdout: str, stderr: str, text: str | None) -> NoReturn:
    """Raises what a command said that could not do its work."""
    try:
        failure = json.loads(stdout)
    except ValueError:
        raise Error((stderr or stdout).strip()) from None
    if isinstance(failure, list):
        failure = next(one for one in failure if "error" in one)
    for found in failure.get("diagnostics", []):
        line = _line(found["file"], found["line"], text)
        end = (found["end_line"], max(found["end_column"], found["column"] + 1))
        place = (found["file"], found["line"], found["column"], line, *end)
        error = ProgramError(found["message"], place)
        for hint in found.get("hints", []):
            _note(error, f"hint: {hint}")
        raise error
    raise Error(failure["error"])


def _note(error: ProgramError, note: str) -> None:
    # Python 3.10 has no notes.
    if hasattr(error, "add_note"):
        error.add_note(note)


def _line(file: str, number: int, text: str | None) -> str:
    """Line ``number`` of ``file``, or of ``text``."""
    if file != "<program>" or text is None:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except OSError:
            return ""
    lines = text.splitlines()
    return lines[number - 1] if 0 < number <= len(lines) else ""
