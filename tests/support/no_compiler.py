"""What a Python test does that finds no run-time compiler: it fails, unless SINTER_TEST_NO_NVRTC=1 tells that this machine has none."""

import os
import unittest

WANTED = "no run-time compiler works here: SINTER_NVRTC names a libnvrtc, SINTER_TEST_NO_NVRTC=1 skips what needs one"


def told():
    return os.environ.get("SINTER_TEST_NO_NVRTC") == "1"


def end_without_compiler(reason):
    """Ends a test of unittest."""
    if told():
        raise unittest.SkipTest(reason)
    raise AssertionError(f"{WANTED}: {reason}")
