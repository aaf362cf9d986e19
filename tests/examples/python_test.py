#!/usr/bin/env python3
"""The examples in Python end well: on a GPU with what they compute, else with plans for an H200.

Usage: python_test.py EXAMPLES SINTER INCLUDE: the folder of examples, the command, the folder of sinter's headers. PYTHONPATH and
LIBSINTER_PATH name the package and the library. The one for JAX runs where jax is installed. Exits with 77 where nothing can be compiled.
"""

import glob
import importlib.util
import os
import subprocess
import sys

EXAMPLES, SINTER, INCLUDE = sys.argv[1:]


def commands():
    """Arguments of each example, the path first."""
    paths = sorted(glob.glob(os.path.join(EXAMPLES, "python", "*.py")))
    assert len(paths) >= 5, paths
    found = [[path] for path in paths]
    if importlib.util.find_spec("jax") is None:
        print("jax/chain.py: skipped, jax is not installed")
    else:
        folder, name = os.path.split(os.environ["LIBSINTER_PATH"])
        found.append([os.path.join(EXAMPLES, "jax", "chain.py"), f"-I{INCLUDE}", f"-L{folder}", f"-l:{name}", f"-Wl,-rpath,{folder}"])
    return found


def main():
    environment = {**os.environ, "PATH": os.path.dirname(SINTER) + os.pathsep + os.environ["PATH"]}
    wrong = 0
    for path, *arguments in commands():
        done = subprocess.run([sys.executable, "-B", path, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False, timeout=280)
        print(f"{os.path.basename(path)}: {done.returncode}\n{done.stdout}")
        if done.returncode != 0 and "UNAVAILABLE" in done.stdout:
            return 77
        wrong += done.returncode != 0
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
