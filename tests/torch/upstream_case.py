"""One test of PyTorch's own distributed test suite, as it ships in PyTorch's wheel.

`python upstream_case.py NAME` runs the test of that name in processes that it starts, and writes
one line of JSON: how it ended, and why. `python upstream_case.py --list` writes all names. The
environment says what PyTorch's suite asks it for: `BACKEND`, `WORLD_SIZE`, `TEMP_DIR`
(`upstream.py` sets them). The package `expecttest` must be there.
"""

import json
import sys
import unittest

import torch
from torch.testing._internal.distributed.distributed_test import DistributedTest, TestDistBackend


class UpstreamTest(TestDistBackend, DistributedTest._DistTestBase):
    """All tests, each in fresh processes, one for each rank."""

    def setUp(self):
        super().setUp()
        self._spawn_processes()
        torch.backends.cudnn.flags(enabled=True, allow_tf32=False).__enter__()


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
    how, why = run_one(sys.argv[1])
    print(json.dumps({"how": how, "why": why}), flush=True)


if __name__ == "__main__":
    main()
