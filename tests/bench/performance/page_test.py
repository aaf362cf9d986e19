#!/usr/bin/env python3
"""How placeholders are filled, what counts as a figure, and that a page with another figure fails the check."""

import contextlib
import io
import json
import pathlib
import re
import sys
import tarfile
import unittest
from unittest import mock

sys.path.append(str(pathlib.Path(__file__).parent.parent))

import page
import prose
import rows_file
from figures import MissingFigure, Store, belongs, quantity


class Figures(unittest.TestCase):
    def test_a_ratio_needs_both_quantities(self):
        row = {"chosen_cold_us": 2.0, "cublaslt_cold_us": 3.0, "limit_us": None}
        self.assertEqual(quantity(row, "cublaslt/predicted"), 1.5)
        self.assertIsNone(quantity(row, "limit/predicted"))
        self.assertEqual(quantity(row, "best_peer/predicted"), 1.5)

    def test_by_prediction_is_what_no_tuning_set_chose(self):
        self.assertEqual(quantity({"chosen_cold_us": 4.0, "untuned_cold_us": 6.0}, "predicted"), 6.0)
        self.assertEqual(quantity({"chosen_cold_us": 4.0, "untuned_cold_us": None}, "predicted"), 4.0)

    def test_the_faster_of_both_peers_counts(self):
        self.assertEqual(quantity({"best_peer": 5.0, "cublaslt_cold_us": 3.0}, "best_peer"), 3.0)

    def test_groups_are_ids_with_a_number_or_names(self):
        self.assertTrue(belongs({"id": "G10"}, "G"))
        self.assertFalse(belongs({"id": "GELU"}, "G"))
        self.assertTrue(belongs({"id": "adam", "group": "large"}, "large"))

    def test_a_file_of_a_modified_tree_or_with_a_wrong_row_is_refused(self):
        clean = {"gpu": "NVIDIA H200", "commit": "1234567", "dirty": False}
        for content in ({**clean, "dirty": True, "rows": []}, {**clean, "rows": [{"id": "G1", "correct": False}]},
                        {"bert@1": {"by": {**clean, "dirty": True}}}, {"bert@1": {"right": False}},
                        {"ranks": [{"failed": ["times"]}]}):
            with self.subTest(content), mock.patch("figures.read_json", return_value=content), self.assertRaises(MissingFigure):
                Store().file("products")


class Placeholders(unittest.TestCase):
    def fill(self, text):
        prose.NAMES.update(half=lambda store: 0.5, many=lambda store, by: 1000 * int(by))
        return page.filled(None, text)

    def test_formats(self):
        self.assertEqual(self.fill("{{half}} {{half | .0%}} {{many 2}}"), "0.50 50% 2,000")

    def test_what_is_unknown_is_named(self):
        for text in ("{{nothing}}", "{{many}}", "{{many x}}"):
            with self.assertRaises(MissingFigure):
                self.fill(text)
        with self.assertRaises(MissingFigure):
            Store().rows("products", "Z")

    def test_lines_are_wrapped_and_tables_are_not(self):
        table = "| " + "x" * 200 + " |"
        text = page.wrapped(f"# T\n\n{'word ' * 40}\n{table}\n- a\n  b\n- c\n")
        self.assertEqual([len(line) <= page.WIDTH or line == table for line in text.splitlines()], [True] * len(text.splitlines()))
        self.assertTrue(text.endswith(f"{table}\n- a b\n- c\n"))


class Check(unittest.TestCase):
    def test_another_figure_fails_and_is_shown(self):
        pages = page.made()
        line = next(line for line in pages[page.PAGE].splitlines() if line.startswith("| G1 |"))
        text = pages[page.PAGE].replace(line, line.replace("| G1 |", "| G1 | 1.94"))
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(page.check({page.PAGE: text}), 1)
        self.assertIn("+| G1 | 1.94", out.getvalue())

    def test_a_readme_without_marks_is_refused(self):
        with self.assertRaises(MissingFigure):
            page.with_table("# Sinter\n", "| |")


class ResultsFiles(unittest.TestCase):
    FOLDER = pathlib.Path(__file__).parent.parent / "results"

    def test_have_a_row_a_line(self):
        for path in [*self.FOLDER.glob("*.json"), *self.FOLDER.parent.glob("torch_backend/*.json")]:
            text = path.read_text(encoding="utf-8")
            self.assertEqual(len(text.splitlines()), len(rows_file.text(json.loads(text)).splitlines()), path.name)

    def test_of_the_archive_are_those_that_its_list_names(self):
        with tarfile.open(self.FOLDER / "archive.tar.xz") as archive:
            held = archive.getnames()
        listed = re.findall(r"^\| (\S+\.\w+) \|", (self.FOLDER / "archive.md").read_text(encoding="utf-8"), re.M)
        self.assertEqual(listed, held)
        self.assertFalse([name for name in held if (self.FOLDER / name).exists()])


if __name__ == "__main__":
    unittest.main()
