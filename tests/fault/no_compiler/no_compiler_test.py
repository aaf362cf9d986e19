#!/usr/bin/env python3
"""A test that finds no run-time compiler fails; it is skipped only with SINTER_TEST_NO_NVRTC=1.

Usage: no_compiler_test.py CAPI_TEST COMPILE_TEST NEEDS_COMPILER.
"""

import os
import subprocess
import sys
import tempfile
import unittest

CAPI_TEST, COMPILE_TEST, NEEDS_COMPILER = sys.argv[1:]


def status(*command, told):
    """How a program of tests ends whose compiler is broken."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SINTER_")}
        environment.update(SINTER_NVRTC="/dev/null", SINTER_CACHE_DIR=cache)
        if told is not None:
            environment["SINTER_TEST_NO_NVRTC"] = told
        return subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, timeout=60).returncode


class NoCompiler(unittest.TestCase):
    def test_a_suite_of_the_abi(self):
        command = (CAPI_TEST, "--gtest_filter=SlotOffer.*")
        self.assertEqual([status(*command, told=told) for told in (None, "0", "1")], [1, 1, 0])

    def test_a_program_that_compiles(self):
        self.assertEqual([status(COMPILE_TEST, told=told) for told in (None, "0", "1")], [1, 1, 77])

    def test_a_program_that_ends_with_77(self):
        self.assertEqual([status(NEEDS_COMPILER, "sh", "-c", "exit 77", told=told) for told in (None, "0", "1")], [1, 1, 77])
        self.assertEqual([status(NEEDS_COMPILER, "sh", "-c", f"exit {end}", told=None) for end in (0, 1, 3)], [0, 1, 3])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
