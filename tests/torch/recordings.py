"""Checks recordings (docs/TRACING.md) with a reader of its own, which shares nothing with msccl.

    MSCCL_TRACE=traces LD_PRELOAD=$LIB python train.py --world 2 --out losses.json
    python recordings.py traces

For every thread block of every launch: the records begin and end with the launch, their times never
step back, and moves are the steps of the plan in their order, as often as the call is cut into
rounds and messages; of sends and receives, the messages of each transfer. For every message whose
two ends are found by its number: it is not received before it is sent, as far as the clocks of the
ranks agree. Kernels of GPUs record how many messages each link had before a launch instead of
numbers; the moves are counted on from there. Proxies carry a message after it is sent and before it
is received.
Prints what was checked; ends with 1 if something is wrong.
"""

import bisect
import collections
import json
import os
import struct
import sys

BEGIN, WAIT_ROOM, WAIT_DATA, WAIT_BLOCK, MOVE, END, COUNT = range(1, 8)
WAITS = (WAIT_ROOM, WAIT_DATA, WAIT_BLOCK)
NAMED_TRACKS = 1 << 20

Record = collections.namedtuple("Record", "time_ns kind step message")


class Recording:
    """One file: the descriptions, and the records by track, in pieces without a loss."""

    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        assert data[:8] == b"MSCCLREC", f"{path} is no recording"
        version = struct.unpack_from("<I", data, 8)[0]
        assert version == 3, f"{path} has format {version}, expected 3"
        self.plans, self.shapes, self.calls, self.clocks, self.lost = {}, {}, {}, [], 0
        self.named = {}
        self.tracks = collections.defaultdict(lambda: [[]])
        at = 12
        while at + 8 <= len(data):
            kind, length = struct.unpack_from("<II", data, at)
            self.frame(kind, data[at + 8:at + 8 + length])
            at += 8 + length

    def frame(self, kind, payload):
        if kind == 1:
            self.header = json.loads(payload)
        elif kind == 2:
            plan = json.loads(payload)
            self.plans[plan["id"]] = plan
        elif kind == 3:
            shape = json.loads(payload)
            self.shapes[shape["id"]] = shape
        elif kind == 4:
            number, _, shape, _ = struct.unpack("<QQII", payload)
            self.calls[number & 0xffffffff] = shape
        elif kind == 5:
            self.clocks.append(struct.unpack("<QQQ", payload))
        elif kind == 6:
            track = struct.unpack_from("<I", payload)[0]
            for time_ns, step, message in struct.iter_unpack("<QII", payload[16:]):
                record = Record(time_ns, step >> 28, step & 0x0fffffff, message)
                self.tracks[track][-1].append(record)
        elif kind == 7:
            track, _, count = struct.unpack("<IIQ", payload)
            self.lost += count
            self.tracks[track].append([])
        elif kind == 8:
            named = json.loads(payload)
            self.named[named["track"]] = named

    def host_clock(self):
        """The host's clock as a function of that of the records, and how wrong it may be."""
        readings = sorted(((before + after) // 2 - device, device, (after - before) / 2)
                          for before, device, after in self.clocks)
        readings.sort(key=lambda reading: reading[1])
        times = [device for _, device, _ in readings]

        def host_ns(time_ns):
            after = bisect.bisect(times, time_ns)
            if after == 0 or after == len(times):
                return time_ns + readings[max(after - 1, 0)][0]
            (offset, start, _), (later, end, _) = readings[after - 1], readings[after]
            return time_ns + offset + (later - offset) * (time_ns - start) // max(end - start, 1)

        return host_ns, max(error for _, _, error in readings)


def parts(records):
    """The records of each launch, from its begin to its end; what a loss has cut is left out."""
    part = None
    for record in records:
        if record.kind == BEGIN:
            part = [record]
        elif part is not None:
            part.append(record)
            if record.kind == END:
                yield part
                part = None


def links_of(cut, plan, track):
    """The peers and wires from which a thread block receives, and those by which it sends."""
    blocks = plan["thread_blocks"]
    instance, block = track // len(blocks), blocks[track % len(blocks)]
    wire = lambda end: (end["peer"], end["number"] * cut["instances"] + instance)
    return [wire(end) for end in block["receives"]], [wire(end) for end in block["sends"]]


def expected_moves(cut, plan, track):
    """What a thread block moves, message by message: the step, its links, and its chunks."""
    block = plan["thread_blocks"][track % len(plan["thread_blocks"])]
    all_receives, all_sends = links_of(cut, plan, track)
    for _ in range(cut["rounds"]):
        for step in block["steps"]:
            sends = [all_sends[at] for at in step["sends"]]
            receives = [all_receives[at] for at in step["receives"]]
            for _ in range(-(-step["count"] // max(cut["chunks_per_message"], 1))):
                yield step["index"], sends, receives, step["count"]


def places_of(cut, plan, track):
    """The links of a thread block by place, as records count them: direction, peer and wire."""
    receives, sends = links_of(cut, plan, track)
    return dict(enumerate([("from", of) for of in receives] + [("to", of) for of in sends]))


def part_bytes(transfer, part):
    """Bytes of a part of a transfer: parts are alike, in units of 16 bytes, but for the last."""
    each = -(-transfer["bytes"] // (16 * transfer["parts"])) * 16
    return max(0, min(each, transfer["bytes"] - each * part))


def transfers_of(work, track, first, end):
    """The transfers of which a thread block moves a part in the launch of those from `first` to
    `end`: by position, with the number of the part."""
    for at, transfer in enumerate(work["transfers"][first:end], first):
        part = track - transfer["track"]
        if 0 <= part < transfer["parts"]:
            yield at, transfer, part


class LinkCounts:
    """How many messages each link of a thread block has had, if the launch began with that."""

    def __init__(self, part, places):
        counts = [record for record in part if record.kind == COUNT and record.step in places]
        self.counts = {places[record.step]: record.message for record in counts}
        self.is_complete = len(self.counts) == len(places)

    def number(self, direction, wire, recorded):
        """Counts a message; its number, or the one that was `recorded`."""
        if not self.is_complete:
            return recorded
        self.counts[direction, wire] = self.counts[direction, wire] + 1 & 0xffffffff
        return self.counts[direction, wire]


class Checker:
    def __init__(self):
        self.faults, self.checked = [], collections.Counter()
        # By link and message number, when the send began and the receive ended by the host's clock.
        self.sends, self.receives = {}, {}
        # The same of proxies: when one has freed the slot of a message, or had all of it.
        self.carried, self.arrived = {}, {}

    def fault(self, text):
        if len(self.faults) < 20:
            self.faults.append(text)

    def recording(self, recording):
        me = recording.header["rank"]
        host_ns, error_ns = recording.host_clock()
        self.checked["lost records"] += recording.lost
        # By call, the first steps of the launches that it takes.
        begins = (record for pieces in recording.tracks.values() for piece in pieces
                  for record in piece if record.kind == BEGIN)
        self.firsts = collections.defaultdict(set)
        for record in begins:
            self.firsts[record.message].add(record.step)
        for track, pieces in recording.tracks.items():
            if track >= NAMED_TRACKS:
                self.proxy(me, recording.named[track], pieces, host_ns)
                continue
            for piece in pieces:
                for earlier, later in zip(piece, piece[1:]):
                    if later.time_ns < earlier.time_ns:
                        self.fault(f"r{me} track {track}: time steps back at {later}")
                for part in parts(piece):
                    self.part(recording, me, track, part, host_ns)
        return error_ns

    def proxy(self, me, named, pieces, host_ns):
        link = named["link"]
        of_link = link["from"], link["to"], link["protocol"], link["wire"]
        ends, kind = (self.carried, MOVE) if link["from"] == me else (self.arrived, WAIT_DATA)
        by_host = (lambda time_ns: time_ns) if named.get("clock") == "host" else host_ns
        for record in (record for piece in pieces for record in piece if record.kind == kind):
            ends[*of_link, record.message] = by_host(record.time_ns)

    def part(self, recording, me, track, part, host_ns):
        shape = recording.shapes.get(recording.calls.get(part[0].message))
        if shape is None:
            return self.fault(f"r{me} track {track}: call {part[0].message} is not described")
        self.checked["launches of thread blocks"] += 1
        if "exchange" in shape["work"]:
            return self.exchange(shape["work"]["exchange"], me, track, part, host_ns)
        work = shape["work"]["plan"]
        plan = recording.plans[work["plan"]]
        moves = [record for record in part if record.kind == MOVE]
        wanted = list(expected_moves(work["cut"], plan, track))
        wanted_steps = [step for step, _, _, count in wanted if count]
        found_steps = [record.step for record in moves]
        counted = set(wanted_steps)
        if [step for step in found_steps if step in counted] != wanted_steps:
            return self.fault(f"r{me} track {track} call {part[0].message}: "
                              f"steps {found_steps[:9]}, expected {wanted_steps[:9]}")
        self.checked["steps"] += len(moves)
        self.waits(me, track, part)
        protocol = work["kernel"]["protocol"]
        links = (of for of in wanted if of[3])
        cut, blocks = work["cut"], len(plan["thread_blocks"])
        counts = LinkCounts(part, places_of(cut, plan, track))
        is_empty = track // blocks * cut["part_bytes"] >= cut["chunk_bytes"]
        for before, record in zip(part, part[1:]):
            # What has no bytes may leave no packet, and then nobody waits for it.
            if record.kind != MOVE or record.step not in counted or is_empty:
                continue
            _, sends, receives, _ = next(links)
            receives = [(of, counts.number("from", of, record.message)) for of in receives]
            sends = [(of, counts.number("to", of, record.message)) for of in sends]
            if not counts.is_complete:
                # A record has the number of one message.
                sends, receives = sends[:1], [] if sends else receives[:1]
            # Where links deliver directly, peers may load once the thread block has begun.
            sent = part[0] if work["kernel"]["delivery"] == "direct" else before
            for (peer, wire), number in sends:
                self.sends[me, peer, protocol, wire, number] = host_ns(sent.time_ns)
            for (peer, wire), number in receives:
                self.receives[peer, me, protocol, wire, number] = host_ns(record.time_ns)

    def exchange(self, work, me, track, part, host_ns):
        first, call = part[0].step, part[0].message
        end = min((of for of in self.firsts[call] if of > first), default=None)
        own = {at: (transfer, number) for at, transfer, number in
               transfers_of(work, track, first, end)}
        wanted = [at for at, (transfer, number) in own.items()
                  for _ in range(-(-part_bytes(transfer, number) // transfer["message_bytes"]))]
        found = [record.step for record in part if record.kind == MOVE]
        if found != wanted:
            return self.fault(f"r{me} track {track} exchange {call}: "
                              f"transfers {found[:9]}, expected {wanted[:9]}")
        self.checked["messages of transfers"] += len(found)
        self.waits(me, track, part)

        def link(transfer, number):
            direction = "to" if transfer["direction"] == "out" else "from"
            return direction, (transfer["peer"], transfer["wire"] + number)

        counts = LinkCounts(part, {of["link"]: link(of, number) for of, number in own.values()})
        for before, record in zip(part, part[1:]):
            if record.kind != MOVE:
                continue
            protocol = own[record.step][0]["protocol"]
            direction, (peer, wire) = link(*own[record.step])
            number = counts.number(direction, (peer, wire), record.message)
            if direction == "to":
                self.sends[me, peer, protocol, wire, number] = host_ns(before.time_ns)
            else:
                self.receives[peer, me, protocol, wire, number] = host_ns(record.time_ns)

    def waits(self, me, track, part):
        """A wait stands before the move of its step."""
        for record, following in zip(part, part[1:]):
            if record.kind in WAITS and following.kind == MOVE and following.step != record.step:
                self.fault(f"r{me} track {track}: {record} before {following}")
            self.checked["waits"] += record.kind in WAITS

    def messages(self, error_ns):
        """A receive does not end before its send begins, but by what the clocks may be off."""
        ways = [received_ns - self.sends[key] for key, received_ns in self.receives.items()
                if key in self.sends]
        self.checked["messages"] += len(ways)
        if not ways:
            return
        print(f"clocks agree to {error_ns:.0f} ns; the shortest message, from the begin "
              f"of its send to the end of its receive, takes {min(ways)} ns")
        if min(ways) < -error_ns:
            self.fault("a message is received before it is sent")

    def proxies(self, error_ns):
        """What a proxy does with a message lies between the two ends of the message."""
        later = [(key, carried_ns - self.sends[key]) for key, carried_ns in self.carried.items()
                 if key in self.sends]
        later += [(key, self.receives[key] - arrived_ns) for key, arrived_ns in self.arrived.items()
                  if key in self.receives]
        self.checked["ends of messages of proxies"] += len(later)
        for key, way_ns in later:
            if way_ns < -error_ns:
                self.fault(f"a proxy has message {key} {way_ns} ns before it can")


def main():
    folder = sys.argv[1]
    files = sorted(name for name in os.listdir(folder) if name.endswith(".recording"))
    assert files, f"no recordings in {folder}"
    by_communicator = collections.defaultdict(list)
    for name in files:
        recording = Recording(os.path.join(folder, name))
        by_communicator[recording.header["communicator"]].append(recording)
    wrong, launched = False, False
    for communicator, recordings in by_communicator.items():
        checker = Checker()
        errors = [checker.recording(recording) for recording in recordings]
        print(f"communicator {communicator}, {len(recordings)} ranks:")
        checker.messages(2 * max(errors))
        checker.proxies(max(errors))
        print(", ".join(f"{count} {what}" for what, count in sorted(checker.checked.items())))
        for fault in checker.faults:
            print(f"WRONG: {fault}")
        launches = checker.checked["launches of thread blocks"]
        moves = checker.checked["steps"] + checker.checked["messages of transfers"]
        if launches and not moves:
            print("WRONG: nothing is moved")
        wrong = wrong or bool(checker.faults) or bool(launches and not moves)
        launched = launched or bool(launches)
    if not launched:
        print("WRONG: nothing is launched")
    sys.exit(wrong or not launched)


if __name__ == "__main__":
    main()
