"""Machines: GPUs, network cards, and what joins them."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msccl import _command


@dataclass(frozen=True)
class Topology:
    """A machine, which draws itself in notebooks."""

    #: What describes it.
    name: str
    #: How many GPUs it has.
    gpus: int
    #: All that is known of it, as ``msccl topo --format json`` says it.
    description: dict[str, Any]
    #: A drawing in letters.
    text: str
    #: A drawing as SVG.
    svg: str

    def __str__(self) -> str:
        return self.text

    def _repr_svg_(self) -> str:
        return self.svg


def topo(what: str | os.PathLike[str], *, nodes: int | None = None) -> Topology:
    """The machine ``what``: one of :func:`topologies`, ``"this"``, a file that ends in
    ``.cluster``, or a topology file of NCCL's. With ``nodes`` that many of it.

    >>> import msccl
    >>> msccl.topo("hgx-h100-8", nodes=2).gpus
    16
    """
    options = _command.options(topo=what, nodes=nodes)
    found = _command.report("topo", *options)
    with tempfile.TemporaryDirectory(prefix="msccl-") as folder:
        path = Path(folder) / "machine.svg"
        text = _command.printed("topo", *options, "--svg", str(path))
        svg = path.read_text(encoding="utf-8")
    gpus = sum(vertex["kind"] == "gpu" for vertex in found["vertices"])
    return Topology(found["name"], gpus, found, text.rstrip(), svg)


def topologies() -> tuple[str, ...]:
    """The names of machines that are known.

    >>> import msccl
    >>> "hgx-h100-8" in msccl.topologies()
    True
    """
    return tuple(preset["name"] for preset in _command.report("topo", "--list"))
