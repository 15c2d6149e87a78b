"""Runs tests of PyTorch's own distributed test suite, as it ships in PyTorch's wheel.

`python upstream_case.py` reads the names of tests, one a line, and writes one line of JSON for
each: its name, how it ended, and why. `python upstream_case.py --list` writes all names. The
environment says what PyTorch's suite asks it for, `BACKEND` and `WORLD_SIZE` (`upstream.py` sets
them). The package `expecttest` must be there.

The ranks of a test are fresh processes. They are forked from this one, which has PyTorch loaded,
as long as it has not used CUDA: to load PyTorch takes longer than most tests.
"""

import ctypes
import json
import os
import sys
import unittest

# PyTorch counts GPUs without a context then; a process with one cannot fork ranks.
os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"

import torch
import torch._inductor.config
import torch.utils._triton

# What the suite loads would ask a GPU what it can do: for tests of Triton, and of Numba and CuPy,
# which are not among these.
with torch._inductor.config.patch(triton_disable_device_detection=True):
    others = {name: sys.modules.pop(name, None) for name in ("numba", "cupy")}
    sys.modules.update(dict.fromkeys(others))
    import torch.testing._internal.common_device_type
for other in others:
    del sys.modules[other]
torch.utils._triton.has_triton.cache_clear()
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend


class UpstreamTest(TestDistBackend, DistributedTest._DistTestBase):
    """All tests, each in fresh processes, one for each rank."""

    def setUp(self):
        super().setUp()
        if can_fork():
            self._start_processes(torch.multiprocessing.get_context("fork").Process)
        else:
            self._spawn_processes()

    def _check_return_codes(self, fn, elapsed_time):
        codes = [process.exitcode for process in self.processes]
        print(f"ranks ended with {codes} after {elapsed_time:.1f} s", file=sys.stderr, flush=True)
        super()._check_return_codes(fn, elapsed_time)

    @classmethod
    def _run(cls, rank, test_name, file_name, pipe, **kwargs):
        torch.backends.cudnn.flags(enabled=True, allow_tf32=False).__enter__()
        super()._run(rank, test_name, file_name, pipe, **kwargs)


def can_fork():
    """Whether a fork of this process can use CUDA, if there is any: none of one that has can."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return True
    process = os.fork()
    if process == 0:
        os._exit(1 if driver.cuInit(0) else 0)
    return os.waitpid(process, 0)[1] == 0


def run_one(name):
    result = unittest.TestResult()
    unittest.TestSuite([UpstreamTest(name)]).run(result)
    if result.errors or result.failures:
        return "failed", (result.errors + result.failures)[0][1]
    if result.skipped:
        return "skipped", result.skipped[0][1]
    return "passed", ""


def main():
    if sys.argv[1:] == ["--list"]:
        print(json.dumps(unittest.TestLoader().getTestCaseNames(UpstreamTest)))
        return
    for line in sys.stdin:
        name = line.strip()
        how, why = run_one(name)
        print("\n" + json.dumps({"name": name, "how": how, "why": why}), flush=True)


if __name__ == "__main__":
    main()
