"""What an everyday run takes of many cases: some, which SINTER_TEST_COMMIT draws. SINTER_TEST_LONG=1 takes all."""

import os

LONG = os.environ.get("SINTER_TEST_LONG") == "1"
COMMIT = int((os.environ.get("SINTER_TEST_COMMIT") or "0")[:8], 16)


def sampled(cases, most):
    """At most `most` of the cases, at equal distances from one that the commit draws. A run on a GPU takes all."""
    cases = list(cases)
    step = 1 if LONG or os.environ.get("SINTER_TEST_GPU") else -(-len(cases) // most)
    return cases[COMMIT % step :: step]
