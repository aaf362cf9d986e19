"""The ``sinter`` command of the wheel: runs the program that the wheel installs with the library."""

from __future__ import annotations

import os
import pathlib
import sys

from ._nvrtc import find_nvrtc


def main() -> None:
    """Replaces the process by the program. If no environment variable names NVRTC, it uses the NVRTC of NVIDIA's wheels."""
    program = pathlib.Path(__file__).parent / "bin" / "sinter"
    found = find_nvrtc()
    if found is not None:
        os.environ["SINTER_NVRTC"] = found
    if not program.exists():
        sys.exit(f"sinter: {program} is missing: the package was not installed from a wheel")
    os.execv(program, ["sinter", *sys.argv[1:]])


if __name__ == "__main__":
    main()
