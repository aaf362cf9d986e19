#!/usr/bin/env python3
"""Formats the C, C++ and device sources, or with --check fails naming each file:line that is not formatted.

Usage: format.py ROOT [--check]. Exits 77 when clang-format 14 is not installed: another version formats otherwise.
"""

import os
import re
import shutil
import subprocess
import sys

SUFFIXES = (".h", ".c", ".cc", ".cuh", ".cu")
FOLDERS = ("include", "src", "runtime", "cache", "bindings", "tests")
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


def main(argv):
    root, check = argv[1], "--check" in argv[2:]
    tool = find_clang_format()
    if tool is None:
        print("clang-format 14 is not installed: skipped")
        return 77
    mode = ["--dry-run", "-Werror"] if check else ["-i"]
    files = sorted(sources(root))
    failed = False
    for start in range(0, len(files), BATCH):
        command = [tool, "--style=file"] + mode + files[start:start + BATCH]
        failed |= subprocess.run(command, check=False).returncode != 0
    print("%d files %s" % (len(files), "checked" if check else "formatted"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
