#!/usr/bin/env python3
"""Plants good and bad pages, and expects pages.py to tell them apart."""

import os
import tempfile
import unittest

import pages

FILES = {
    "src/search/search.cc": "",
    "src/device/tile/layout.cuh": "",
    "tests/unit/search/search_test.cc": "TEST(Search, TakesMilliseconds) {\nTEST_F(Slow,\n       TakesLonger) {\n",
    "tests/unit/search/CMakeLists.txt": "sinter_test(plan_search_test SRCS search_test.cc)\n",
    "tests/bench/results/h200-2026-11-22-2f5f10b-graphs.json": "",
    "tests/bench/results/h200-2026-11-22-2f5f10b.json": "",
    "tests/bench/results/archive.md": "| file | commit |\n|---|---|\n| h200-2026-11-21-18aafcd-dsm.json | 18aafcd8 |\n",
    "docs/lab/clusters.md": "# Clusters\n## What lost, and why\n",
}

GOOD = [
    "`src/search/search.cc`, `search.cc`, `./search.cc` and `../device/tile/layout.cuh`",
    "`src/{search,search}/search.cc` and `src/search/*.cc`",
    "`search_test`, `search_test.cc`, `plan_search_test`, `Search.TakesMilliseconds` and `Slow.TakesLonger`",
    "`h200-2026-11-22-2f5f10b.json`, `tests/bench/results/h200-2026-11-22-2f5f10b-graphs.json`",
    "`-2f5f10b{,-graphs}.json`, and of the archive `h200-2026-11-21-18aafcd-dsm.json`",
    "[clusters](../../docs/lab/clusters.md), [lost](../../docs/lab/clusters.md#what-lost-and-why)",
    "[elsewhere](https://example.org/x.cc)",
    "```\n`src/search/none.cc`\n```",
    "`MEMBAR.GPU`, `obj/<2 hex>/x.ldb`, `a/b`, `N/2`",
    "word " * 890,
]

BAD = [
    ("`src/search/none.cc`", "src/search/none.cc: no such file"),
    ("`src/{search,none}/search.cc`", "src/none/search.cc: no such file"),
    ("`none_test`", "none_test: no such test"),
    ("`none_test.cc`", "none_test.cc: no such test"),
    ("`Search.TakesHours`", "Search.TakesHours: no such test"),
    ("`h200-2026-11-22-0000000.json`", "h200-2026-11-22-0000000.json: no such results file"),
    ("`-2f5f10b{,-peers}.json`", "-2f5f10b-peers.json: no such results file"),
    ("[clusters](clusters.md)", "clusters.md: link to no file"),
    ("[two\nlines](clusters.md)", "clusters.md: link to no file"),
    ("[won](../../docs/lab/clusters.md#what-won)", "../../docs/lab/clusters.md#what-won: link to no heading"),
    ("word " * 1301, "1301 words; a guide has at most 1300, history belongs in docs/lab"),
]


def plant(root, files):
    for path, text in files.items():
        path = os.path.join(root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def findings(page, text):
    with tempfile.TemporaryDirectory() as root:
        plant(root, {**FILES, page: text})
        return list(pages.findings(pages.Tree(root)))


class Pages(unittest.TestCase):
    def test_good_pages_are_let_through(self):
        for text in GOOD:
            self.assertEqual(findings("src/search/README.md", text), [], text[:60])

    def test_bad_pages_are_told_with_file_line_and_reason(self):
        for text, reason in BAD:
            line = 1 if "words" in reason else 3 + text.count("\n")
            page = text if line == 1 else "# Search\n\n" + text
            self.assertEqual(findings("src/search/README.md", page), ["src/search/README.md:%d: %s" % (line, reason)])

    def test_only_guides_are_short(self):
        for page in ("README.md", "docs/lab/long.md"):
            self.assertEqual(findings(page, "word " * 901), [])

    def test_the_change_log_names_what_was_there(self):
        self.assertEqual(findings("CHANGELOG.md", "`src/search/none.cc`"), [])

    def test_the_command_fails_on_a_bad_page(self):
        with tempfile.TemporaryDirectory() as root:
            plant(root, FILES)
            self.assertEqual(pages.main(["pages.py", root]), 0)
            plant(root, {"src/search/README.md": "`src/search/none.cc`"})
            self.assertEqual(pages.main(["pages.py", root]), 1)


if __name__ == "__main__":
    unittest.main()
