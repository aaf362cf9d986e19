"""Writes the files that the bindings and the linker take from the C headers.

Usage: python3 bindings/generate [--check] [--headers FOLDER] [--root FOLDER]

--check writes nothing, names each file that differs, and fails when one does. --headers is the folder of sinter.h, by default
include/sinter; --root is where the files lie.
"""

import argparse
import pathlib
import sys

sys.dont_write_bytecode = True

import cpp
import go
import python
import rust
from header import Abi
from names import MADE_BY

BEGIN, END = "// made by ./dev bindings, {}: begin", "// made by ./dev bindings, {}: end"


def version_script(abi: Abi) -> str:
    """The symbols that libsinter.so exports."""
    names = sorted(function.name for function in abi.functions)
    nodes = [("SINTER_1", [name for name in names if not name.startswith("sinter_x_")], "  local:\n    *;\n"),
             ("SINTER_X", [name for name in names if name.startswith("sinter_x_")], "")]  # fmt: skip
    texts = ["".join([f"{node} {{\n  global:\n", *(f"    {name};\n" for name in chosen), local, "};\n"]) for node, chosen, local in nodes]
    return f"/* What libsinter.so exports. {MADE_BY} */\n" + "\n".join(texts)


# Whole files, and parts of files between two marks.
FILES = {
    "src/capi/sinter.map": version_script,
    "bindings/rust/sinter-sys/src/declarations.rs": rust.declarations,
    "bindings/rust/sinter-sys/src/experimental.rs": rust.experimental,
    "bindings/rust/sinter/src/words/tables.rs": rust.words,
    "bindings/rust/sinter/src/builder/adds.rs": rust.adds,
    "bindings/go/words.go": go.words,
    "bindings/go/counters.go": go.counters,
    "bindings/go/adds.go": go.adds,
    "bindings/python/sinter/_abi.py": python.declarations,
    "bindings/python/sinter/_stats.py": python.counters,
    "bindings/python/sinter/_functions.py": python.functions,
}
PARTS = {"include/sinter/sinter.hpp": {"words": cpp.words, "adds": cpp.adds}}


def with_parts(path: pathlib.Path, parts: "dict[str, str]") -> str:
    """The file with the text between the marks of each part replaced."""
    text = path.read_text(encoding="utf-8")
    for name, part in parts.items():
        begin, end = text.find(BEGIN.format(name)), text.find(END.format(name))
        if begin < 0 or end < begin:
            raise SystemExit(f"{path} lacks the marks of {name}")
        text = text[: text.index("\n", begin) + 1] + part + text[text.rindex("\n", 0, end) + 1 :]
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--headers", type=pathlib.Path, default=root / "include/sinter")
    parser.add_argument("--root", type=pathlib.Path, default=root)
    given = parser.parse_args()
    abi = Abi(str(given.headers))
    texts = {given.root / path: write(abi) for path, write in FILES.items()}
    for name, parts in PARTS.items():
        path = given.root / name
        texts[path] = with_parts(path, {part: write(abi) for part, write in parts.items()})
    differ = [path for path, text in texts.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    for path in differ:
        if given.check:
            print(f"{path.relative_to(given.root)} is not what ./dev bindings writes")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(texts[path], encoding="utf-8")
            print(f"wrote {path.relative_to(given.root)}")
    return 1 if given.check and differ else 0


if __name__ == "__main__":
    sys.exit(main())
