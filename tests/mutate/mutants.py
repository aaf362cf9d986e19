"""The list of mutants, and what it makes of sources.

A mutant is a plausible fault: a text of a file, what stands there instead, and the test that notices it. All mutants of C++ are
in one build: where a mutant's text was, the program asks which mutant it runs as.
"""

import pathlib
import re
import tomllib

LIST = pathlib.Path(__file__).with_name("mutants.toml")
HEADER = "mutant.h"
_ASKS = """// Which mutant this process runs as: MUTANT, a number; 0 or nothing: none.
#pragma once
#include <cstdlib>
inline bool IsMutant(int number) {
  static const int wanted = [] {
    const char* const text = std::getenv("MUTANT");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  return wanted == number;
}
"""
_FIELDS = {"id": int, "file": str, "find": str, "put": str, "wrong": str, "test": str, "only": str}
_CXX = (".cc", ".h", ".hpp")


class Mutant:
    """`test` is a test of ctest; `only`, if given, a filter of GoogleTest or the test files of pytest to run of it."""

    def __init__(self, row: dict):
        unknown = sorted(set(row) - set(_FIELDS))
        if unknown:
            raise ValueError(f"a mutant has the field {unknown[0]}; there are {', '.join(_FIELDS)}")
        for field, kind in _FIELDS.items():
            if field != "only" and not isinstance(row.get(field), kind):
                raise ValueError(f"mutant {row.get('id', '?')} needs the field {field}: {kind.__name__}")
        self.id, self.file, self.find, self.put = row["id"], row["file"], row["find"], row["put"]
        self.wrong, self.test, self.only = row["wrong"], row["test"], row.get("only", "")

    @property
    def compiled(self) -> bool:
        return self.file.endswith(_CXX)

    @property
    def guarded(self) -> str:
        """`find` and `put` in one text: an if statement for statements, else a conditional expression."""
        if any(text.endswith(";") or text.startswith("if (") for text in (self.find, self.put)):
            return f"if (IsMutant({self.id})) {{ {self.put} }} else {{ {self.find} }}"
        return f"(IsMutant({self.id}) ? ({self.put}) : ({self.find}))"


def read(path: pathlib.Path = LIST) -> list:
    """The mutants, in the order of the list. Raises ValueError."""
    mutants = [Mutant(row) for row in tomllib.loads(path.read_text())["mutant"]]
    ids = [mutant.id for mutant in mutants]
    for number in ids:
        if number < 1 or ids.count(number) > 1:
            raise ValueError(f"mutant {number}: ids are unique and above 0")
    return mutants


def place(mutant: Mutant, text: str) -> int:
    """Where the mutant's text is in its file's. Raises ValueError unless it is there once."""
    count = text.count(mutant.find)
    if count != 1:
        raise ValueError(f"mutant {mutant.id} ({mutant.wrong}): its text is in {mutant.file} {count} times, must be there once: "
                         f"write the new text into {LIST.name}, or another fault of that place")
    return text.index(mutant.find)


def check(root: pathlib.Path, mutants: list) -> list:
    """The faults of the list itself, a line each."""
    wrong = []
    for mutant in mutants:
        try:
            place(mutant, (root / mutant.file).read_text())
        except (OSError, ValueError) as error:
            wrong.append(str(error))
    return wrong


def with_all(root: pathlib.Path, mutants: list) -> dict:
    """By file: its text with every compiled mutant in it."""
    files: dict = {}
    for mutant in mutants:
        if mutant.compiled:
            files.setdefault(mutant.file, []).append(mutant)
    texts = {}
    for file, inside in files.items():
        text = (root / file).read_text()
        spans = sorted(((place(mutant, text), mutant) for mutant in inside), key=lambda span: span[0], reverse=True)
        end = len(text)
        for start, mutant in spans:
            if start + len(mutant.find) > end:
                raise ValueError(f"mutant {mutant.id}: its text overlaps with that of another in {file}")
            text = text[:start] + mutant.guarded + text[start + len(mutant.find):]
            end = start
        texts[file] = _include(text)
    return texts


def with_one(root: pathlib.Path, mutant: Mutant) -> str:
    """The text of the mutant's file with it alone, of a language that needs no build."""
    text = (root / mutant.file).read_text()
    start = place(mutant, text)
    return text[:start] + mutant.put + text[start + len(mutant.find):]


def write_all(root: pathlib.Path, mutants: list, folder: pathlib.Path) -> None:
    """Writes into `folder`, which holds nothing else then, the files with mutants and their header. Does not touch a file that is equal."""
    texts = {HEADER: _ASKS, **with_all(root, mutants)}
    for old in folder.rglob("*"):
        if old.is_file() and str(old.relative_to(folder)) not in texts:
            old.unlink()
    for file, text in texts.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def _include(text: str) -> str:
    """`text` with the header before its first include, where no comment or guard is in its way."""
    first = re.search(r"^#include ", text, re.MULTILINE)
    at = first.start() if first else 0
    return f'{text[:at]}#include "{HEADER}"\n{text[at:]}'
