# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Runs one module of rdma-core's tests and writes a line a test.

usage: verbs_module.py DIRECTORY DEVICE MODULE TABLE

DIRECTORY holds the package `tests` as rdma-core ships it; MODULE is the name behind `test_`. A line of TABLE is
MODULE, CLASS.test, verdict (pass, fail, error, skip) and the reason of a skip, with tabs between. The line is written
when the test ends, and `died` stands there before: a process that is killed leaves that word behind.
"""
import os
import sys
import types
import unittest

directory, device, module, table = sys.argv[1:5]

# The package's own __init__ imports all forty modules; this one needs only what the module itself imports.
package = types.ModuleType("tests")
package.__path__ = [os.path.join(directory, "tests")]
sys.modules["tests"] = package
sys.path.insert(0, package.__path__[0])

from args_parser import parser  # noqa: E402

sys.argv[1:] = ["--dev", device, "--port", "1"]
parser.parse_args()


class Result(unittest.TextTestResult):
    """Notes each verdict at once; a failed subtest fails its test."""

    out = open(table, "w", encoding="utf-8")

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
        self.out.write("\t".join([module, name, word, why.replace("\n", " ")]).rstrip("\t") + "\n")
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


suite = unittest.defaultTestLoader.loadTestsFromName(f"tests.test_{module}")
unittest.TextTestRunner(verbosity=2, resultclass=Result).run(suite)

# All verdicts are written. What is left of contexts and queues would be taken down in no particular order when the
# interpreter ends, and pyverbs has been seen to crash there after skipped tests; the kernel takes them down as well.
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
