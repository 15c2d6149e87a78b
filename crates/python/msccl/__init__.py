"""Collective algorithms for GPUs: compile, prove, estimate, draw, and put them to use.

>>> import msccl
>>> ring = msccl.compile("allreduce/ring", ranks=4)
>>> ring.proof.collective, ring.proof.ranks, ring.proof.same_on_every_rank
('allreduce', 4, True)
>>> ring.show().svg.startswith("<svg")
True

Nothing here needs PyTorch or a GPU, but :func:`install` is for programs that have them.
"""

from msccl._command import command
from msccl._compare import Comparison, Row, compare
from msccl._errors import Error, ProgramError, ProofError
from msccl._explain import Choice, Explanation, explain
from msccl._place import Status, include, install, library, status
from msccl._program import (
    Bound,
    Estimate,
    Orders,
    Picture,
    Program,
    Proof,
    Site,
    Verdict,
    compile,
    verify,
)
from msccl._register import Trace, register, trace
from msccl._topology import Topology, topo, topologies
from msccl._version import __version__

__all__ = [
    "Bound",
    "Choice",
    "Comparison",
    "Error",
    "Estimate",
    "Explanation",
    "Orders",
    "Picture",
    "Program",
    "ProgramError",
    "Proof",
    "ProofError",
    "Row",
    "Site",
    "Status",
    "Topology",
    "Trace",
    "Verdict",
    "__version__",
    "command",
    "compare",
    "compile",
    "explain",
    "include",
    "install",
    "library",
    "register",
    "status",
    "topo",
    "topologies",
    "trace",
    "verify",
]
