"""Programs: compiled, proved, estimated, drawn and saved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msccl import _command
from msccl._errors import Error, ProofError



@dataclass(frozen=True)
class Orders:
    """In which orders an algorithm adds."""

    #: How many there are among all elements; 1 if the result does not depend on the place.
    count: int
    #: The order as a sum, if there is one.
    order: str | None
    #: Its form, such as ``flat``, if there is one.
    shape: str | None


@dataclass(frozen=True)
class Proof:
    """What is proved of an algorithm, and facts about it. Sizes are bytes of the larger buffer."""

    name: str
    collective: str
    ranks: int
    chunks: int
    placement: str
    protocol: str
    min_bytes: int
    #: None: there is no end.
    max_bytes: int | None
    steps: int
    thread_blocks: int
    links: int
    channels: int
    link_depth: int
    least_link_depth: int
    messages: int
    #: Whether the result is proved to be what the collective promises.
    result_promised: bool
    #: Whether every rank has the same bits.
    same_on_every_rank: bool
    #: None if nothing is added.
    orders: Orders | None
    overwrites_input: bool
    serves_any_count: bool
    #: The runtime for which it is proved.
    target: str

    def __str__(self) -> str:
        """One line.

        >>> import msccl
        >>> print(msccl.compile("allreduce/ring", ranks=4).proof)
        ring: allreduce over 4 ranks is proved, 28 steps, 24 messages, the same on every rank
        """
        same = ", the same on every rank" if self.same_on_every_rank else ""
        return (
            f"{self.name}: {self.collective} over {self.ranks} ranks is proved, "
            f"{self.steps} steps, {self.messages} messages{same}"
        )


@dataclass(frozen=True)
class Site:
    """A place of a fault; what is not known is None."""

    file: str | None
    line: int | None
    column: int | None
    rank: int | None
    thread_block: int | None
    step: int | None


@dataclass(frozen=True)
class Verdict:
    """Whether an algorithm is proved, or how it goes wrong.

    >>> import msccl
    >>> bool(msccl.verify("allgather/ring", ranks=4))
    True
    """

    proved: bool
    #: What goes wrong, such as ``deadlock``, ``race`` or ``wrong-result``.
    fault: str | None
    message: str
    #: Where.
    at: tuple[Site, ...]
    #: How it comes to that, event by event.
    events: tuple[str, ...]
    #: What else the author should know.
    warnings: tuple[str, ...]
    #: Facts, if it is proved.
    proof: Proof | None
    #: All of it for people, with the lines that cause it, if it is refused.
    report: str

    def __bool__(self) -> bool:
        """Whether it is proved."""
        return self.proved


@dataclass(frozen=True)
class Bound:
    """What no schedule can beat on a machine."""

    #: For calls of these bytes.
    bytes: int
    #: Microseconds.
    us: float
    #: Why, in words.
    witness: str


@dataclass(frozen=True)
class Estimate:
    """How long a call takes by the cost model."""

    #: Bytes of the larger buffer.
    bytes: int
    #: Microseconds.
    us: float
    #: Microseconds that no schedule can beat; None if the machine has no bound for it.
    bound_us: float | None
    #: How it runs: protocol, thread blocks, threads.
    service: str
    #: The machine of the estimate.
    assumptions: str
    #: The busiest link of each class.
    busiest_links: tuple[str, ...]

    @property
    def gb_per_s(self) -> float:
        """Bytes of the larger buffer for the time, in GB/s.

        >>> import msccl
        >>> ring = msccl.compile("allreduce/ring", ranks=8)
        >>> slow, fast = ring.estimate("hgx-h100-8", "64K"), ring.estimate("hgx-h100-8", "64M")
        >>> slow.gb_per_s < fast.gb_per_s
        True
        """
        return self.bytes / self.us / 1e3


@dataclass(frozen=True)
class Picture:
    """A picture, which draws itself in notebooks."""

    #: The picture as SVG.
    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes it to a file, and returns its path.

        >>> import msccl, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = msccl.compile("allreduce/ring", ranks=4).show().save(f"{folder}/ring.svg")
        ...     path.name
        'ring.svg'
        """
        Path(path).write_text(self.svg, encoding="utf-8")
        return Path(path)


@dataclass(frozen=True)
class Program:
    """An algorithm that was compiled and proved; :func:`compile` makes it."""

    #: What is proved.
    proof: Proof
    #: What else its author should know.
    warnings: tuple[str, ...]
    _file: str
    _text: str | None
    _options: tuple[str, ...]

    def __repr__(self) -> str:
        return f"<msccl.Program {self.proof}>"

    def show(self, stage: str = "timeline", *, size: int | str | None = None) -> Picture:
        """Draws a stage: ``chunk``, ``instruction``, ``schedule`` or ``timeline``.

        ``size`` is that of the call whose timeline is drawn, in bytes or such as ``"1M"``.

        >>> import msccl
        >>> picture = msccl.compile("allreduce/ring", ranks=4).show("chunk")
        >>> picture.svg.startswith("<svg")
        True
        """
        more = _command.options(size=size)
        return Picture(self._printed("show", "--stage", stage, *more, "--format", "svg"))

    def _repr_svg_(self) -> str:
        return self.show().svg

    def estimate(
        self, topo: str | os.PathLike[str] | None = None, size: int | str = "1M"
    ) -> Estimate:
        """How long a call of ``size`` takes on the machine ``topo``; on one that is supposed if
        that is None. :func:`topologies` lists machines.

        >>> import msccl
        >>> ring = msccl.compile("allreduce/ring", ranks=8)
        >>> estimate = ring.estimate("hgx-h100-8", "1M")
        >>> estimate.bytes, estimate.us > estimate.bound_us
        (1048576, True)
        """
        options = _options_on(self._options, topo)
        arguments = ("compare", self._file, *options, "--sizes", str(size))
        return _estimate(_command.report(*arguments, text=self._text))

    def bound(self, topo: str | os.PathLike[str], size: int | str = "1M") -> Bound:
        """What no schedule for its collective can beat on ``topo``.

        >>> import msccl
        >>> bound = msccl.compile("allreduce/ring", ranks=8).bound("hgx-h100-8", "1M")
        >>> bound.bytes, round(bound.us, 2)
        (1048576, 4.38)
        """
        machine = ("--topo", os.fspath(topo), "--size", str(size))
        found = _command.report("bound", self.proof.collective, *machine)
        of_size = found["sizes"][0]
        witness = found["bandwidth"]["witness_in_words"]
        return Bound(of_size["bytes"], of_size["at_least_us"], witness)

    def save(self, path: str | os.PathLike[str], *, dialect: str | None = None) -> Path:
        """Writes it as XML, JSON or text, as the extension says, and returns the path.

        ``dialect`` is that of XML: ``msccl`` or ``executor``.

        >>> import msccl, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = msccl.compile("allreduce/ring", ranks=4).save(f"{folder}/ring.xml")
        ...     msccl.verify(path).proved
        True
        """
        more = _command.options(dialect=dialect)
        self._printed("compile", "-o", os.fspath(path), *more)
        return Path(path)

    def json(self) -> str:
        """The algorithm as JSON, which every part of the project reads.

        >>> import json, msccl
        >>> json.loads(msccl.compile("allreduce/ring", ranks=4).json())["name"]
        'ring'
        """
        return self._printed("compile", "--emit", "json")

    def _json_where_proved(self, placement: str) -> str | None:
        """The algorithm for calls ``in`` or ``out`` of place, if it is proved for these."""
        if "--placement" in self._options:
            is_it = self._options[self._options.index("--placement") + 1] == placement
            return self.json() if is_it else None
        given = ("compile", self._file, *self._options, "--placement", placement)
        answer = _command.run("--quiet", *given, "--emit", "json", text=self._text)
        return answer.stdout if answer.exit == 0 else None

    def _printed(self, command: str, *arguments: str) -> str:
        given = (command, self._file, *self._options, *arguments)
        return _command.printed(*given, text=self._text)


def compile(
    source: str | os.PathLike[str],
    *,
    ranks: int | None = None,
    per_node: int | None = None,
    topo: str | os.PathLike[str] | None = None,
    algorithm: str | None = None,
    collective: str | None = None,
    instances: int | None = None,
    protocol: str | None = None,
    placement: str | None = None,
    define: Mapping[str, int] | None = None,
    **params: int,
) -> Program:
    """Compiles a program, and proves the result.

    ``source`` is the text of a program, the path of a file (``.msccl``, ``.xml``, ``.json``), or
    the name of a built-in program. ``params``, or ``define`` where a name is taken by an option,
    set parameters of the algorithm.

    Raises :class:`ProgramError` if the program cannot be understood, :class:`ProofError` if the
    algorithm is refused, and :class:`Error` if the request makes no sense.

    >>> import msccl
    >>> program = msccl.compile('''
    ... algorithm star(ranks N = 4) implements broadcast(root 0, chunks 1) {
    ...     for r in 0..N { output@r[0] = input@0[0] }
    ... }
    ... ''', ranks=8)
    >>> program.proof.collective, program.proof.ranks
    ('broadcast', 8)
    """
    options = _command.options(
        ranks=ranks,
        per_node=per_node,
        topo=topo,
        algorithm=algorithm,
        collective=collective,
        instances=instances,
        protocol=protocol,
        placement=placement,
    ) + _definitions({**(define or {}), **params})
    file, text = _source(source)
    verdict = _verdict(file, text, options)
    if verdict.proof is None:
        raise ProofError(verdict)
    return Program(verdict.proof, verdict.warnings, file, text, options)


def verify(
    source: str | os.PathLike[str],
    *,
    ranks: int | None = None,
    per_node: int | None = None,
    topo: str | os.PathLike[str] | None = None,
    algorithm: str | None = None,
    collective: str | None = None,
    instances: int | None = None,
    protocol: str | None = None,
    placement: str | None = None,
    target: str | None = None,
    define: Mapping[str, int] | None = None,
    **params: int,
) -> Verdict:
    """Proves an algorithm, or says how it goes wrong; options are those of :func:`compile`.

    ``target`` is what will run it: ``native``, ``msccl`` or ``executor``.

    >>> import msccl
    >>> verdict = msccl.verify("algorithm x(ranks N = 2) implements allreduce(chunks N) { }")
    >>> verdict.proved, verdict.fault
    (False, 'wrong-result')
    """
    options = _command.options(
        ranks=ranks,
        per_node=per_node,
        topo=topo,
        algorithm=algorithm,
        collective=collective,
        instances=instances,
        protocol=protocol,
        placement=placement,
        target=target,
    ) + _definitions({**(define or {}), **params})
    file, text = _source(source)
    return _verdict(file, text, options)


def _source(source: str | os.PathLike[str]) -> tuple[str, str | None]:
    """The file to name on the command line, and the text behind it if that is given."""
    if isinstance(source, os.PathLike):
        return os.fspath(source), None
    is_text = any(sign in source for sign in "\n{<")
    return ("-", source) if is_text else (source, None)


def _options_on(
    options: tuple[str, ...], topo: str | os.PathLike[str] | None
) -> tuple[str, ...]:
    """``options`` with another machine, if one is given."""
    if topo is None:
        return options
    others = list(options)
    if "--topo" in others:
        at = others.index("--topo")
        del others[at : at + 2]
    return (*others, "--topo", os.fspath(topo))


def _definitions(parameters: Mapping[str, int]) -> tuple[str, ...]:
    for name, value in parameters.items():
        if not isinstance(value, int):
            raise Error(f"expected an integer for the parameter {name}, found {value!r}")
    return sum((("-D", f"{name}={value}") for name, value in parameters.items()), ())


def _verdict(file: str, text: str | None, options: tuple[str, ...]) -> Verdict:
    found = _command.report("verify", file, *options, text=text)
    proved = found["verdict"] == "proved"
    report = ""
    if not proved:
        report = _command.run("verify", file, *options, text=text).stdout.strip()
    return Verdict(
        proved=proved,
        fault=found["fault"],
        message=found["message"],
        at=tuple(map(_site, found["at"])),
        events=tuple(found["story"]),
        warnings=tuple(warning["message"] for warning in found["warnings"]),
        proof=_proof(found["facts"], found["target"]) if proved else None,
        report=report,
    )


def _site(found: Mapping[str, Any]) -> Site:
    return Site(
        file=found.get("file"),
        line=found.get("line"),
        column=found.get("column"),
        rank=found.get("rank"),
        thread_block=found.get("tb"),
        step=found.get("step"),
    )


def _proof(facts: Mapping[str, Any], target: str) -> Proof:
    orders = facts["addition_orders"]
    given = {name: value for name, value in facts.items() if name != "addition_orders"}
    return Proof(**given, orders=orders and _orders(orders), target=target)


def _orders(found: Mapping[str, Any]) -> Orders:
    return Orders(found["count"], found.get("order"), found.get("shape"))


def _estimate(found: Mapping[str, Any]) -> Estimate:
    (compared,) = found["algorithms"]
    (time,) = compared["times"]
    if "us" not in time:
        raise Error(f"there is no estimate: {time['reason']}")
    busiest = (f"{link['link']} ({link['class']})" for link in compared["busiest_links"])
    return Estimate(
        bytes=found["sizes"][0],
        us=time["us"],
        bound_us=found["bounds_us"][0],
        service=time["service"],
        assumptions=found["assumptions"],
        busiest_links=tuple(busiest),
    )
