#!/usr/bin/env python3
"""The stable ABI is the one of libsinter.abi, as abidiff sees functions and structs.

Usage: abi_test.py INCLUDE MAP WORK C_COMPILER. SINTER_UPDATE_GOLDEN=1 writes the file anew, unless a program that was built
against it could break; SINTER_UPDATE_GOLDEN=break also then.

A library with a definition of every function of the stable headers is compared: the real one is compiled against the same header,
exports the same names (capi_symbols), and has no type information in a release.
"""

import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BASELINE = os.path.join(HERE, "libsinter.abi")
SKIPPED = 77


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def checked(*command):
    done = run(*command)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nended with {done.returncode}:\n{done.stdout}")


def definitions(header):
    """Every declared function with a body."""
    plain = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    declared = re.findall(r"^SINTER_API ((?:[^;]|\n)*?);", plain, re.M)
    return "".join(f"{function} {{ __builtin_trap(); }}\n" for function in declared if "(" in function), len(declared)


def build(include, map_file, work, compiler):
    text = ""
    for header in ("sinter.h", "sinter_chain.h", "sinter_group.h"):
        with open(os.path.join(include, "sinter", header), encoding="utf-8") as file:
            text += file.read()
    bodies, count = definitions(text)
    source, library = os.path.join(work, "abi.c"), os.path.join(work, "libsinter.so")
    with open(source, "w", encoding="utf-8") as file:
        file.write('#include "sinter/sinter.h"\n' + bodies)
    # The baseline names no folder of the machine that wrote it.
    checked(compiler, "-std=c99", "-g", "-O0", f"-ffile-prefix-map={work}/=", "-fvisibility=hidden", "-fPIC", "-shared", "-I", include,
            f"-Wl,--version-script={map_file}", "-Wl,--undefined-version", "-Wl,-soname,libsinter.so.0", source, "-o", library)
    return library, count


def main():
    include, map_file, work, compiler = sys.argv[1:]
    if shutil.which("abidiff") is None:
        print("abidiff (abigail-tools) is not here")
        return SKIPPED
    os.makedirs(work, exist_ok=True)
    library, count = build(include, map_file, work, compiler)
    compare = (BASELINE, library)
    found = run("abidiff", *compare)
    if found.returncode == 0:
        print(f"{count} functions as in {BASELINE}")
        return 0
    growth = ("--no-added-syms", "--suppressions", os.path.join(HERE, "growth.suppr"))
    # The suppression also takes a member that changes where none is added.
    broken = run("abidiff", *growth, *compare).returncode != 0 or re.search(r"data member (change|deletion)", found.stdout)
    update = os.environ.get("SINTER_UPDATE_GOLDEN", "")
    if not update or broken and update != "break":
        print(found.stdout)
        print("a program built against the older header could break" if broken else
              "nothing that was there changed: ./dev golden --update takes it over")
        return 1
    checked("abidw", "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--out-file", BASELINE, library)
    print(f"{BASELINE} is written anew")
    return 0


if __name__ == "__main__":
    sys.exit(main())
