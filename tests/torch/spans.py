"""What recordings say (docs/TRACING.md), span by span, by a reader that shares nothing with msccl.

For ranks on host threads, whose records have the time of their host.
"""

import collections
import os

from recordings import (BEGIN, MOVE, NAMED_TRACKS, Recording, WAIT_BLOCK, WAIT_DATA, WAIT_ROOM,
                        part_bytes, parts, transfers_of)

MOVES = ("copy", "reduce")
KINDS = {WAIT_ROOM: "wait for room", WAIT_DATA: "wait for data", WAIT_BLOCK: "wait for a block"}
REDUCES = {"reduce", "recv_reduce_copy", "recv_reduce_send", "recv_reduce_copy_send", "many_reduce"}

# Times in ns since 1970. `link` is that of the wait, or the first of the move, as (sender,
# receiver). `sends` and `receives` are the wires of the step, as (sender, receiver, number).
Span = collections.namedtuple(
    "Span", "rank track block begin_ns end_ns kind step round link bytes line program text sends "
            "receives")
# What one rank did in one call.
RankLaunch = collections.namedtuple("RankLaunch", "call shape begin_ns end_ns spans")


class Run:
    """All ranks of the one communicator in a folder."""

    def __init__(self, folder):
        names = sorted(name for name in os.listdir(folder) if name.endswith(".recording"))
        recordings = [Recording(os.path.join(folder, name)) for name in names]
        recordings.sort(key=lambda of: of.header["rank"])
        assert len({of.header["communicator"] for of in recordings}) == 1, names
        assert all(of.header["engine"] == "host" for of in recordings), "ranks on host threads only"
        starts = {}
        self.ranks = []
        for of in recordings:
            # Ranks of a host share its clocks; those of the first one count.
            start = starts.setdefault(of.header["host"], of.header["start"])
            self.ranks.append(list(rank_launches(of, start["unix_ns"] - start["monotonic_ns"])))
        # Every rank makes the same calls in the same order, once each.
        self.launches = list(zip(*self.ranks))
        for launch in self.launches:
            assert len({of.call for of in launch}) == 1, launch
        assert len({len(of) for of in self.ranks}) == 1
        self.assign_waits()

    def assign_waits(self):
        """Finds the link of each wait: one for data is for the message that was sent last before it
        ended, one for room for the link from which the receiver had taken last."""
        moves = [span for launches in self.ranks for of in launches for span in of.spans
                 if span.kind in MOVES]
        sent, taken = collections.defaultdict(list), collections.defaultdict(list)
        for span in sorted(moves, key=lambda span: span.end_ns):
            for wire in span.sends:
                sent[wire].append(span.end_ns)
            for wire in span.receives:
                taken[wire].append(span.end_ns)
        received = collections.Counter()
        for launches in self.ranks:
            for spans in (of.spans for of in launches):
                waits = []
                for at, span in enumerate(spans):
                    if span.kind in MOVES:
                        there = {wire: sent[wire][received[wire]] for wire in span.receives}
                        received.update(span.receives)
                        assign(spans, [of for of in waits if spans[of].kind == "wait for data"],
                               span.receives, lambda wire, _: there[wire])
                        assign(spans, [of for of in waits if spans[of].kind == "wait for room"],
                               span.sends, lambda wire, end_ns: last_before(taken[wire], end_ns))
                    waits = waits + [at] if span.kind in KINDS.values() else []


def last_before(times, time_ns):
    return max((time for time in times if time <= time_ns), default=-1)


def assign(spans, waits, wires, there_ns):
    """Links of the waits before a move: in order if there are as many, else by times."""
    left = list(wires)
    for at in waits:
        end_ns = spans[at].end_ns
        if len(waits) == len(wires) or len(wires) == 1:
            wire = left[0]
        else:
            wire = max((wire for wire in left if there_ns(wire, end_ns) <= end_ns),
                       key=lambda wire: there_ns(wire, end_ns))
        left = left if len(wires) == 1 else [of for of in left if of != wire]
        spans[at] = spans[at]._replace(link=wire[:2])


def rank_launches(recording, offset_ns):
    by_call = collections.defaultdict(dict)
    for track, pieces in recording.tracks.items():
        if track < NAMED_TRACKS:
            for part in (part for piece in pieces for part in parts(piece)):
                assert track not in by_call[part[0].message], "a call is launched once"
                by_call[part[0].message][track] = part
    for call in sorted(by_call):
        shape = recording.shapes[recording.calls[call]]
        rank, work = recording.header["rank"], shape["work"]
        plan = recording.plans[work["plan"]["plan"]] if "plan" in work else None
        spans, begins, ends = [], [], []
        for track, part in sorted(by_call[call].items()):
            begins.append(part[0].time_ns + offset_ns)
            ends.append(part[-1].time_ns + offset_ns)
            if plan:
                spans += part_spans(rank, shape, plan, track, part, offset_ns)
            else:
                spans += exchange_spans(rank, work["exchange"], track, part, offset_ns)
        yield RankLaunch(call, shape, min(begins), max(ends), spans)


def part_spans(rank, shape, plan, track, part, offset_ns):
    cut, blocks = shape["work"]["plan"]["cut"], plan["thread_blocks"]
    instance, number = divmod(track, len(blocks))
    block = blocks[number]
    steps = {step["index"]: step for step in block["steps"]}
    moved = collections.Counter()
    program = plan["source"] or plan["algorithm"]
    for before, record in zip(part, part[1:]):
        assert record.kind != BEGIN
        step = steps.get(record.step) if record.kind in KINDS or record.kind == MOVE else None
        kind, link, size, turn = KINDS.get(record.kind, "finish"), None, 0, 0
        sends, receives = [], []
        if step:
            wire = lambda end: end["number"] * cut["instances"] + instance
            ends = [block["sends"][at] for at in step["sends"]]
            sends = [(rank, end["peer"], wire(end)) for end in ends]
            ends = [block["receives"][at] for at in step["receives"]]
            receives = [(end["peer"], rank, wire(end)) for end in ends]
            per_message = max(cut["chunks_per_message"], 1)
            messages = max(-(-step["count"] // per_message), 1)
            turn, message = divmod(moved[record.step], messages)
        if record.kind == MOVE:
            kind = "reduce" if step["shape"] in REDUCES else "copy"
            chunks = min(per_message, step["count"] - message * per_message)
            own = min(cut["part_bytes"], cut["chunk_bytes"] - instance * cut["part_bytes"])
            size = max(min(cut["slice_bytes"], own - turn * cut["slice_bytes"]), 0) * chunks
            moved[record.step] += 1
            link = (sends + receives)[0][:2] if sends + receives else None
        begin_ns, end_ns = before.time_ns + offset_ns, record.time_ns + offset_ns
        yield Span(rank, track, number, begin_ns, end_ns, kind, record.step, turn, link, size,
                   step and step["line"], step and program, step and step["text"], sends, receives)


def exchange_spans(rank, work, track, part, offset_ns):
    own = {at: of for at, *of in transfers_of(work, track, part[0].step, None)}
    moved = collections.Counter()
    for before, record in zip(part, part[1:]):
        assert record.kind != BEGIN
        kind, link, size, turn = KINDS.get(record.kind, "finish"), None, 0, 0
        sends, receives = [], []
        if record.kind in KINDS or record.kind == MOVE:
            transfer, number = own[record.step]
            peer, wire = transfer["peer"], transfer["wire"] + number
            sends = [(rank, peer, wire)] if transfer["direction"] == "out" else []
            receives = [(peer, rank, wire)] if transfer["direction"] == "in" else []
            turn = moved[record.step]
        if record.kind == MOVE:
            left = part_bytes(transfer, number) - turn * transfer["message_bytes"]
            kind, size = "copy", min(left, transfer["message_bytes"])
            moved[record.step] += 1
            link = (sends + receives)[0][:2]
        begin_ns, end_ns = before.time_ns + offset_ns, record.time_ns + offset_ns
        yield Span(rank, track, track, begin_ns, end_ns, kind, record.step, turn, link, size, None,
                   None, None, sends, receives)
