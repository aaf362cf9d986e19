#!/usr/bin/env python3
"""Fails when a *_test.cc under tests/ is not compiled by the build.

Usage: check_test_sources.py ROOT COMPILE_COMMANDS_JSON
"""

import json
import os
import sys


def missing_tests(root, commands):
    built = {os.path.realpath(os.path.join(c["directory"], c["file"])) for c in commands}
    missing = []
    for folder, _, files in os.walk(os.path.join(root, "tests")):
        for name in files:
            path = os.path.join(folder, name)
            if name.endswith("_test.cc") and os.path.realpath(path) not in built:
                missing.append(os.path.relpath(path, root))
    return sorted(missing)


def main(argv):
    root, commands_path = argv[1], argv[2]
    with open(commands_path, encoding="utf-8") as commands:
        missing = missing_tests(root, json.load(commands))
    for path in missing:
        print("%s:1: is in no target of the build" % path)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
