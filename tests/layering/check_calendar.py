#!/usr/bin/env python3
"""Fails when a test or its build reads the date: two runs of a commit on different days take the same.

Usage: check_calendar.py ROOT
"""

import os
import re
import sys

ENDINGS = (".cc", ".h", ".py", ".cmake", "CMakeLists.txt")
# Of C++, Python and CMake. steady_clock and monotonic() measure durations, not dates.
CALENDAR = re.compile(
    r"\bstd::time\(|(?<![\w.:>])time\((?:nullptr|NULL|0)\)|\bsystem_clock::now\(|\bgettimeofday\(|\bCLOCK_REALTIME\b|"
    r"\b(?:local|gm)time(?:_r)?\(|\bstring\(TIMESTAMP\b|\btime\.time\(|\bdatetime\.(?:now|today|utcnow)\(|\bdate\.today\(")
# Times that choose nothing: stamps of results, ages of files that a test makes.
STAMPS = ("tests/bench/", "tests/unit/cache/janitor_test.cc")


def dates(root, folders=("tests",)):
    found = []
    for top in folders:
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in files:
                path = os.path.relpath(os.path.join(folder, name), root)
                if not name.endswith(ENDINGS) or path.startswith(STAMPS) or name.startswith("check_calendar"):
                    continue
                with open(os.path.join(root, path), encoding="utf-8") as file:
                    found += [(path, number) for number, line in enumerate(file, 1) if CALENDAR.search(line)]
    return sorted(found)


def main(argv):
    found = dates(argv[1])
    for path, number in found:
        print("%s:%d: reads the date: a test is the same on every day; draw by tests/support/drawn.h" % (path, number))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
