"""Runs PyTorch's own distributed tests over two libraries, and compares.

    python upstream.py --ours /path/to/libnccl.so.2 [--world 2] [--gpus 2] [--jobs 6]
                       [--only TEXT] [--part 1/2] [--out FILE]

Each test runs over the library that is preloaded; what fails there runs over NVIDIA's. The script
fails if a test fails over ours that passes over NVIDIA's. Several tests run at a time, so a test
that fails is run once more alone before it counts: GPUs give each process its turn, and where many
share them, a rank may be later than the suite allows. Jobs take turns at sets of as many GPUs as
ranks. A part has every so many of the tests. FILE gets a line of JSON for each run as it ends.
Needs as many GPUs as ranks, and the package `expecttest`.
"""

import argparse
import itertools
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
LIMIT_S = 120


def environment(world, library, first_gpu=0):
    values = dict(os.environ, WORLD_SIZE=str(world))
    values.setdefault("BACKEND", "nccl")
    values["DISTRIBUTED_TESTS_DEFAULT_TIMEOUT"] = str(LIMIT_S - 30)
    values.setdefault("NCCL_NVLS_ENABLE", "0")
    if values["BACKEND"] == "nccl":
        gpus = range(first_gpu, first_gpu + world)
        values["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    if library:
        values["LD_PRELOAD"] = library
    return values


class Worker:
    """A process that runs one test after the other (`upstream_case.py`)."""

    def __init__(self, environment):
        self.environment, self.process = environment, None
        self.folder = tempfile.TemporaryDirectory()
        self.errors = pathlib.Path(self.folder.name) / "errors"

    def start(self):
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "upstream_case.py")],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Appended to, so that it can be emptied from here.
            stderr=self.errors.open("a"),
            text=True,
            cwd=HERE,
            start_new_session=True,
        )

    def stop(self):
        if self.process:
            # With the ranks of its test, which are of its session.
            os.killpg(self.process.pid, 9)
            self.process.wait()
            self.process = None

    def run(self, name):
        """How a test ended, and why."""
        if not self.process:
            self.start()
        self.errors.write_text("")
        end = threading.Timer(LIMIT_S, lambda: os.killpg(self.process.pid, 9))
        end.start()
        outcome = self.ask(name)
        end.cancel()
        if not outcome:
            self.stop()
            outcome = {"how": "failed", "why": f"no answer within {LIMIT_S} s, or its process died"}
        if outcome["how"] == "failed":
            outcome["why"] += "\n" + self.errors.read_text(errors="replace")[-2000:]
        return {"how": outcome["how"], "why": outcome["why"]}

    def ask(self, name):
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        for line in self.process.stdout:
            if line.startswith('{"name"'):
                return json.loads(line)
        return None


class Library:
    """Runs tests over a library, NVIDIA's if that is None, and notes how they ended."""

    def __init__(self, name, path, arguments):
        self.name, self.path, self.out = name, path, arguments.out
        self.world, self.gpus = arguments.world, arguments.gpus
        self.outcomes = {}

    def run(self, names, jobs):
        waiting = queue.SimpleQueue()
        for name in names:
            waiting.put(name)
        firsts = itertools.cycle(range(0, max(self.gpus // self.world, 1) * self.world, self.world))
        environments = [environment(self.world, self.path, next(firsts)) for _ in range(jobs)]
        threads = [threading.Thread(target=self.work, args=(waiting, e)) for e in environments]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def work(self, waiting, environment):
        worker = Worker(environment)
        while True:
            try:
                name = waiting.get_nowait()
            except queue.Empty:
                break
            outcome = self.outcomes[name] = worker.run(name)
            if self.out:
                line = json.dumps({"library": self.name, "test": name, **outcome})
                print(line, file=self.out, flush=True)
        worker.stop()

    def run_all(self, names, jobs):
        self.run(names, min(jobs, len(names)))
        self.run(self.failed(), 1)
        counts = {"passed": 0, "skipped": 0, "failed": 0}
        for outcome in self.outcomes.values():
            counts[outcome["how"]] += 1
        counts = ", ".join(f"{count} {how}" for how, count in counts.items())
        print(f"{self.name}: {counts} of {len(names)}", flush=True)

    def failed(self):
        return [name for name, outcome in self.outcomes.items() if outcome["how"] == "failed"]


def all_tests(world):
    listed = subprocess.run(
        [sys.executable, str(HERE / "upstream_case.py"), "--list"],
        env=environment(world, None),
        capture_output=True,
        text=True,
        check=True,
        cwd=HERE,
    )
    return json.loads(listed.stdout.splitlines()[-1])


def part(text):
    """Which tests belong to part `2/3`: the second, the fifth, and so on."""
    number, of = map(int, text.split("/"))
    if not 1 <= number <= of:
        raise ValueError(text)
    return slice(number - 1, None, of)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", required=True)
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--gpus", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--only", default="")
    parser.add_argument("--part", type=part, default=slice(None))
    parser.add_argument("--out", type=argparse.FileType("w"))
    arguments = parser.parse_args()
    names = [name for name in all_tests(arguments.world) if arguments.only in name]
    names = names[arguments.part]
    ours = Library("ours", os.path.abspath(arguments.ours), arguments)
    ours.run_all(names, arguments.jobs)
    nvidia = Library("NVIDIA's", None, arguments)
    if ours.failed():
        nvidia.run_all(ours.failed(), arguments.jobs)
    for name in ours.failed():
        end = nvidia.outcomes[name]["how"]
        print(f"{name}: fails over ours, {end} over NVIDIA's:\n{ours.outcomes[name]['why'][-1500:]}")
    sys.exit(1 if set(ours.failed()) - set(nvidia.failed()) else 0)


if __name__ == "__main__":
    main()
