"""What an everyday run takes of many cases: some, which SINTER_TEST_COMMIT draws. SINTER_TEST_LONG=1 takes all."""

import collections
import os

LONG = os.environ.get("SINTER_TEST_LONG") == "1"
COMMIT = int((os.environ.get("SINTER_TEST_COMMIT") or "0")[:8], 16)


def left_out_in_ci(items):
    """Two of three cases of each test whose module compiles by torch, which takes a second a case. Each test keeps one."""
    tests = collections.defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and (hasattr(item.module, "passed") or hasattr(item.module, "compiled")):
            tests[item.module.__name__, item.originalname].append(item)
    draw = COMMIT >> 16  # apart from what `sampled` draws by: else some cases are in no commit's run
    parts = {name: min(3, len(cases)) for name, cases in tests.items()}
    return [item for name, cases in tests.items() for i, item in enumerate(cases) if i % parts[name] != draw % parts[name]]


def sampled(cases, most):
    """At most `most` of the cases, at equal distances from one that the commit draws. A run on a GPU takes all."""
    cases = list(cases)
    step = 1 if LONG or os.environ.get("SINTER_TEST_GPU") else -(-len(cases) // most)
    return cases[COMMIT % step :: step]
