#!/usr/bin/env python3
"""The examples in Python end well: on a GPU with what they compute, else with plans for an H200.

Usage: python_test.py EXAMPLES SINTER. PYTHONPATH and LIBSINTER_PATH name the package and the library. Exits with 77 where nothing can
be compiled.
"""

import glob
import os
import subprocess
import sys

EXAMPLES, SINTER = sys.argv[1:]


def main():
    paths = sorted(glob.glob(os.path.join(EXAMPLES, "*.py")))
    assert len(paths) >= 5, paths
    environment = {**os.environ, "PATH": os.path.dirname(SINTER) + os.pathsep + os.environ["PATH"]}
    wrong = 0
    for path in paths:
        done = subprocess.run([sys.executable, "-B", path], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False, timeout=280)
        print(f"{os.path.basename(path)}: {done.returncode}\n{done.stdout}")
        if done.returncode != 0 and "UNAVAILABLE" in done.stdout:
            return 77
        wrong += done.returncode != 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
