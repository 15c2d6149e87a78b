"""Checks what `msccl trace report --format json` says against the recordings, computed anew.

    python reports.py FOLDER report.json

For all calls of one shape: durations, arrival skew and the last rank, what time goes to by rank,
thread block, link and source line, the busiest link, and the critical path of the call that is
shown: its pieces follow each other from the begin of the call to its end, each is a span of a
thread block, or the way of a message from the end of its send to the end of the wait for it.
Ends with 1 if something is wrong.
"""

import collections
import json
import sys

from spans import MOVES, Run

FIELDS = {"wait for data": "wait_data_us", "wait for room": "wait_room_us",
          "wait for a block": "wait_block_us", "copy": "copy_us", "reduce": "reduce_us",
          "finish": "finish_us"}


def near(found, wanted, what):
    assert abs(found - wanted) <= 0.01 + 1e-6 * abs(wanted), (what, found, wanted)


def median(values):
    """The value in the middle; of an even number the upper one."""
    values = sorted(values)
    return values[(len(values)) // 2]


def spans_of(launches):
    return (span for launch in launches for of in launch for span in of.spans)


def check_times(group, launches):
    places = {
        "by_rank": lambda span: {span.rank},
        "by_block": lambda span: {(span.rank, span.block)},
        "by_link": lambda span: {span.link} - {None},
        "by_line": lambda span: {(span.program, span.line)} if span.line else set(),
    }
    names = {"by_rank": ("rank",), "by_block": ("rank", "thread_block"), "by_link": ("from", "to"),
             "by_line": ("program", "line")}
    count = 0
    for table, places_of in places.items():
        wanted = collections.defaultdict(collections.Counter)
        for span in spans_of(launches):
            for place in places_of(span):
                wanted[place][FIELDS[span.kind]] += (span.end_ns - span.begin_ns) / 1000
        key = names[table]
        found = {tuple(row[name] for name in key) if len(key) > 1 else row[key[0]]: row
                 for row in group[table]}
        assert set(found) == set(wanted), (table, set(found) ^ set(wanted))
        for place, times in wanted.items():
            for field in FIELDS.values():
                near(found[place][field], times[field], (table, place, field))
                count += 1
    return count


def check_arrivals(group, launches):
    skews, lasts = [], collections.Counter()
    for launch in launches:
        begins = [of.begin_ns for of in launch]
        skews.append((max(begins) - min(begins)) / 1000)
        lasts[begins.index(max(begins))] += 1
    near(group["skew_us"]["median"], median(skews), "skew")
    near(group["skew_us"]["most"], max(skews), "skew")
    assert {of["rank"]: of["times"] for of in group["last"]} == dict(lasts), (group["last"], lasts)
    durations = [(max(of.end_ns for of in launch) - min(of.begin_ns for of in launch)) / 1000
                 for launch in launches]
    near(group["duration_us"]["median"], median(durations), "duration")
    near(group["duration_us"]["least"], min(durations), "duration")
    near(group["duration_us"]["most"], max(durations), "duration")
    return median(durations)


def check_busiest(group, launches, duration_us):
    carried = collections.Counter()
    for span in spans_of(launches):
        for wire in span.sends if span.kind in MOVES else ():
            carried[wire[:2]] += span.bytes
    found = group["busiest_link"]
    link = found["from"], found["to"]
    assert carried[link] == max(carried.values()), (found, carried)
    assert found["bytes"] == carried[link] // len(launches)
    near(found["gb_per_s"], carried[link] / len(launches) / duration_us / 1000, "busiest")


def check_path(group, launches):
    launch = next(of for of in launches if of[0].call == group["shown_call"])
    begin_ns = min(of.begin_ns for of in launch)
    path, spans = group["path"], list(spans_of([launch]))
    us = lambda time_ns: (time_ns - begin_ns) / 1000
    near(path[0]["begin_us"], 0, "path")
    near(path[-1]["end_us"], us(max(of.end_ns for of in launch)), "path")
    for one, other in zip(path, path[1:]):
        near(one["end_us"], other["begin_us"], "path")
    kinds = collections.Counter()
    for piece in path:
        assert piece["end_us"] >= piece["begin_us"], piece
        own = [span for span in spans
               if (span.rank, span.block) == (piece["rank"], piece["thread_block"])
               and abs(us(span.end_ns) - piece["end_us"]) < 0.01]
        what = piece["what"]
        if what == "arrives":
            near(piece["end_us"], us(launch[piece["rank"]].begin_ns), piece)
        elif what.startswith("message on its way"):
            wait = next(span for span in own if span.kind == "wait for data")
            sends = [span for span in spans if span.kind in MOVES
                     and wait.link in {wire[:2] for wire in span.sends}
                     and abs(us(span.end_ns) - piece["begin_us"]) < 0.01]
            assert sends and what.endswith(f"{wait.link[0]}→{wait.link[1]}"), piece
            assert wait.line == piece["line"], piece
        elif what.split(" ")[0] in ("copy", "reduce", "finish"):
            span = next(of for of in own if what.startswith(of.kind))
            near(piece["begin_us"], us(span.begin_ns), piece)
        kinds[what.split(" ")[0]] += 1
    return kinds


def main():
    folder, report = sys.argv[1:]
    run = Run(folder)
    with open(report, encoding="utf-8") as file:
        groups = json.load(file)["groups"]
    assert sum(group["calls"] for group in groups) == len(run.launches)
    for group in groups:
        launches = [of for of in run.launches if of[0].shape["bytes"] == group["bytes"]]
        assert len(launches) == group["calls"], "one shape of each size"
        duration_us = check_arrivals(group, launches)
        check_busiest(group, launches, duration_us)
        print(f"{group['name']}: {check_times(group, launches)} times; critical path: "
              f"{dict(check_path(group, launches))}")


if __name__ == "__main__":
    main()
