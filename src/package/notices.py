#!/usr/bin/env python3
"""Writes the copyright notices of code in a build's programs that is not Sinter's own: libraries linked into them, and headers whose
code was compiled into them.

Usage: notices.py BUILD OUTPUT. Equal builds give equal bytes.
"""

import os
import sys

import sbom

# Declarations of the system that a program runs on; no code of theirs is in it.
SYSTEM = ("libc6-dev", "linux-libc-dev", "libcrypt-dev", "libnsl-dev")
HEAD = """Notices of what libsinter.so and the command sinter hold beside their own code. Each part is named with its version, as Debian
distributes it. The Apache License, version 2.0, for which some texts name a file of Debian's, is in LICENSE.
"""


def held(build):
    """Lines that name parts, by the notices that these share."""
    texts = {}
    for (package, version, source), use in sbom.parts_of(build).items():
        if use != "shared" and package not in SYSTEM:
            how = "linked" if use == "static" else "compiled from headers"
            texts.setdefault(sbom.notice(package), []).append(f"{package} {version}, of {source}: {how}")
    return texts


def main():
    build, target = sys.argv[1:]
    texts = held(os.path.realpath(build))
    with open(target, "w", encoding="utf-8") as file:
        file.write(HEAD)
        for text, names in texts.items():
            file.write("\n".join(["", "=" * 100, *names, "=" * 100, text.strip(), ""]))


if __name__ == "__main__":
    main()
