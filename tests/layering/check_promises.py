#!/usr/bin/env python3
"""Fails when a row of tests/promises.md names a page or a test that is not there.

Usage: check_promises.py ROOT
A test is `FILE` `Suite.Name` of GoogleTest, or `FILE` and a text that the file has.
"""

import os
import re
import sys

ROW = re.compile(r"^\| (?P<promise>[^|]+) \| \[[^\]]+\]\((?P<page>[^)#]+)(?:#[^)]*)?\) \| `(?P<file>[^`]+)` `(?P<test>[^`]+)` \|$")


def has_test(text, test):
    suite, dot, name = test.partition(".")
    if dot and re.search(r"\bTEST(?:_F|_P)?\(\s*%s,\s*%s\)" % (re.escape(suite), re.escape(name)), text):
        return True
    return not re.fullmatch(r"\w+\.\w+", test) and test in text


def flaws(table, root):
    rows = [(number, line) for number, line in enumerate(table.splitlines(), 1) if line.startswith("| ")][1:]
    for number, line in rows:
        row = ROW.match(line)
        if row is None:
            yield number, "is not: promise, [page](link), `file` `test`"
            continue
        if not os.path.exists(os.path.normpath(os.path.join(root, "tests", row["page"]))):
            yield number, "there is no page %s" % row["page"]
        path = os.path.join(root, row["file"])
        if not os.path.exists(path):
            yield number, "there is no file %s" % row["file"]
            continue
        with open(path, encoding="utf-8") as file:
            if not has_test(file.read(), row["test"]):
                yield number, "%s has no test %s" % (row["file"], row["test"])


def main(argv):
    with open(os.path.join(argv[1], "tests", "promises.md"), encoding="utf-8") as file:
        found = list(flaws(file.read(), argv[1]))
    for number, why in found:
        print("tests/promises.md:%d: %s" % (number, why))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
