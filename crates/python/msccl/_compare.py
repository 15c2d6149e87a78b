"""Algorithms side by side on one machine."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msccl import _command
from msccl._program import Program


@dataclass(frozen=True)
class Row:
    """An algorithm, and how long it takes."""

    name: str
    #: Microseconds for each size; None where it does not serve the size.
    us: tuple[float | None, ...]
    #: Messages in the longest chain, if it is known.
    messages_in_chain: int | None


@dataclass(frozen=True)
class Comparison:
    """Algorithms side by side."""

    #: Bytes of the larger buffer, in rising order.
    sizes: tuple[int, ...]
    #: Microseconds that no schedule can beat, for each size; None where that is not known.
    bounds_us: tuple[float | None, ...]
    rows: tuple[Row, ...]
    #: The machine of the estimates.
    assumptions: str

    def best(self, size: int) -> str:
        """The name of the algorithm that takes least at one of :attr:`sizes`.

        >>> import msccl
        >>> names = ["allreduce/ring", "allreduce/two_shot"]
        >>> msccl.compare(*names, ranks=8, topo="hgx-h100-8", sizes=["64K"]).best(65536)
        'allreduce/two_shot'
        """
        at = self.sizes.index(size)
        timed = [(row.us[at], row.name) for row in self.rows]
        return min((us, name) for us, name in timed if us is not None)[1]

    def __str__(self) -> str:
        """A table."""
        width = max(len(row.name) for row in self.rows)
        head = " ".join(f"{size:>12}" for size in self.sizes)
        lines = [f"{'bytes':<{width}} {head}"]
        for row in self.rows:
            cells = ("-" if us is None else f"{us:.1f} µs" for us in row.us)
            lines.append(f"{row.name:<{width}} " + " ".join(f"{cell:>12}" for cell in cells))
        return "\n".join(lines)


def compare(
    *algorithms: Program | str | os.PathLike[str],
    ranks: int | None = None,
    topo: str | os.PathLike[str] | None = None,
    sizes: Sequence[int | str] = ("1K", "64K", "1M", "64M"),
) -> Comparison:
    """Estimates how long algorithms take: programs, paths, names of built-in programs, or a
    collective, which stands for all built-in algorithms for it.

    ``ranks`` is for those that are not compiled yet.

    >>> import msccl
    >>> ring = msccl.compile("allreduce/ring", ranks=8)
    >>> found = msccl.compare(ring, "allreduce/two_shot", ranks=8, sizes=["1M"])
    >>> [row.name for row in found.rows], len(found.rows[0].us)
    (['ring', 'allreduce/two_shot'], 1)
    """
    options = _command.options(ranks=ranks, topo=topo, sizes=",".join(map(str, sizes)))
    names: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="msccl-") as folder:
        for at, algorithm in enumerate(algorithms):
            if isinstance(algorithm, Program):
                path = Path(folder) / f"{at}.json"
                path.write_text(algorithm.json(), encoding="utf-8")
                names[str(path)] = algorithm.proof.name
            else:
                names[os.fspath(algorithm)] = os.fspath(algorithm)
        found = _command.report("compare", *names, *options)
    return Comparison(
        sizes=tuple(found["sizes"]),
        bounds_us=tuple(found["bounds_us"]),
        rows=tuple(_row(one, names) for one in found["algorithms"]),
        assumptions=found["assumptions"],
    )


def _row(found: dict[str, Any], names: dict[str, str]) -> Row:
    times = tuple(time.get("us") for time in found["times"])
    name = found["name"]
    return Row(names.get(name, name), times, found["messages_in_chain"])
