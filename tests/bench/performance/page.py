#!/usr/bin/env python3
"""Makes docs/performance.md, the table of README.md and its chart, docs/performance.svg, from results files.

Usage: page.py [--check]

The page is performance.md.in with its placeholders filled: `{{name word ..}}` is what the function `name` of prose.py gives for
the words, `{{name word .. | .1f}}` a number in that format, two decimals if not said. README.md has its table between two marks.
--check writes nothing and fails, with the differences, where what is committed is not what would be made.
"""

import difflib
import os
import re
import sys
import textwrap

import chart
from figures import HERE, MissingFigure, Store
from prose import NAMES

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
TEMPLATE = os.path.join(HERE, "performance.md.in")
WIDTH = 135
PAGE, README, CHART = "docs/performance.md", "README.md", "docs/performance.svg"
BEGIN = "<!-- made by ./dev pages: begin -->\n"
END = "<!-- made by ./dev pages: end -->\n"


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def fill(store, placeholder):
    """The text of one placeholder."""
    words, _, form = placeholder.partition("|")
    name, *arguments = words.split()
    if name not in NAMES:
        raise MissingFigure(f"no figure is called {name}")
    try:
        found = NAMES[name](store, *arguments)
    except (KeyError, TypeError, ValueError) as error:
        raise MissingFigure(f"{words.strip()}: {error!r}") from error
    if isinstance(found, str):
        return found
    return format(found, form.strip() or (".2f" if isinstance(found, float) else ","))


def filled(store, template):
    return re.sub(r"\{\{(.+?)\}\}", lambda match: fill(store, match[1]), template)


def wrapped(text):
    """Sentences broken into lines of WIDTH; tables, headings and blank lines stay. A list item begins with `- `."""
    lines, paragraph = [], []
    for line in [*text.splitlines(), ""]:
        fixed = not line or line[0] in "|#"
        if paragraph and (fixed or line.startswith("- ")):
            indent = "  " if paragraph[0].startswith("- ") else ""
            lines += textwrap.wrap(" ".join(paragraph), WIDTH, subsequent_indent=indent, break_long_words=False,
                                   break_on_hyphens=False)
            paragraph = []
        if fixed:
            lines.append(line)
        else:
            paragraph.append(line.strip())
    return "\n".join(lines[:-1]) + "\n"


def with_table(readme, table):
    """README.md with the table between its marks; as it is where it has none."""
    begin, end = readme.find(BEGIN), readme.find(END)
    if begin < 0 or end < begin:
        raise MissingFigure(f"{README} has no marks around its table of times")
    return readme[:begin + len(BEGIN)] + table + "\n" + readme[end:]


def made():
    """{path: text} of all that this makes."""
    store = Store()
    return {PAGE: wrapped(filled(store, read(TEMPLATE))), CHART: chart.of(store),
            README: with_table(read(os.path.join(ROOT, README)), filled(store, "{{state}}\n\n{{table_summary}}"))}


def differences(path, text):
    committed = read(os.path.join(ROOT, path)).splitlines()
    return list(difflib.unified_diff(committed, text.splitlines(), f"{path} as it is", f"{path} as made from results", "", "", 0, ""))


def check(pages):
    """Prints what differs; the number of pages that do."""
    wrong = [lines for lines in (differences(path, text) for path, text in pages.items()) if lines]
    for lines in wrong:
        print("\n".join(lines))
    if wrong:
        print("Run ./dev pages and commit what it writes, or fix tests/bench/performance/performance.md.in.")
    return len(wrong)


def write(pages):
    for path, text in pages.items():
        if read(os.path.join(ROOT, path)) != text:
            with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
                file.write(text)
            print(f"wrote {path}")


def main(arguments):
    if arguments not in ([], ["--check"]):
        print(__doc__)
        return 2
    try:
        pages = made()
    except (MissingFigure, OSError) as error:
        print(f"page.py: {error}")
        return 1
    if arguments:
        return 1 if check(pages) else 0
    write(pages)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
