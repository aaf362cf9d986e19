#!/usr/bin/env python3
"""Two functions of one name in the library: the linker takes one of them for both without a word.

Usage: check_double_names.py BUILD
"""

import glob
import os
import subprocess
import sys

ROOMS = ("cache", "runtime", "src")


def definitions(archive, listing):
    """(name, object) of each strong definition in what nm prints."""
    member = ""
    for line in listing.splitlines():
        words = line.split()
        if line.endswith(":"):
            member = line[:-1]
        elif len(words) == 3 and words[1] in "TDBR":
            yield words[2], f"{os.path.basename(archive)}({member})"


def doubles(listings):
    """{name: objects} of names that more than one object defines; `listings`: by archive."""
    places = {}
    for archive, listing in listings.items():
        for name, place in definitions(archive, listing):
            places.setdefault(name, []).append(place)
    return {name: where for name, where in places.items() if len(where) > 1}


def main():
    build = sys.argv[1]
    archives = [path for room in ROOMS for path in glob.glob(os.path.join(build, room, "**", "lib*.a"), recursive=True)]
    if not archives:
        print(f"{build} has no archive of {', '.join(ROOMS)}")
        return 1
    listings = {}
    for archive in archives:
        listings[archive] = subprocess.run(["nm", "-g", "--defined-only", archive], capture_output=True, text=True,
                                           check=True).stdout
    found = doubles(listings)
    for name, where in sorted(found.items()):
        print(f"{name} is defined by {' and '.join(where)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
