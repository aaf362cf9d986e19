#!/usr/bin/env python3
"""Checks the pages (*.md): guides stay short, and what a page names exists.

Usage: pages.py ROOT [BUILD_FOLDER...]. Prints `file:line: why` for each finding; exits 1 when there is one.
A finding is
- a README of a folder under src, runtime, cache, bindings or tests with more than 1300 words;
- a relative link to a file, or to a heading of a page, that does not exist;
- a path in backticks (`path/like/this.cc`) that names no file, seen from the page's folder, one above it, or the root;
- a results file in backticks (`h200-2026-11-22-2f5f10b.json`, or its end, `-2f5f10b.json`) that is neither committed nor in the archive;
- a test in backticks (`search_test`, `search_test.cc`, `Search.TakesMilliseconds`) that is none.
Folders whose name begins with `build` or `.`, `bundle`, `target` and the given build folders are not read.
"""

import fnmatch
import glob
import os
import re
import sys

GUIDES = ("src/", "runtime/", "cache/", "bindings/", "tests/")
MOST_WORDS = 1300
# It names what was there at the time.
NOT_CHECKED = ("CHANGELOG.md",)
RESULTS = "tests/bench/results"
ARCHIVE = RESULTS + "/archive.md"  # the table of what archive.tar.xz holds

SUFFIXES = ("h", "c", "cc", "cu", "cuh", "in", "py", "rs", "go", "md", "txt", "json", "set", "model", "cmake", "map",
            "symbols", "svg", "yml")
SPAN = re.compile(r"`([^`\n]+)`")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(r"^\.{0,2}[\w{][\w./{},*+-]*/[\w.{},*+-]+\.(%s)$" % "|".join(SUFFIXES))
RESULT = re.compile(r"^(?:%s/)?(?:\.\.)?(?:h\d+-|-)[\w{},*-]+\.(?:json|set|txt)$" % RESULTS)
TEST_FILE = re.compile(r"^\w+_test(\.cc|\.py)?$")
TEST_NAME = re.compile(r"^[A-Z]\w*[a-z]\w*\.[A-Z]\w*[a-z]\w*$")
TEST_MACRO = re.compile(r"^(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)", re.M)


def files_of(root, skipped):
    """Paths of all files, relative to the root."""
    found = []
    for folder, names, files in os.walk(root):
        names[:] = [n for n in names
                    if not n.startswith((".", "build")) and n not in ("bundle", "target", "__pycache__")
                    and os.path.realpath(os.path.join(folder, n)) not in skipped]
        found += [os.path.relpath(os.path.join(folder, name), root) for name in files]
    return found


def braces(text):
    """`a{b,c}` is `ab` and `ac`."""
    match = re.search(r"\{([^{}]*)\}", text)
    if not match:
        return [text]
    return [word for choice in match.group(1).split(",")
            for word in braces(text[:match.start()] + choice + text[match.end():])]


def prose(text):
    """The lines of a page; lines of fenced blocks are empty."""
    fenced = False
    lines = []
    for line in text.splitlines():
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        lines.append("" if fence or fenced else line)
    return lines


def links(lines):
    """(line number, target) of each link; its text may go on in the next line."""
    text = SPAN.sub(lambda span: "x" * len(span.group(0)), "\n".join(lines))
    for link in LINK.finditer(text):
        yield text.count("\n", 0, link.start(1)) + 1, link.group(1)


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    headings = [line.lstrip("#").strip() for line in prose(text) if re.match(r"#+ ", line)]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


class Tree:
    """What pages may name."""

    def __init__(self, root, skipped=()):
        self.root = root
        self.files = files_of(root, skipped)
        self.results = [os.path.basename(path) for path in self.files if path.startswith(RESULTS + "/")]
        if ARCHIVE in self.files:
            self.results += re.findall(r"^\| (\S+\.\w+) \|", self.read(ARCHIVE), re.M)
        tests = [path for path in self.files if path.startswith("tests/")]
        sources = [os.path.splitext(os.path.basename(path)) for path in tests]
        self.test_files = {name for name, suffix in sources if suffix in (".cc", ".py")}
        self.test_names = set()
        for path in tests:
            if path.endswith("_test.cc"):
                self.test_names |= {"%s.%s" % name for name in TEST_MACRO.findall(self.read(path))}
            elif os.path.basename(path) == "CMakeLists.txt":
                self.test_files |= set(re.findall(r"\w+_test\b", self.read(path)))

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="replace") as file:
            return file.read()

    def has(self, page, path):
        folder = os.path.dirname(page)
        while True:
            if glob.glob(os.path.join(self.root, folder, path)):
                return True
            if not folder:
                return False
            folder = os.path.dirname(folder)

    def has_result(self, word):
        word = os.path.basename(word)
        pattern = "*" + word.lstrip(".") if word.startswith(("-", ".")) else word
        return any(fnmatch.fnmatch(name, pattern) for name in self.results)

    def problem(self, page, word):
        """Why a word in backticks is wrong, or None."""
        if RESULT.match(word):
            return next(("%s: no such results file" % each for each in braces(word) if not self.has_result(each)), None)
        if PATH.match(word):
            return next(("%s: no such file" % each for each in braces(word) if not self.has(page, each)), None)
        if TEST_FILE.match(word) and os.path.splitext(word)[0] not in self.test_files:
            return "%s: no such test" % word
        if TEST_NAME.match(word) and word not in self.test_names:
            return "%s: no such test" % word
        return None

    def broken(self, page, target):
        """Why a link is wrong, or None."""
        if re.match(r"[a-z]+:", target):
            return None
        path, _, anchor = target.partition("#")
        where = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(os.path.join(self.root, where)):
            return "%s: link to no file" % target
        if anchor and where.endswith(".md") and anchor not in anchors(self.read(where)):
            return "%s: link to no heading" % target
        return None


def is_guide(page):
    return os.path.basename(page) == "README.md" and page.startswith(GUIDES)


def findings(tree):
    for page in sorted(path for path in tree.files if path.endswith(".md") and path not in NOT_CHECKED):
        text = tree.read(page)
        words = len(text.split())
        if is_guide(page) and words > MOST_WORDS:
            yield "%s:1: %d words; a guide has at most %d, history belongs in docs/lab" % (page, words, MOST_WORDS)
        lines = prose(text)
        reasons = [(number, tree.problem(page, word))
                   for number, line in enumerate(lines, 1) for word in SPAN.findall(line)]
        reasons += [(number, tree.broken(page, target)) for number, target in links(lines)]
        for number, reason in reasons:
            if reason:
                yield "%s:%d: %s" % (page, number, reason)


def main(argv):
    tree = Tree(argv[1], {os.path.realpath(folder) for folder in argv[2:]})
    found = list(findings(tree))
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
