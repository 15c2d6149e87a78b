"""Compares the loss curves of two runs of train.py.

    python compare.py nccl.json ours.json [--noise nccl_other_order.json]

Two right libraries add in different orders, so curves differ by rounding, and the difference grows
from step to step. What is allowed is twice what a run with `--noise` shows (the same library adding
in another order, such as NCCL_ALGO=Tree against Ring), and at least a floor for each type. The first
losses, before any gradient was reduced, must be equal but for their own all-reduce.
"""

import argparse
import json
import sys

# The least that is allowed, relative to the loss: at the first step, and at any.
FLOORS = {"float32": (1e-6, 2e-3), "bfloat16": (1e-6, 3e-2)}


def deviation(first, second):
    """The largest relative difference of two curves."""
    return max(abs(a - b) / abs(a) for a, b in zip(first, second))


def faults(name, base, other, noise):
    """What is wrong with a curve, in words."""
    at_first, floor = FLOORS[name.split()[1]]
    if len(base) != len(other):
        return [f"{len(base)} steps against {len(other)}"]
    found = []
    allowed = floor if noise is None else max(floor, 2 * deviation(base, noise))
    if deviation(base[:1], other[:1]) > at_first:
        found.append(f"the first losses are {base[0]} and {other[0]}")
    if deviation(base, other) > allowed:
        found.append(f"they differ by {deviation(base, other):.2e}, more than {allowed:.2e}")
    if len(base) >= 20 and not other[-1] < 0.9 * other[0]:
        found.append(f"nothing was learnt: {other[0]} to {other[-1]}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("base")
    parser.add_argument("other")
    parser.add_argument("--noise", help="a third run, which shows how much order matters")
    args = parser.parse_args()
    runs = []
    for path in (args.base, args.other, args.noise):
        if path is None:
            runs.append(None)
            continue
        with open(path) as file:
            runs.append(json.load(file))
        print(f"{path}: {runs[-1]['world']} ranks, {runs[-1]['library']}")
    base, other, noise = runs
    failed = 0
    if base["world"] != other["world"] or base["curves"].keys() != other["curves"].keys():
        sys.exit("the runs are not of the same trainings")
    for name, curve in base["curves"].items():
        found = faults(name, curve, other["curves"][name], noise and noise["curves"][name])
        verdict = "FAILED " if found else "ok     "
        remark = "; ".join(found) or f"they differ by {deviation(curve, other['curves'][name]):.2e}"
        print(f"{verdict} {name}: {remark}")
        failed += bool(found)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
