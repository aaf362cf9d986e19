"""publish.py without a GPU: the plan, what a measuring call does with stand-in programs, what is collected under which name, what is refused."""

import contextlib
import io
import json
import pathlib
import re
import stat
import tarfile
import tempfile
import unittest
from unittest import mock

import publish
from publish import figures

CLEAN = {"gpu": "NVIDIA H200", "commit": "1234567890ab", "dirty": False, "date": "2026-01-02T03:04:05Z"}
STATE = figures.state_of(CLEAN)


def quiet(function, *arguments):
    """(what the function returned, what it printed)."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        return function(*arguments), out.getvalue()


class Plan(unittest.TestCase):
    def test_each_table_has_one_step_but_the_servers(self):
        keys = [key for step in publish.STEPS for key in (step.name, *step.also)]
        self.assertEqual(sorted(keys), sorted(set(figures.FILES) - {"vllm", "vllm-ranks"}))

    def test_steps_fit_a_call_and_name_programs_and_lists_that_are_there(self):
        for step in publish.STEPS:
            self.assertLessEqual(step.seconds, 560 - publish.SPARE, step)
            paths = re.findall(r"tests/bench/[\w./]+\.\w+", step.command)
            self.assertTrue(paths, step)
            for path in paths:
                self.assertTrue((publish.ROOT / path).exists(), path)

    def test_programs_have_the_options_that_they_are_given(self):
        for step in publish.STEPS:
            program = re.search(r"\{python\} (\S+\.py)", step.command)
            text = (publish.ROOT / program[1]).read_text(encoding="utf-8") if program else ""
            for option in re.findall(r" (--[\w-]+)", step.command) if program else []:
                self.assertIn(f'add_argument("{option}"', text, step.name)
        self.assertIn(" --kinds bf16 ", publish.step_of("ranks").command)  # the page's tables are of 16-bit layers

    def test_the_list_says_a_line_a_step_and_the_sum(self):
        status, text = quiet(publish.main, ["--list"])
        self.assertEqual(status, 0)
        for step, line in zip(publish.STEPS, text.splitlines()):
            self.assertTrue(line.startswith(step.name) and f"{step.seconds:.0f} s" in line, line)
        self.assertRegex(text, r"\d+ minutes of one card\n$")


class Measuring(unittest.TestCase):
    """Steps are shell commands that write files; the card and the library are told by mocks."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.state = {"commit": "1234567890ab", "dirty": False}
        for name, value in (("card_of", "NVIDIA H200"), ("state_of", self.state)):
            patch = mock.patch.object(publish, name, return_value=value)
            patch.start()
            self.addCleanup(patch.stop)

    def measure(self, *steps, gpus="0", seconds=60):
        with mock.patch.object(publish, "STEPS", steps):
            return quiet(publish.main, ["--measure", str(self.folder), "--gpus", gpus, "--seconds", str(seconds)])

    def files(self):
        return {publish.NAME.fullmatch(path.name)["step"]: json.loads(path.read_text()) for path in self.folder.glob("*.json")}

    def writing(self, more="", content=CLEAN):
        program = self.folder / "program"
        program.write_text(f"#!/bin/sh\necho run >>{self.folder}/runs\ncat >$1 <<'TEXT'\n{json.dumps(content)}\nTEXT\n{more}\n")
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return f"{program} {{out}} {{left}}"

    def test_a_step_writes_one_file_by_card_day_and_commit_and_is_not_run_again(self):
        step = publish.Step("one", 5, self.writing())
        self.assertEqual(self.measure(step)[0], 0)
        self.assertEqual(self.measure(step)[0], 0)
        self.assertEqual(len((self.folder / "runs").read_text().split()), 1)
        self.assertRegex([path.name for path in self.folder.glob("*.json")][0], r"^h200-\d{4}-\d\d-\d\d-1234567-one\.json$")
        self.assertTrue(self.files()["one"]["publish"]["whole"])

    def test_what_ends_early_fails_or_hangs_is_not_whole_and_goes_on(self):
        for more in ("echo '3 left; run the command again'", "exit 1", "sleep 60"):
            with self.subTest(more):
                step = publish.Step("one", 1, self.writing(more))
                self.assertEqual(self.measure(step)[0], 1)
                self.assertFalse(self.files()["one"]["publish"]["whole"])
        self.assertEqual(self.measure(publish.Step("one", 5, self.writing()))[0], 0)

    def test_what_began_on_another_day_is_held_and_goes_on(self):
        step = publish.Step("one", 5, self.writing(f"test -e {self.folder}/again || exit 1"))
        self.assertEqual(self.measure(step)[0], 1)
        path = next(self.folder.glob("*-one.json"))
        old = path.rename(path.with_name("h200-2026-01-02-1234567-one.json"))
        (self.folder / "again").touch()
        self.assertEqual(self.measure(step)[0], 0)
        self.assertEqual(self.measure(step)[0], 0)
        self.assertEqual(len((self.folder / "runs").read_text().split()), 2)
        self.assertEqual(list(self.folder.glob("*.json")), [old])
        for other in ("h100-2026-01-02-1234567-one.json", "h200-2026-01-02-7654321-one.json", "h200-2026-01-02-1234567-more-one.json"):
            old = old.rename(old.with_name(other))
            self.assertNotEqual(publish.path_of(self.folder, "h200", "1234567", step), old)

    def test_a_broken_file_is_removed_and_measured_anew(self):
        broken = publish.Step("one", 5, self.writing("printf '{\"gpu\": ' >$1"))
        status, text = self.measure(broken)
        self.assertEqual((status, self.files()), (1, {}))
        self.assertRegex(text, r"-one\.json is broken: removed")
        step = publish.Step("one", 5, self.writing())
        self.assertEqual(self.measure(step)[0], 0)
        path = next(self.folder.glob("*.json"))
        path.write_bytes(path.read_bytes()[:20])
        self.assertFalse(publish.is_whole(path))
        self.assertEqual(self.measure(step)[0], 0)
        self.assertTrue(publish.is_whole(path))

    def test_no_step_begins_that_would_not_end(self):
        status, text = self.measure(publish.Step("long", 100, self.writing()), publish.Step("short", 5, self.writing()))
        self.assertEqual((status, sorted(self.files())), (1, ["short"]))
        self.assertIn("left: long", text)

    def test_gpus_share_the_steps_and_one_that_takes_two_has_both(self):
        show = "printf '{{\"gpu\": \"NVIDIA H200\", \"seen\": \"%s\"}}' $CUDA_VISIBLE_DEVICES >{out}; sleep 0.2"
        steps = [publish.Step(name, 5, show, gpus=gpus) for name, gpus in (("a", 1), ("both", 2), ("b", 1))]
        self.assertEqual(self.measure(*steps, gpus="0,1")[0], 0)
        seen = {name: told["seen"] for name, told in self.files().items()}
        self.assertEqual((seen["both"], {seen["a"], seen["b"]}), ("0,1", {"0", "1"}))
        for path in self.folder.glob("*.json"):
            path.unlink()
        self.assertIn("both: takes 2 GPUs", self.measure(*steps)[1])

    def test_a_library_of_a_modified_tree_is_refused(self):
        for wrong in ({"dirty": True}, {"commit": "unknown"}):
            with self.subTest(wrong), mock.patch.dict(self.state, wrong), self.assertRaises(SystemExit):
                self.measure(publish.Step("one", 5, self.writing()))
        self.assertFalse(list(self.folder.glob("*.json")))


class Collecting(unittest.TestCase):
    def folder_of(self, **files):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for name, (content, whole) in files.items():
            self.write(pathlib.Path(folder.name), f"h200-2026-01-02-1234567-{name}.json", content, whole)
        return pathlib.Path(folder.name)

    def write(self, folder, name, content, whole=True):
        (folder / name).write_text(json.dumps({**content, "publish": {"whole": whole}}))

    def collected(self, folder):
        """(status, what is printed, figures.py's text, names of the files that are copied, the command that is run)."""
        place = self.folder_of()
        (place / "results").mkdir()
        names = place / "figures.py"
        names.write_text(pathlib.Path(figures.__file__).read_text())
        with mock.patch.object(publish, "HERE", place), mock.patch.object(figures, "__file__", str(names)), \
                mock.patch.object(publish.subprocess, "run", return_value=mock.Mock(returncode=0)) as page:
            status, text = quiet(publish.main, ["--collect", str(folder)])
        return status, text, names.read_text(), [path.name for path in (place / "results").iterdir()], page.call_args[0][0]

    def test_whole_files_are_copied_and_named_and_the_pages_written(self):
        status, text, names, copied, command = self.collected(self.folder_of(layers=(CLEAN, True), fp8=(CLEAN, False)))
        self.assertEqual((status, pathlib.Path(command[-1]).parts[-2:]), (0, ("performance", "page.py")))
        self.assertEqual(copied, ["h200-2026-01-02-1234567-layers.json"])
        for key in ("layers", "depthwise", "images"):
            self.assertIn(f'"{key}": "results/h200-2026-01-02-1234567-layers.json"', names)
        self.assertIn(f'"fp8": "{figures.FILES["fp8"]}"', names)
        self.assertIn("fp8.json is not whole", text)

    def test_of_several_days_the_newest_is_taken(self):
        folder = self.folder_of(layers=(CLEAN, True))
        self.write(folder, "h200-2026-01-03-1234567-layers.json", CLEAN)
        self.write(folder, "h200-2026-01-04-1234567-layers.json", CLEAN, whole=False)
        self.assertEqual(self.collected(folder)[3], ["h200-2026-01-03-1234567-layers.json"])

    def test_a_folder_of_two_cards_or_commits_is_refused_though_one_file_of_a_step_would_win(self):
        for name, wrong in (("h100-2026-01-03-1234567-layers.json", {"gpu": "NVIDIA H100 80GB HBM3"}),
                            ("h200-2026-01-01-7654321-layers.json", {"commit": "7654321"})):
            folder = self.folder_of(layers=(CLEAN, True))
            self.write(folder, name, {**CLEAN, **wrong})
            with self.subTest(name), self.assertRaisesRegex(SystemExit, "several"):
                self.collected(folder)

    def test_what_is_not_whole_is_taken_when_named(self):
        folder = self.folder_of(fp8=(CLEAN, False))
        self.assertEqual(quiet(publish.found_in, folder)[0], {})
        self.assertEqual(list(quiet(publish.found_in, folder, ["fp8"])[0]), ["fp8"])
        next(folder.glob("*-fp8.json")).write_text("{")
        self.assertEqual(quiet(publish.found_in, folder, ["fp8"])[0], {})

    def test_a_name_takes_its_files_place_and_its_plans_are_tuned_no_more(self):
        text = 'FILES = {\n    "graphs": "a.json",\n    "graphs-2": "b.json",\n}\nTUNED = {"graphs", "large"}\n'
        self.assertEqual(publish.named(text, "graphs", "c.json"), text.replace('"a.json"', '"c.json"').replace('"graphs", "large"', '"large"'))
        self.assertIn("TUNED = set()", publish.named('    "large": "a"\nTUNED = {"large"}\n', "large", "c"))
        with self.assertRaises(SystemExit):
            publish.named(text, "nothing", "c.json")

    def test_what_is_not_of_one_clean_state_is_refused(self):
        fp8, layers, later = "h200-2026-01-02-1234567-fp8.json", "h200-2026-01-02-1234567-layers.json", "h200-2026-01-02-7654321-layers.json"
        publish.refuse_mixed({fp8: STATE, layers: STATE})
        for name, wrong, told in (
            (layers, {"gpu": "NVIDIA H100 80GB HBM3"}, "several kinds of card"),
            (layers, {"gpu": "NVIDIA H200 NVL"}, "several kinds of card: NVIDIA H200, NVIDIA H200 NVL"),
            (later, {"commit": "7654321"}, "several commits"),
            (layers, {"commit": "7654321"}, "another commit than its name"),
            (later, {}, "another commit than its name"),
            (layers, {"dirty": True}, "modified"),
            (layers, {"commit": "unknown"}, "does not say"),
            (layers, {"commit": None}, "does not say"),
            (layers, {"gpu": None}, "does not say"),
            (layers, {"gpu": "unknown"}, "does not say"),
        ):
            with self.subTest(name, **wrong), self.assertRaisesRegex(SystemExit, told):
                publish.refuse_mixed({fp8: STATE, name: figures.state_of({**CLEAN, **wrong})})
        unknown = figures.state_of({})
        with self.assertRaisesRegex(SystemExit, "does not say"):
            publish.refuse_mixed({fp8: unknown, layers: unknown})
        with self.assertRaisesRegex(SystemExit, "several kinds"):
            publish.refuse_mixed({fp8: figures.state_of({"ranks": [CLEAN, {"gpu": "NVIDIA H200 NVL"}]})})
        with self.assertRaises(SystemExit):
            publish.refuse_mixed({})

    def test_a_modified_tree_is_seen_at_any_depth(self):
        self.assertTrue(figures.state_of({"bert@1": {"by": {**CLEAN, "dirty": True}}}).dirty)
        with self.assertRaises(figures.MissingFigure):
            figures.state_of({"rows": [CLEAN, {**CLEAN, "commit": "7654321"}]})


class Archiving(unittest.TestCase):
    def test_what_nothing_names_moves_into_the_archive_and_what_a_test_reads_leaves_it(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        results = pathlib.Path(folder.name, "results")
        results.mkdir()
        with tarfile.open(results / "archive.tar.xz", "w:xz") as archive:
            for name in ("a.txt", "c.json"):
                member = tarfile.TarInfo(name)
                member.size = 3
                archive.addfile(member, io.BytesIO(b"old"))
        (results / "archive.md").write_text("# Held\n\n| file | commit | dirty | holds |\n|---|---|---|---|\n| a.txt |  |  | text |\n| c.json |  |  |  |\n")
        (results / "b.json").write_text(json.dumps({**CLEAN, "rows": [1, 2]}))
        (results / "c.json").write_text("{}")  # taken out of the archive again: a test reads it
        with mock.patch.object(publish, "HERE", pathlib.Path(folder.name)), mock.patch.object(publish, "named_in_code", return_value="c.json"):
            quiet(publish.archive)
        with tarfile.open(results / "archive.tar.xz") as archive:
            self.assertEqual(archive.getnames(), ["a.txt", "b.json"])
            self.assertEqual(archive.extractfile("a.txt").read(), b"old")
        self.assertEqual((results / "archive.md").read_text().splitlines()[-2:], ["| a.txt |  |  | text |", "| b.json | 1234567 | no | rows 2 |"])
        self.assertEqual(sorted(path.name for path in results.glob("*.json")), ["c.json"])

    def test_the_docs_name_an_archived_file_without_its_folder(self):
        for page in (publish.ROOT / "docs").rglob("*.md"):
            for name in re.findall(r"tests/bench/results/([\w.-]*\w\.(?:json|set|txt))", page.read_text(encoding="utf-8")):
                self.assertTrue((publish.HERE / "results" / name).exists(), f"{page.name} names {name}")


if __name__ == "__main__":
    unittest.main()
