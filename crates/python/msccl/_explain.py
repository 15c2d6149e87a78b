"""Which algorithm would serve a call, and why."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from msccl import _command


@dataclass(frozen=True)
class Choice:
    """One of the algorithms that could serve a call."""

    algorithm: str
    #: Whether it is the one that serves.
    serves: bool
    #: What decided: a row of a table, an estimate, a variable.
    decided_by: str
    #: Why the decision is no measurement, if it is none.
    guess: str | None
    protocol: str | None
    #: Thread blocks in all.
    blocks: int | None
    #: Why it does not serve, if so.
    reason: str | None
    #: Microseconds by the cost model, if a machine was given.
    us: float | None


@dataclass(frozen=True)
class Explanation:
    """Which algorithm would serve a call, and why not another."""

    collective: str
    #: Bytes of the larger buffer.
    bytes: int
    ranks: int
    #: None if no algorithm can serve the call.
    served_by: str | None
    choices: tuple[Choice, ...]
    #: All of it for people.
    text: str

    def __str__(self) -> str:
        return self.text


def explain(
    collective: str,
    size: int | str = "1M",
    *,
    ranks: int = 8,
    per_node: int | None = None,
    topo: str | os.PathLike[str] | None = None,
    files: Sequence[str | os.PathLike[str]] = (),
    in_place: bool = False,
) -> Explanation:
    """Says which algorithm would serve a call of ``size`` bytes of its larger buffer.

    It follows the variables that the library follows, and what :func:`register` has registered.

    >>> import msccl
    >>> explanation = msccl.explain("allreduce", "1K", ranks=2)
    >>> explanation.served_by in [choice.algorithm for choice in explanation.choices]
    True
    """
    paths = [os.fspath(path) for path in files]
    options = _command.options(ranks=ranks, per_node=per_node, topo=topo)
    given = [collective, str(size), *paths, *options]
    if in_place:
        given.append("--in-place")
    found = _command.report("explain", *given)
    text = _command.run("--quiet", "explain", *given).stdout
    return Explanation(
        collective=found["collective"],
        bytes=found["bytes"],
        ranks=found["ranks"],
        served_by=found["served_by"],
        choices=tuple(map(_choice, found["alternatives"])),
        text=text.rstrip(),
    )


def _choice(found: dict[str, Any]) -> Choice:
    return Choice(
        algorithm=found["algorithm"],
        serves=found["serves"],
        decided_by=found["decided_by"],
        guess=found["guess"],
        protocol=found.get("protocol"),
        blocks=found.get("blocks"),
        reason=found["reason"],
        us=found.get("estimate_us"),
    )
