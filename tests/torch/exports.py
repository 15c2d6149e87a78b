"""Checks what `msccl trace convert` wrote against the recordings, with readers of others.

    python exports.py FOLDER --perfetto run.pftrace --chrome both.json --profile torch.json

Perfetto's own Python package (`pip install perfetto`) reads the first file, Python's json the
second, which must hold all of the profile. Every span of a thread block is a slice with the same
begin and end, program, line, step, peer and bytes; every message is a flow from its send to its
receive; the counters of GB/s, over time, are the bytes of each link.
Ends with 1 if something is wrong, with 77 if there is no such package.
"""

import argparse
import collections
import json
import sys

from spans import MOVES, Run

SLICE_BEGIN, SLICE_END, COUNTER = 1, 2, 4

Slice = collections.namedtuple("Slice", "rank track name begin_ns end_ns args flows ends")


def expected(run):
    """By rank and name of track: begin, end and facts of each span, in order."""
    tracks = collections.defaultdict(list)
    for spans in (of.spans for launches in run.ranks for of in launches):
        for span in spans:
            facts = {"step": span.step}
            if span.text is not None:
                facts.update(line=span.line, program=span.program, does=span.text)
            if span.link is not None:
                facts["peer"] = sum(span.link) - span.rank
            if span.kind in MOVES:
                facts["bytes"] = span.bytes
            tracks[span.rank, f"thread block {span.track}"].append((span, facts))
    return tracks


def check_slices(run, slices):
    by_track = collections.defaultdict(list)
    for of in slices:
        by_track[of.rank, of.track].append(of)
    wanted = expected(run)
    found = {key for key in by_track if key[1].startswith("thread block")}
    assert found == set(wanted), found ^ set(wanted)
    count = 0
    for key, spans in wanted.items():
        own = sorted(by_track[key], key=lambda of: (of.begin_ns, of.end_ns))
        spans = sorted(spans, key=lambda of: (of[0].begin_ns, of[0].end_ns))
        assert len(own) == len(spans), key
        for found, (span, facts) in zip(own, spans):
            assert found.name.startswith(span.kind), (found, span)
            assert abs(found.begin_ns - span.begin_ns) <= 1, (found, span)
            assert abs(found.end_ns - span.end_ns) <= 1, (found, span)
            for name, value in facts.items():
                assert found.args[name] == value, (name, found, span)
            count += 1
    for rank, launches in enumerate(run.ranks):
        calls = sorted(by_track[rank, "calls"], key=lambda of: of.begin_ns)
        assert len(calls) == len(launches)
        for found, launch in zip(calls, launches):
            shape = launch.shape
            assert (found.args["call"], found.args["bytes"]) == (launch.call, shape["bytes"])
            assert found.args["why"] == shape["reason"] and found.args["protocol"], found
    return count


def check_flows(run, slices):
    """Each flow leads from a slice that sends to one that receives, and there is one a message."""
    sent = {flow: of for of in slices for flow in of.flows}
    received = {flow: of for of in slices for flow in of.ends}
    moves = [span for launches in run.ranks for of in launches for span in of.spans
             if span.kind in MOVES]
    messages = sum(len(span.sends) for span in moves)
    assert messages == sum(len(span.receives) for span in moves)
    assert set(sent) == set(received) and len(sent) == messages, (len(sent), messages)
    for flow, begin in sent.items():
        assert begin.begin_ns <= received[flow].end_ns, flow
        assert begin.rank != received[flow].rank, flow
    # Thread blocks receive from each other in the order in which they send.
    pairs = collections.defaultdict(list)
    for flow, begin in sent.items():
        end = received[flow]
        pairs[begin.rank, begin.track, end.rank, end.track].append((begin.begin_ns, end.end_ns))
    for times in pairs.values():
        ends = [end_ns for _, end_ns in sorted(times)]
        assert ends == sorted(ends), times
    return messages


def check_counters(run, counters):
    """Rates, over time, are the bytes that were sent."""
    wanted = collections.Counter()
    for launches in run.ranks:
        for span in (span for of in launches for span in of.spans):
            for _, to, _ in span.sends if span.kind in MOVES else ():
                wanted[span.rank, f"GB/s to rank {to}"] += span.bytes
    assert set(counters) == set(wanted), set(counters) ^ set(wanted)
    for key, values in counters.items():
        values = sorted(values)
        carried = sum(rate * (after - time)
                      for (time, rate), (after, _) in zip(values, values[1:]))
        # Times are rounded to 1 ns, of moves that take some 1000.
        assert abs(carried - wanted[key]) < 0.02 * wanted[key], (key, carried, wanted[key])
        assert values[-1][1] == 0, key
    return len(wanted)


def read_perfetto(path):
    from perfetto.protos.perfetto.trace import perfetto_trace_pb2

    trace = perfetto_trace_pb2.Trace()
    with open(path, "rb") as file:
        trace.ParseFromString(file.read())
    tracks, processes, names = {}, {}, collections.defaultdict(dict)
    slices, counters, stacks = [], collections.defaultdict(list), collections.defaultdict(list)
    last_ns = 0
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            of = packet.track_descriptor
            if of.HasField("process"):
                processes[of.uuid] = of.process.pid - 1
                assert of.process.process_name.startswith(f"msccl rank {of.process.pid - 1} ")
            else:
                tracks[of.uuid] = (processes[of.parent_uuid], of.name)
                assert of.name.startswith("GB/s") == of.HasField("counter"), of
        data = packet.interned_data
        for kind in ("event_names", "event_categories", "debug_annotation_names",
                     "debug_annotation_string_values"):
            for entry in getattr(data, kind):
                value = getattr(entry, "name", None) or entry.str.decode()
                names[kind][entry.iid] = value
        if not packet.HasField("track_event"):
            continue
        event, time_ns = packet.track_event, packet.timestamp
        assert time_ns >= last_ns
        last_ns = time_ns
        rank, track = tracks[event.track_uuid]
        if event.type == SLICE_BEGIN:
            args = {}
            for of in event.debug_annotations:
                text = names["debug_annotation_string_values"].get(of.string_value_iid)
                name = names["debug_annotation_names"][of.name_iid]
                args[name] = text if of.HasField("string_value_iid") else of.uint_value
            name = names["event_names"][event.name_iid]
            stacks[event.track_uuid].append((name, time_ns, args, event))
        elif event.type == SLICE_END:
            name, begin_ns, args, begin = stacks[event.track_uuid].pop()
            slices.append(Slice(rank, track, name, begin_ns, time_ns, args, list(begin.flow_ids),
                                list(begin.terminating_flow_ids)))
        else:
            assert event.type == COUNTER
            counters[rank, track].append((time_ns, event.double_counter_value))
    assert not any(stacks.values())
    return slices, counters


def read_chrome(path, profile):
    """Slices and counters of msccl; the events of the profile must be there as they were."""
    def ns(text):
        whole, _, part = text.partition(".")
        return int(whole + part.ljust(3, "0"))

    with open(path, encoding="utf-8") as file:
        document = json.load(file, parse_float=lambda text: text)
    with open(profile, encoding="utf-8") as file:
        other = json.load(file, parse_float=lambda text: text)
    base_ns = other["baseTimeNanoseconds"]
    for name, value in other.items():
        assert name == "traceEvents" or document[name] == value, name
    events = document["traceEvents"]
    for event in other["traceEvents"]:
        assert event in events, event
    ours = [event for event in events if event["pid"] >= 10**9]
    ranks = {event["pid"]: int(event["args"]["name"].split()[2]) for event in ours
             if event["ph"] == "M" and event["name"] == "process_name"}
    tracks = {(event["pid"], event["tid"]): event["args"]["name"] for event in ours
              if event["ph"] == "M" and event["name"] == "thread_name"}
    slices, counters = [], collections.defaultdict(list)
    arrows = {"s": collections.defaultdict(list), "f": collections.defaultdict(list)}
    for event in ours:
        if event["ph"] in arrows:
            place = event["pid"], event["tid"], event["ts"]
            arrows[event["ph"]][place].append(event["id"])
            assert event["ph"] == "s" or event["bp"] == "e"
    for event in ours:
        if event["ph"] == "X":
            place = event["pid"], event["tid"], event["ts"]
            begin_ns = base_ns + ns(event["ts"])
            is_move = event["cat"] == "move" and not event["name"].startswith("finish")
            # What ends where a move begins may begin there, too, if it took no time.
            flows, ends = ([arrows[phase].pop(place, []) if is_move else []
                            for phase in ("s", "f")])
            slices.append(Slice(ranks[event["pid"]], tracks[place[:2]], event["name"], begin_ns,
                                begin_ns + ns(event["dur"]), event["args"], flows, ends))
        elif event["ph"] == "C":
            rate = float(event["args"]["GB/s"])
            counters[ranks[event["pid"]], event["name"]].append((base_ns + ns(event["ts"]), rate))
    assert not any(arrows.values()), "every arrow begins and ends at a slice"
    return slices, counters


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("folder")
    for name in ("--perfetto", "--chrome", "--profile"):
        arguments.add_argument(name, required=True)
    args = arguments.parse_args()
    run = Run(args.folder)
    files = {"chrome": lambda: read_chrome(args.chrome, args.profile),
             "perfetto": lambda: read_perfetto(args.perfetto)}
    for name, read in files.items():
        try:
            slices, counters = read()
        except ImportError as error:
            print(f"no package reads Perfetto's files here: {error}")
            sys.exit(77)
        print(f"{name}: {check_slices(run, slices)} spans, {check_flows(run, slices)} messages, "
              f"{check_counters(run, counters)} counters")


if __name__ == "__main__":
    main()
