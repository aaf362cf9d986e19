#!/usr/bin/env python3
"""Formats the C, C++ and device sources, or with --check fails naming each file:line that is not formatted.

Usage: format.py ROOT [--check]. Exits 77 when clang-format 14 is not installed: another version formats otherwise.
"""

import os
import re
import shutil
import subprocess
import sys

SUFFIXES = (".h", ".hpp", ".c", ".cc", ".cuh", ".cu")
FINDING = re.compile(r"^(.+?):(\d+):\d+: (?:error|warning): ")
FOLDERS = ("include", "src", "runtime", "cache", "bindings", "examples", "tests")
# Outputs compared byte for byte, not sources.
SKIPPED = ("golden",)
BATCH = 40


def find_clang_format():
    for name in ("clang-format-14", "clang-format"):
        path = shutil.which(name)
        if not path:
            continue
        version = subprocess.run([path, "--version"], stdout=subprocess.PIPE, text=True, check=False).stdout
        if re.search(r"version 14\.", version):
            return path
    return None


def sources(root):
    for top in FOLDERS:
        for folder, names, files in os.walk(os.path.join(root, top)):
            names[:] = [n for n in names if not n.startswith((".", "build")) and n != "target"]
            golden = any(part in SKIPPED for part in os.path.relpath(folder, root).split(os.sep))
            for name in files:
                if name.endswith(SUFFIXES) and not (golden and not name.endswith("_test.cc")):
                    yield os.path.join(folder, name)


def unformatted(tool, root, files):
    """`file:line: why` for the first unformatted place of each file."""
    command = [tool, "--style=file", "--dry-run"] + files
    output = subprocess.run(command, stderr=subprocess.PIPE, text=True, errors="replace", check=True).stderr
    places = {}
    for line in output.splitlines():
        match = FINDING.match(line)
        if match:
            places.setdefault(os.path.relpath(match.group(1), root), match.group(2))
    return ["%s:%s: not formatted" % place for place in sorted(places.items())]


def main(argv):
    root, check = argv[1], "--check" in argv[2:]
    tool = find_clang_format()
    if tool is None:
        print("clang-format 14 is not installed: skipped")
        return 77
    files = sorted(sources(root))
    findings = []
    for start in range(0, len(files), BATCH):
        batch = files[start:start + BATCH]
        if check:
            findings += unformatted(tool, root, batch)
        else:
            subprocess.run([tool, "--style=file", "-i"] + batch, check=True)
    for finding in findings:
        print(finding)
    print("%d files %s" % (len(files), "checked" if check else "formatted"))
    if findings:
        print("./dev format formats them")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
