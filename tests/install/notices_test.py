#!/usr/bin/env python3
"""The notices next to installed programs name the parts that the programs hold. The parts are read from their bytes, not from the build.

Usage: notices_test.py FOLDER, an installed prefix or an unpacked archive, wheel or package; or notices_test.py BUILD WORK, which
installs the build into WORK first. Exits with 77 where the build records nothing to make notices from.
"""

import os
import re
import shutil
import subprocess
import sys

# Bytes that a program holds with code of a part, and the source packages that Debian has it from.
MARKS = {
    "leveldb": rb"leveldb\.BytewiseComparator|7leveldb",
    "openssl": rb"crypto/[a-z]+/\w+\.c",
    "snappy": rb"N6snappy",
    "abseil": rb"4absl",
    "cli11": rb"N3CLI",
    "nlohmann-json3": rb"nlohmann",
}
# Shared libraries whose absence from what a program asks for says that the part was put into it.
LIBRARIES = {"leveldb": "libleveldb", "openssl": "libcrypto", "snappy": "libsnappy", "abseil": "libabsl"}
# A text of each licence that must be there: names of Debian's short forms are not enough.
TEXTS = ("Redistributions in binary form must reproduce the above copyright", "The above copyright notice and this permission notice")


def programs(folder):
    """Installed programs by path."""
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            if not os.path.islink(path) and (re.fullmatch(r"libsinter\.so[.\d]*", name) or name == "sinter"):
                with open(path, "rb") as file:
                    content = file.read()
                if content.startswith(b"\x7fELF"):
                    yield path, content


def held(content):
    return {name for name, mark in MARKS.items() if re.search(mark, content)}


def put_in(path, content):
    """Parts that were linked into a program, not installed next to it."""
    needed = subprocess.run(["readelf", "-d", path], stdout=subprocess.PIPE, text=True, check=True).stdout
    return {name for name in held(content) if name in LIBRARIES and LIBRARIES[name] not in needed}


def check(folder):
    """The errors in a folder."""
    found = [os.path.join(where, "NOTICES") for where, _, names in os.walk(folder) if "NOTICES" in names]
    if not found:
        return [f"{folder} has no NOTICES"]
    text = open(found[0], encoding="utf-8").read()
    named = set(re.findall(r"^\S+ \S+, of (\S+): (?:linked|compiled from headers)$", text, re.M))
    linked = set(re.findall(r"^\S+ \S+, of (\S+): linked$", text, re.M))
    wrong, seen = [], set()
    for path, content in programs(folder):
        seen |= held(content)
        wrong += [f"{path} holds {name}, which {found[0]} does not name" for name in sorted(held(content) - named)]
        wrong += [f"{path} was linked with {name}, of which {found[0]} says something else" for name in sorted(put_in(path, content) - linked)]
    if not seen & {"abseil", "cli11"}:  # the library, the command
        wrong.append(f"the programs in {folder} hold {sorted(seen)}: the marks of this test have gone")
    wrong += [f"{found[0]} has no words '{line}'" for line in TEXTS if line not in " ".join(text.split())]
    print(f"{folder}: {', '.join(sorted(named))}; seen in the programs: {', '.join(sorted(seen))}")
    return wrong


def main():
    folder = sys.argv[1]
    if len(sys.argv) == 3:
        build, folder = sys.argv[1:]
        if not shutil.which("dpkg-query") or not os.path.exists(os.path.join(build, "build.ninja")):
            print("needs ninja's records and Debian's packages")
            return 77
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run(["cmake", "--install", build, "--prefix", folder], check=True, stdout=subprocess.DEVNULL)
    wrong = check(folder)
    print("\n".join(wrong))
    if len(sys.argv) == 3:
        shutil.rmtree(folder)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
