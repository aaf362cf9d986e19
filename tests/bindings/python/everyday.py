"""What an everyday run takes of many cases: some, which SINTER_TEST_COMMIT draws. SINTER_TEST_LONG=1 takes all."""

import collections
import os

LONG = os.environ.get("SINTER_TEST_LONG") == "1"
COMMIT = int((os.environ.get("SINTER_TEST_COMMIT") or "0")[:8], 16)


def left_out_in_ci(items):
    """Every second case of each test whose module compiles by torch, which takes a second a case. Each test keeps one."""
    tests = collections.defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and (hasattr(item.module, "passed") or hasattr(item.module, "compiled")):
            tests[item.module.__name__, item.originalname].append(item)
    return [item for cases in tests.values() if len(cases) > 1 for item in cases[1 - COMMIT % 2 :: 2]]


def sampled(cases, most):
    """At most `most` of the cases, at equal distances from one that the commit draws. A run on a GPU takes all."""
    cases = list(cases)
    step = 1 if LONG or os.environ.get("SINTER_TEST_GPU") else -(-len(cases) // most)
    return cases[COMMIT % step :: step]
