#!/usr/bin/env python3
"""How placeholders are filled, what counts as a figure, and that a page with another figure fails the check."""

import contextlib
import copy
import io
import json
import pathlib
import re
import sys
import tarfile
import unittest
from unittest import mock

sys.path.append(str(pathlib.Path(__file__).parent.parent))

import fakes
import families
import figures
import fusionstitching
import page
import prose
import publish
import rows_file
import told
from figures import MissingFigure, Store, belongs, quantity

SEED = "1234567"


class Figures(unittest.TestCase):
    def test_a_ratio_needs_both_quantities(self):
        row = {"chosen_cold_us": 2.0, "cublaslt_cold_us": 3.0, "limit_us": None}
        self.assertEqual(quantity(row, "cublaslt/predicted"), 1.5)
        self.assertIsNone(quantity(row, "limit/predicted"))

    def test_by_prediction_is_what_no_tuning_set_chose(self):
        self.assertEqual(quantity({"chosen_cold_us": 4.0, "untuned_cold_us": 6.0}, "predicted"), 6.0)
        self.assertEqual(quantity({"chosen_cold_us": 4.0, "untuned_cold_us": None}, "predicted"), 4.0)

    def test_groups_are_ids_with_a_number_or_names(self):
        self.assertTrue(belongs({"id": "G10"}, "G"))
        self.assertFalse(belongs({"id": "GELU"}, "G"))
        self.assertTrue(belongs({"id": "adam", "group": "large"}, "large"))

    def test_a_file_of_a_modified_or_unknown_state_or_with_a_wrong_part_is_refused(self):
        clean = {"gpu": "NVIDIA H200", "commit": "1234567", "dirty": False}
        for content in ({**clean, "dirty": True}, {"bert@1": {"by": {**clean, "dirty": True}}}, {**clean, "ranks": [{"failed": ["right"]}]},
                        {"gpu": "NVIDIA H200"}, {**clean, "commit": "unknown"}, {"gpu": "NVIDIA H200", "commit": "1234567"}, {**clean, "gpu": "unknown"}):
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


class Whole(unittest.TestCase):
    """Files as the programs write them, of every row of every step."""

    @classmethod
    def setUpClass(cls):
        cls.contents = {step.name: fakes.file_of(step, SEED) for step in publish.STEPS}

    def setUp(self):
        self.files = copy.deepcopy(self.contents)
        names = {key: name for key, name in figures.FILES.items() if key == "vllm-ranks"}
        names.update({key: f"results/{key}.json" for key in self.files})
        by_name = {name: key for key, name in names.items()}
        read = figures.read_json
        patches = (mock.patch.dict(figures.FILES, names), mock.patch("figures.read_json", lambda name: self.files.get(by_name[name]) or read(name)))
        for patch in patches:
            patch.start()
            self.addCleanup(patch.stop)

    def family(self, *names):
        return families.rows_of(Store(), *names)

    def refused(self, told, *names):
        with self.assertRaisesRegex(MissingFigure, told):
            self.family(*names)

    def test_make_a_page_that_says_what_is_drawn(self):
        pages = page.made()
        self.assertIn("|PyTorch models|20/80 drawn|`torch.compile`, max-autotune|", pages[page.README])
        self.assertNotIn("by hand|", pages[page.README])
        self.assertEqual(len(re.findall(r"^\|.*\|$", pages[page.README].split(page.BEGIN)[1].split(page.END)[0], re.M)), len(families.FAMILIES) + 3)
        self.assertIn(f"commit {SEED} on an H200", pages[page.README])

    def test_four_gpus_have_a_section_where_they_were_measured(self):
        pages = page.made()
        section = pages[page.PAGE].split("### Over four GPUs\n")[1].split("\nWhole decoding steps")[0]
        self.assertIn("`ranks-4.json` (4 H200): sums and layers (20), then", section)
        self.assertEqual(len(re.findall(r"^\| (sum|layer) \| [\d,]+ \|", section, re.M)), 20)
        self.assertEqual(len(re.findall(r"^\| (Llama-3-70B|Qwen3-32B)( e4m3)? \| [\d,]+ \| 5 \|", section, re.M)), 36)
        self.assertIn("|sums over 4 GPUs|20|symmetric memory, NCCL|", pages[page.README])
        with mock.patch.dict(figures.FILES, {"ranks-4": ""}):
            pages = page.made()
        self.assertIn("## Sums over two GPUs", pages[page.PAGE])
        self.assertNotIn("four GPUs", pages[page.PAGE])
        self.assertNotIn("4 GPUs", pages[page.README])
        self.assertNotIn("\n\n\n", pages[page.PAGE])

    def test_a_file_that_lacks_a_rank_has_no_rows(self):
        del self.files["ranks-4"]["ranks"][3]
        self.refused("ranks-4.*, list sums-4: 20 rows are missing", "sums-4")
        self.assertEqual(len(self.family("sums").told), 20)

    def test_a_rank_that_failed_refuses_the_file(self):
        self.files["ranks-4"]["failed"] = ["rank 1 did not end"]
        self.refused("has wrong parts: rank 1 did not end", "sums-4")

    def test_prompts_have_asynchronous_products(self):
        for rank in self.files["ranks-4"]["ranks"]:
            rank["times"]["1024"].pop("layer, symm async", None)
        self.refused(r"list sums-4: 1 rows have fewer peers than the step: layer@1024 lacks symm async", "sums-4")

    def test_have_what_publish_asks_for(self):
        for step in publish.STEPS:
            self.assertEqual(publish.missing(step, self.files[step.name], SEED), [], step.name)

    def test_fusionstitchings_models_stand_in_one_table(self):
        self.assertEqual(set(fusionstitching.PAPER), set(self.files["fusionstitching"]) - {"publish"})
        lines = fusionstitching.table(Store()).splitlines()
        self.assertEqual(len(lines), 2 + 7 + 2)
        self.assertRegex(lines[-2], r"^\| arithmetic mean \| 1\.66 \| 1\.45 \|( \d\.\d\d \|){4}")  # the paper's text has the same two
        us = {name: one["us"] for name, one in self.files["fusionstitching"]["dien@256"]["variants"].items()}
        said = next(line for line in lines if line.startswith("| DIEN, training |"))
        ratio = f"{us['xla'] / us['sinter']:.2f}"
        self.assertIn(f"| {us['eager'] / us['sinter']:.2f} | {us['inductor'] / us['sinter']:.2f} | {ratio} | {ratio} |", said)
        self.assertTrue(said.endswith("| 13,015, 10,053, 4,719 | 5, 8, 3, 6 |"), said)

    def test_fusionstitchings_models_without_a_time_stay_in_the_table(self):
        rows = self.files["fusionstitching"]
        rows["asr@8:infer"]["right"] = False
        del rows["dien@256"]["variants"]["xla"]
        lines = {line.split(" | ")[0]: line for line in fusionstitching.table(Store()).splitlines()}
        self.assertIn("| 1.73 | 1.21 | - | - | - | - | wrong |", lines["| ASR, inference"])
        self.assertRegex(lines["| geometric mean"], r"1\.62 \| 1\.39 \| \S+ of 6 \| \S+ of 6 \| \S+ of 5 \| \S+ of 5 \|")
        with mock.patch.dict(figures.FILES, {"fusionstitching": ""}):
            self.assertEqual(fusionstitching.table(Store()).count("| - | - | - | - | - |"), 7)

    def test_xla_counts_by_the_smaller_of_two_ratios(self):
        row = self.files["fusionstitching"]["dien@256"]
        row["variants"]["xla"].update(us=30.0, whole={"us": 9.0, "kernels": 3})
        row["variants"]["sinter"].update(us=10.0, whole={"us": 12.0, "kernels": 3})  # the profiler made kernels slower than the graph
        self.assertAlmostEqual(told.torch_row(row).ratios["xla"], 0.9)
        del row["variants"]["xla"]["whole"]
        self.assertAlmostEqual(told.torch_row(row).ratios["xla"], 3.0)

    def test_a_missing_row_an_unfinished_file_or_another_draw_is_refused(self):
        self.files["layers"]["rows"] = [row for row in self.files["layers"]["rows"] if row["id"] != "bert_b-o-128"]
        self.refused("1 rows are missing: bert_b-o-128", "products")
        self.files["training"]["publish"]["whole"] = False
        self.refused("not whole", "training")
        self.files["models"]["publish"]["lists"]["models"]["rows"].reverse()
        self.refused("not the list's", "models")
        rows = self.files["encoders"]["publish"]["lists"]["encoders"]
        rows["rows"] = rows["rows"][:10]
        self.assertEqual(self.family("encoders").count(), "10 of 27, drawn")
        rows["rows"] = rows["rows"][:3]
        self.refused("3 rows of 27", "encoders")
        del self.files["fp8"]["publish"]["lists"]
        self.refused("0 rows of", "fp8-rows")

    def test_a_peer_that_is_missing_is_refused_and_one_that_failed_stands_there(self):
        row = next(row for row in self.files["encoders"]["rows"])
        del row["us"]["autotune"]
        self.refused(f"fewer peers than the step: {row['id']} lacks autotune", "encoders")
        row["failed"] = {"autotune": "OutOfMemoryError: .."}
        self.assertEqual(self.family("encoders").without, [])
        for row in self.files["fp8"]["rows"]:
            row["contestants"]["promoted-block"] = {"failed": "RuntimeError: not supported"}
        found = self.family("fp8-blocks")
        self.assertEqual((len(found.without), found.peers), (0, ["DeepGEMM"]))
        for row in self.files["fp8"]["rows"][1:]:
            row["contestants"]["deepgemm-block"] = {"failed": "ModuleNotFoundError: .."}
        found = self.family("fp8-blocks")
        self.assertIn(f"; {len(found.told) - 1} without a time", found.count())

    def test_wrong_rows_stand_there_and_are_below_one(self):
        for row in self.files["rowwise"]["rows"][:12]:
            row.update(correct=False, refused="no plan")
        found = self.family("rowwise")
        self.assertEqual((len(found.wrong), found.count()), (12, "48 of 97, drawn; 12 wrong"))
        self.assertEqual(found.below, (12 + sum(ratio < 1 for ratio in found.ratios.values())) / 48)
        self.assertIn("12 wrong", page.made()[page.README])

    def test_columns_of_another_run_are_refused(self):
        self.files["ffns"].update(commit="7654321", publish={**self.files["ffns"]["publish"], "seed": "7654321"})
        self.refused("several commits, 1234567 7654321", "gated_ffn")
        self.files["fp8"]["publish"]["seed"] = "7654321"
        self.refused("of seed 7654321", "fp8-rows")

    def test_a_step_that_is_missing_beside_a_new_one_is_refused(self):
        with mock.patch.dict(figures.FILES, {"ffns": "", "conv-32": ""}):
            self.refused("ffns is not measured", "gated_ffn")
            self.refused("conv-32 is not measured", "conv-1", "conv-32", "conv-drawn")

    def test_a_file_that_names_its_lists_is_never_marked(self):
        with mock.patch.object(figures, "BY_HAND", {"results/layers.json"}), self.assertRaisesRegex(MissingFigure, "may not be marked"):
            families.table(Store())


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
        self.assertFalse([name for name in held if name.endswith(".set")], "a set lies in the folder, where a test looks up its entries")


if __name__ == "__main__":
    unittest.main()
