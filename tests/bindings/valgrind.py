#!/usr/bin/env python3
"""Runs a program under valgrind; fails for what libsinter leaked or did to memory.

Usage: valgrind.py PROGRAM ARGUMENT.. ; "python" is the interpreter of this. Exits 77 without valgrind, and when the
program does.

Runtimes of languages, NVRTC and drivers keep what they like. An error is ours when the first frame of its stack that is not
the C or C++ runtime or one of the libraries that we call for memory is in libsinter.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

SKIPPED = 77
FAILED = 1
RUNTIMES = ("vgpreload_", "libc.so", "libc-", "libstdc++", "libgcc_s", "libm.so", "ld-linux", "libpthread", "libabsl_",
            "libleveldb", "libcrypto", "libssl")
KINDS = "definite,indirect,possible"


def frames(error):
    return [(os.path.basename(frame.findtext("obj") or ""), frame.findtext("fn") or "?")
            for frame in error.find("stack").findall("frame")]


def is_ours(error):
    called = [library for library, _ in frames(error) if not library.startswith(RUNTIMES)]
    return bool(called) and called[0].startswith("libsinter.so")


def told(error):
    what = error.findtext("xwhat/text") or error.findtext("what") or ""
    return "\n".join([f"{error.findtext('kind')}: {what}"] + [f"    {fn[:100]} ({library})" for library, fn in frames(error)])


def main():
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        print("valgrind is not here")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.%p.xml")
        program = [sys.executable if sys.argv[1] == "python" else sys.argv[1], *sys.argv[2:]]
        command = [valgrind, "--quiet", "--leak-check=full", f"--show-leak-kinds={KINDS}", f"--errors-for-leak-kinds={KINDS}",
                   "--undef-value-errors=no", "--num-callers=40", "--trace-children=no", "--child-silent-after-fork=yes",
                   "--xml=yes", f"--xml-file={report}", *program]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              env={**os.environ, "PYTHONMALLOC": "malloc",
                                   # A thread that takes a cached stack looks like a leak of what the stack holds.
                                   "GLIBC_TUNABLES": "glibc.pthread.stack_cache_size=0"}) as run:
            output, _ = run.communicate()
        if run.returncode != 0:
            print(output[-4000:])
            return run.returncode
        errors = ElementTree.parse(report.replace("%p", str(run.pid))).getroot().findall("error")
    ours = [error for error in errors if is_ours(error)]
    print(f"{len(ours)} errors are libsinter's, {len(errors) - len(ours)} are others'")
    print("\n".join(map(told, ours)))
    return FAILED if ours else 0


if __name__ == "__main__":
    sys.exit(main())
