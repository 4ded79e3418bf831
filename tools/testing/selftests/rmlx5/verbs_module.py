# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs modules of rdma-core's tests, each in a process of its own, and writes a line a test.

usage: verbs_module.py DIRECTORY DEVICE REQUESTS ANSWERS

DIRECTORY holds the package `tests` as rdma-core ships it; modules beside this file belong to it, too. REQUESTS and
ANSWERS are named pipes: a line "MODULE SECONDS TABLE SAID [CLASS.test ...]" (MODULE is the name behind `test_`) asks for
a run, of the tests named or of all, and its answer is the exit code of the process. What all modules import is imported
once, before the processes are made: on an emulated processor that takes longer than the tests. No device is open then.

A line of TABLE is MODULE, CLASS.test, verdict (pass, fail, error, skip) and the reason of a skip, with tabs between. It
is written when the test ends, and `died` stands there before: a process that is killed leaves that word behind. SAID
takes what the process prints.
"""
import importlib
import os
import signal
import sys
import time
import types
import unittest

directory, device, requests, answers = sys.argv[1:5]

# The package's own __init__ imports all forty modules; a run needs only what the module itself imports.
package = types.ModuleType("tests")
package.__path__ = [os.path.join(directory, "tests"), os.path.dirname(os.path.abspath(__file__))]
sys.modules["tests"] = package
sys.path.insert(0, package.__path__[0])

from args_parser import parser  # noqa: E402

sys.argv[1:] = ["--dev", device, "--port", "1"]
parser.parse_args()
for common in "base", "utils", "base_rdmacm", "rdmacm_utils", "mlx5_base":
    importlib.import_module(f"tests.{common}")


class Result(unittest.TextTestResult):
    """Notes each verdict at once; a failed subtest fails its test."""

    module, out = "", None

    def startTest(self, test):
        super().startTest(test)
        self.word, self.why = "pass", ""
        self.start = self.out.tell()
        self.put(test, "died", "")

    def stopTest(self, test):
        self.out.seek(self.start)
        self.out.truncate()
        self.put(test, self.word, self.why)
        super().stopTest(test)

    def put(self, test, word, why):
        name = ".".join(test.id().split(".")[-2:])
        self.out.write("\t".join([self.module, name, word, why.replace("\n", " ")]).rstrip("\t") + "\n")
        self.out.flush()

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.word = "fail"

    def addError(self, test, err):
        super().addError(test, err)
        self.word = "error"

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.word = "fail"

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.word, self.why = "skip", reason


def run(module, table, tests):
    """The process of a module; it does not return."""
    code = 1
    try:
        Result.module, Result.out = module, open(table, "w", encoding="utf-8")
        names = [f"tests.test_{module}.{test}" for test in tests] or [f"tests.test_{module}"]
        suite = unittest.defaultTestLoader.loadTestsFromNames(names)
        unittest.TextTestRunner(stream=sys.stderr, verbosity=2, resultclass=Result).run(suite)
        code = 0
    finally:
        # All verdicts are written. What is left of contexts and queues would be taken down in no particular order when
        # the interpreter ends, and pyverbs has been seen to crash there after skipped tests; the kernel takes them down
        # as well.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def wait(pid, seconds):
    """Exit code of the process, 124 for one that had to be killed."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return 124


while True:
    with open(requests, encoding="utf-8") as lines:
        line = lines.readline().split()
    if not line:
        continue
    module, seconds, table, said, *tests = line
    child = os.fork()
    if child == 0:
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(out, 1)
        os.dup2(out, 2)
        run(module, table, tests)
    code = wait(child, int(seconds))
    with open(answers, "w", encoding="utf-8") as out:
        out.write(f"{code}\n")
