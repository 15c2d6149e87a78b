"""Runs PyTorch's own distributed tests over two libraries, and compares.

    python upstream.py --ours /path/to/libnccl.so.2 [--world 2] [--jobs 12] [--only TEXT]

Each test runs over the library that is preloaded; what fails there runs over NVIDIA's. The script
fails if a test fails over ours that passes over NVIDIA's. Several tests run at a time, so a test
that fails is run once more alone before it counts. Needs as many GPUs as ranks, and the package
`expecttest`.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 120


def environment(world, folder, library):
    values = dict(os.environ, BACKEND="nccl", WORLD_SIZE=str(world), TEMP_DIR=folder)
    values["DISTRIBUTED_TESTS_DEFAULT_TIMEOUT"] = str(LIMIT_S - 30)
    values.setdefault("NCCL_NVLS_ENABLE", "0")
    if library:
        values["LD_PRELOAD"] = library
    return values


def run(name, world, library):
    """How a test ended over `library`, or over NVIDIA's if that is None: how and why."""
    with tempfile.TemporaryDirectory() as folder:
        for part in ("barrier", "test_dir", "init_dir"):
            (pathlib.Path(folder) / part).mkdir()
        command = [sys.executable, str(HERE / "upstream_case.py"), name]
        try:
            ended = subprocess.run(
                command,
                env=environment(world, folder, library),
                capture_output=True,
                text=True,
                timeout=LIMIT_S,
                cwd=HERE,
            )
        except subprocess.TimeoutExpired:
            return {"how": "failed", "why": f"it took more than {LIMIT_S} s"}
    for line in reversed(ended.stdout.splitlines()):
        if line.startswith('{"how"'):
            outcome = json.loads(line)
            outcome["why"] = (outcome["why"] + "\n" + ended.stderr[-2000:]).strip()
            return outcome
    return {"how": "failed", "why": ended.stderr[-2000:]}


def run_all(names, world, library, jobs):
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        outcomes = dict(zip(names, pool.map(lambda name: run(name, world, library), names)))
    for name in [name for name in names if outcomes[name]["how"] == "failed"]:
        outcomes[name] = run(name, world, library)
    return outcomes


def summary(outcomes):
    counts = {"passed": 0, "skipped": 0, "failed": 0}
    for outcome in outcomes.values():
        counts[outcome["how"]] += 1
    return ", ".join(f"{count} {how}" for how, count in counts.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", required=True)
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--only", default="")
    parser.add_argument("--out")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        listed = subprocess.run(
            [sys.executable, str(HERE / "upstream_case.py"), "--list"],
            env=environment(arguments.world, folder, None),
            capture_output=True,
            text=True,
            check=True,
            cwd=HERE,
        )
    names = [name for name in json.loads(listed.stdout.splitlines()[-1]) if arguments.only in name]
    ours = run_all(names, arguments.world, os.path.abspath(arguments.ours), arguments.jobs)
    print(f"ours: {summary(ours)} of {len(names)}", flush=True)
    failed = [name for name in names if ours[name]["how"] == "failed"]
    nvidia = run_all(failed, arguments.world, None, arguments.jobs)
    if failed:
        print(f"NVIDIA's, of those that failed: {summary(nvidia)}", flush=True)
    if arguments.out:
        text = json.dumps({"ours": ours, "NVIDIA's": nvidia}, indent=1)
        pathlib.Path(arguments.out).write_text(text)
    worse = [name for name in failed if nvidia[name]["how"] != "failed"]
    for name in failed:
        end = nvidia[name]["how"]
        print(f"{name}: fails over ours, {end} over NVIDIA's:\n{ours[name]['why'][-1500:]}")
    sys.exit(1 if worse else 0)


if __name__ == "__main__":
    main()
