#!/usr/bin/env python3
"""Fails when a *_test.cc under tests/ is not compiled by the build.

Usage: check_test_sources.py ROOT COMPILE_COMMANDS_JSON
"""

import json
import os
import re
import sys


def compiled_files(commands):
    """The files of the commands; for one that SINTER_UNITY wrote, those that it includes."""
    for command in commands:
        path = os.path.realpath(os.path.join(command["directory"], command["file"]))
        yield path
        if os.path.basename(os.path.dirname(path)) == "Unity":
            with open(path, encoding="utf-8") as unity:
                yield from map(os.path.realpath, re.findall(r'^#include "(.*)"$', unity.read(), re.M))


def missing_tests(root, commands):
    built = set(compiled_files(commands))
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
