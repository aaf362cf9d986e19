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
from publish import figures, lists, told

SEED = "1234567"
CLEAN = {"gpu": "NVIDIA H200", "commit": "1234567890ab", "dirty": False, "date": "2026-01-02T03:04:05Z"}
STATE = figures.state_of(CLEAN)


def quiet(function, *arguments):
    """(what the function returned, what it printed)."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        return function(*arguments), out.getvalue()


def peered(*peers):
    """A list of rows a and b, of which each has these peers; and how a file lists them."""
    return lists.List(lambda seed: {"a": "g", "b": "g"}, {"one": lambda row: peers})


def stand_ins(test, **of):
    """Lists of tests, whose files hold {row: Told's fields}."""
    reader = lambda content, _: {row: told.Told(**fields) for row, fields in content.get("rows", {}).items()}
    for patch in (mock.patch.dict(lists.LISTS, of), mock.patch.dict(told.READERS, {"one": reader, "fp8": reader, "layers": reader})):
        patch.start()
        test.addCleanup(patch.stop)


class Plan(unittest.TestCase):
    def test_each_list_is_measured_by_the_steps_that_it_names(self):
        steps = {(name, step.name) for step in publish.STEPS for name in step.lists}
        self.assertEqual(steps, {(name, key) for name, of in lists.LISTS.items() for key in of.files})
        self.assertEqual(sorted(step.name for step in publish.STEPS), sorted(set(figures.FILES) - {"vllm-ranks"}))
        self.assertEqual(set(told.READERS), set(figures.FILES) - {"vllm-ranks"})

    def test_each_number_of_ranks_has_lists_and_a_step_of_its_own(self):
        self.assertEqual([(step.name, step.gpus, step.asked) for step in publish.STEPS if step.gpus > 1], [("ranks-4", 4, True), ("ranks", 2, False)])
        for step in publish.STEPS:
            if step.gpus > 1:
                self.assertEqual({lists.ranks_of(name) for name in (step.name, *step.lists)}, {step.gpus})
                self.assertIn(f" --ranks {step.gpus}", step.command)
        rows = {row.rpartition("@")[2] for row in lists.LISTS["sums-4"].rows(SEED)}
        self.assertLessEqual({"1", "16", "64", "128", "256", "1024", "4096"}, rows)
        self.assertEqual(lists.sum_ways("layer@4096")[-1], "symm async")
        self.assertNotIn("symm async", lists.sum_ways("sum@4096"))

    def test_steps_fit_a_call_and_name_programs_and_lists_that_are_there(self):
        for step in publish.STEPS:
            self.assertLessEqual(step.seconds, 560 - publish.SPARE, step)
            paths = re.findall(r"tests/bench/[\w./]+\.\w+", step.command)
            self.assertTrue(paths or "{bench}" in step.command, step)
            for path in paths:
                self.assertTrue((publish.ROOT / path).exists(), path)

    def test_programs_have_the_options_that_they_are_given(self):
        for step in publish.STEPS:
            program = re.search(r"\{python\} (\S+\.py)", step.command)
            text = (publish.ROOT / program[1]).read_text(encoding="utf-8") if program else ""
            for option in re.findall(r" (--[\w-]+)", step.command) if program else []:
                self.assertIn(f'add_argument("{option}"', text, step.name)

    def test_programs_take_the_rows_that_their_steps_give_them(self):
        import decode as decode_command
        import experts
        import scaled_peers

        layer_cases = publish.cases_of(publish.step_of("layers"), SEED).split(",")
        self.assertEqual([lists.layers.case(*name.split(":", 1)).id for name in layer_cases], [name.split(":", 1)[1] for name in layer_cases])
        options = mock.Mock(cases=publish.cases_of(publish.step_of("experts"), SEED))
        taken = {f"{name}@{rows}:{routing}" for name, of in experts.asked(options).items() for rows, routing in of}
        self.assertEqual(taken, set(lists.LISTS["experts"].wanted(SEED)))
        options = decode_command.parse(["--out", "x", "--cases", publish.cases_of(publish.step_of("decode"), SEED)])
        self.assertEqual({f"{name}@{m}" for name, of in options.cases.items() for m in of}, set(lists.LISTS["decode"].wanted(SEED)))
        options = mock.Mock(cases=publish.cases_of(publish.step_of("fp8"), SEED))
        taken = {f"{name}@{m}" for name, of in scaled_peers.asked(options).items() for m in of}
        for scales in ("rows", "blocks"):
            self.assertEqual({f"{case}:{scales}" for case in taken}, set(lists.LISTS[f"fp8-{scales}"].wanted(SEED)))

    def test_the_list_says_a_line_a_step_and_the_sum(self):
        status, text = quiet(publish.main, ["--list", "--seed", SEED])
        self.assertEqual(status, 0)
        for step, line in zip(publish.STEPS, text.splitlines()):
            self.assertTrue(line.startswith(step.name) and f"{step.seconds:.0f} s" in line, line)
        self.assertIn("models 20 of 80, drawn", text)
        self.assertRegex(text, r"\n\d+ minutes of one card, without steps of more than two GPUs; rows of seed 1234567\n$")
        self.assertRegex(text, r"ranks-4 +\d+ s on 4 GPUs, where they are asked for, sums-4 20 of 20, ranks-models-4 36 of 36: .* --ranks 4\n")


class Measuring(unittest.TestCase):
    """Steps are shell commands that write files; mocks report the card and the library."""

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

    def test_a_file_is_whole_when_each_row_has_each_peer_or_a_reason(self):
        stand_ins(self, one=peered("p", "q"))
        both, reason = {"ratios": {"p": 1.1, "q": 0.9}}, {"ratios": {"p": 1.1}, "why": {"q": "no memory"}}
        for rows, lacks in (({"a": both}, 1), ({"a": both, "b": {"ratios": {"p": 1.1}}}, 1), ({}, 2), ({"a": both, "b": reason}, 0)):
            with self.subTest(rows):
                step = publish.Step("one", 5, self.writing(content={**CLEAN, "rows": rows}), ("one",))
                status, text = self.measure(step)
                self.assertEqual((status, self.files()["one"]["publish"]["whole"]), (int(lacks > 0), lacks == 0))
                self.assertIn(f"{lacks} rows lack" if lacks else "one: whole", text)
        published = self.files()["one"]["publish"]
        self.assertEqual((published["seed"], published["lists"]), (SEED, {"one": {"of": 2, "rows": ["a", "b"]}}))

    def test_wrong_rows_stand_in_a_whole_file_and_a_program_that_hangs_is_ended(self):
        stand_ins(self, one=peered("p"))
        rows = {"a": {"wrong": "wrong"}, "b": {"failed": "skipped: no such model"}}
        step = publish.Step("one", 1, self.writing("sleep 60", {**CLEAN, "rows": rows}), ("one",))
        self.assertEqual(self.measure(step)[0], 0)
        self.assertTrue(self.files()["one"]["publish"]["whole"])

    def test_what_began_on_another_day_is_held_and_goes_on(self):
        stand_ins(self, one=peered())
        step = publish.Step("one", 5, self.writing(content={**CLEAN, "rows": {"a": {}}}), ("one",))
        self.assertEqual(self.measure(step)[0], 1)
        path = next(self.folder.glob("*-one.json"))
        old = path.rename(path.with_name("h200-2026-01-02-1234567-one.json"))
        step = publish.Step("one", 5, self.writing(content={**CLEAN, "rows": {"a": {}, "b": {}}}), ("one",))
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

    def test_a_step_that_goes_on_begins_with_less_time_than_it_takes(self):
        step = publish.Step("long", 100, self.writing(), resumes=True)
        self.assertEqual(self.measure(step, seconds=publish.WORTH + 5)[0], 0)
        self.assertEqual(self.measure(publish.Step("other", 100, self.writing(), resumes=True), seconds=60)[0], 1)

    def test_steps_of_one_gpu_run_beside_one_of_two(self):
        show = f"echo $CUDA_VISIBLE_DEVICES >>{self.folder}/order; sleep 0.3; printf '{{{{}}}}' >{{out}}"
        steps = [publish.Step(name, 5, show, gpus=gpus) for name, gpus in (("both", 2), ("a", 1), ("b", 1))]
        self.measure(*steps, gpus="0,1,2")
        self.assertEqual(sorted((self.folder / "order").read_text().split()[:2]), ["0,1", "2"])

    def test_gpus_share_the_steps_and_one_that_takes_two_has_both(self):
        show = "printf '{{\"gpu\": \"NVIDIA H200\", \"seen\": \"%s\"}}' $CUDA_VISIBLE_DEVICES >{out}; sleep 0.2"
        steps = [publish.Step(name, 5, show, gpus=gpus) for name, gpus in (("a", 1), ("both", 2), ("b", 1))]
        self.assertEqual(self.measure(*steps, gpus="0,1")[0], 0)
        seen = {name: told["seen"] for name, told in self.files().items()}
        self.assertEqual((seen["both"], {seen["a"], seen["b"]}), ("0,1", {"0", "1"}))
        for path in self.folder.glob("*.json"):
            path.unlink()
        self.assertIn("both: takes 2 GPUs", self.measure(*steps)[1])

    def test_a_step_of_four_gpus_is_left_out_unless_it_is_asked_for_or_has_them(self):
        steps = [publish.Step("one", 5, self.writing()), publish.Step("four", 5, self.writing(), gpus=4, asked=True)]
        self.assertEqual((self.measure(*steps)[0], set(self.files())), (0, {"one"}))
        with mock.patch.object(publish, "STEPS", steps):
            status, text = quiet(publish.main, ["--measure", str(self.folder), "--gpus", "0", "--steps", "four"])
        self.assertEqual(status, 1)
        self.assertIn("four: takes 4 GPUs: --gpus 0,1,2,3", text)
        self.assertEqual((self.measure(*steps, gpus="0,1,2,3")[0], set(self.files())), (0, {"one", "four"}))

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
        step = publish.NAME.fullmatch(name)["step"]
        of = {one: {"of": len(lists.LISTS[one].rows(SEED)), "rows": lists.LISTS[one].wanted(SEED)} for one in publish.step_of(step).lists}
        published = {"step": step, "whole": whole, "seconds": 1, "seed": SEED, "lists": of}
        (folder / name).write_text(json.dumps({**content, "publish": published}))

    def collected(self, folder, refused=0):
        """(status, what is printed, figures.py's text, names of the files that are copied, the command that is run)."""
        place = self.folder_of()
        (place / "results").mkdir()
        names = place / "figures.py"
        names.write_text(pathlib.Path(figures.__file__).read_text())
        with mock.patch.object(publish, "HERE", place), mock.patch.object(figures, "__file__", str(names)), \
                mock.patch.object(publish.subprocess, "run", return_value=mock.Mock(returncode=refused)) as page:
            status, text = quiet(publish.main, ["--collect", str(folder)])
        return status, text, names.read_text(), [path.name for path in (place / "results").iterdir()], page.call_args[0][0]

    def test_whole_files_are_copied_and_named_and_the_pages_written(self):
        status, text, names, copied, command = self.collected(self.folder_of(layers=(CLEAN, True), fp8=(CLEAN, False)))
        self.assertEqual((status, pathlib.Path(command[-1]).parts[-2:]), (0, ("performance", "page.py")))
        self.assertEqual(copied, ["h200-2026-01-02-1234567-layers.json"])
        self.assertIn('"layers": "results/h200-2026-01-02-1234567-layers.json"', names)
        self.assertIn(f'"fp8": "{figures.FILES["fp8"]}"', names)
        self.assertIn("fp8.json is not whole", text)

    def test_where_the_page_refuses_a_file_all_is_as_before(self):
        status, text, names, copied, _ = self.collected(self.folder_of(layers=(CLEAN, True)), refused=1)
        self.assertEqual((status, names, copied), (1, pathlib.Path(figures.__file__).read_text(), []))
        self.assertIn("nothing is collected", text)

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

    def test_a_drawn_list_may_be_shorter_by_its_last_rows_and_no_others(self):
        drawn = lists.List(lambda seed: {f"{i}": "g" for i in range(9)}, {"fp8": lambda row: ()}, 6, 3)
        of = {name: drawn for name in ("fp8-rows", "fp8-blocks")}
        stand_ins(self, **of)
        order = drawn.order(SEED)
        self.assertEqual(len(drawn.wanted(SEED)), 6)
        for there, count in ((order[:5], 5), (order[:4] + order[5:], 4), (order[:2] + order[3:], None), (order[:3], 3)):
            folder = self.folder_of(fp8=({**CLEAN, "rows": {row: {} for row in there}}, False))
            self.assertEqual(quiet(publish.found_in, folder)[0], {})
            found, text = quiet(publish.found_in, folder, ["fp8"])
            with self.subTest(there):
                self.assertEqual(list(found), ["fp8"] if count else [])
                content = json.loads(next(folder.glob("*-fp8.json")).read_text())
                self.assertEqual(content["publish"]["whole"], bool(count))
                self.assertEqual(content["publish"]["lists"]["fp8-rows"]["rows"], order[: count or 6])
                self.assertEqual(bool(count), "must have 3" not in text)

    def test_a_list_that_is_not_drawn_is_never_shorter(self):
        stand_ins(self, **{name: lists.List(lambda seed: {"a": "g", "b": "g"}, {"fp8": lambda row: ()}) for name in ("fp8-rows", "fp8-blocks")})
        folder = self.folder_of(fp8=({**CLEAN, "rows": {"a": {}}}, False))
        self.assertEqual(quiet(publish.found_in, folder, ["fp8"])[0], {})
        next(folder.glob("*-fp8.json")).write_text("{")
        self.assertEqual(quiet(publish.found_in, folder, ["fp8"])[0], {})

    def test_a_name_takes_its_files_place(self):
        text = 'FILES = {\n    "graphs": "a.json",\n    "graphs-2": "",\n}\n'
        self.assertEqual(publish.named(text, "graphs", "c.json"), text.replace('"a.json"', '"c.json"'))
        self.assertEqual(publish.named(text, "graphs-2", "c.json"), text.replace('""', '"c.json"'))
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


class Telling(unittest.TestCase):
    """What rows of each program tell where something failed."""

    def test_rows_of_torch(self):
        us = {name: {"us": value} for name, value in (("eager", 1.0), ("inductor", 4.0), ("sinter", 2.0))}
        run = lists.torch_models
        late = run.without_the_last({"variants": us, "error": "Traceback\nnot done after 240 s"})
        self.assertEqual((late["without"], "error" in late), ({"max_autotune": "not done after 240 s"}, False))
        one = told.torch_row(late)
        self.assertEqual((one.ratios, one.lacks(("inductor", "max_autotune"))), ({"inductor": 2.0}, []))
        self.assertEqual(told.torch_row({"variants": us}).lacks(("inductor", "max_autotune")), ["max_autotune"])
        untimed = run.without_the_last({"variants": {"sinter": {"error": 0.1}}, "error": "killed"})
        self.assertEqual(told.torch_row(untimed).failed, "killed")
        self.assertEqual(told.torch_row({"skipped": "ImportError: no such model"}).failed, "ImportError: no such model")
        self.assertIsNone(told.torch_row({"variants": us, "right": False}).ratio)
        self.assertEqual(list(told.torch_rows({"a@1": late, "b@1": {"error": "..", "cut": True}, "publish": {}}, "models")), ["a@1"])

    def test_rows_of_graphs(self):
        steps = {name: {"us": us} for name, us in (("sinter", 4.0), ("torch", 6.0), ("torch_max", 5.0), ("sinter_kernels", 2.0), ("xla", 3.0))}
        row = {"id": "N1", "steps": steps, "notes": [], "sinter_us": 4.0, "sinter_kernel_us": 2.0}
        self.assertEqual(told.graph_row(row).ratio, 1.25)
        del steps["torch_max"]
        self.assertEqual(told.graph_row(row).lacks(("torch", "torch_max", "xla")), ["torch_max"])
        one = told.graph_row({**row, "notes": ["torch_max: RuntimeError: wrong"]})
        self.assertEqual((one.lacks(("torch", "torch_max", "xla")), one.ratio), ([], 1.5))
        del steps["sinter_kernels"]
        self.assertEqual(told.graph_row(row).lacks(("xla",)), ["xla"])
        del steps["sinter"]
        self.assertEqual(told.graph_row({**row, "notes": ["sinter: output 0 is wrong"]}).wrong, "output 0 is wrong")

    def test_rows_of_ranks(self):
        ranks = [{"times": {"1": {"sum + residual, sinter": 2.0, "sum + residual, nccl": us, "layer, sinter": 1.0, "layer, sinter, the sum sends": 0.5,
                                  "layer, nccl": "RuntimeError: .."}, "stopped": 16}, "models": {"Qwen3-32B 1": {"sinter": 4.0, "nccl": us, "right": right}}}
                 for us, right in ((4.0, True), (6.0, False))]
        found = told.rank_rows({"ranks": ranks}, "sums")
        self.assertEqual(found["sum@1"].ratios, {"nccl": 3.0})
        self.assertEqual((found["layer@1"].ratios, found["layer@1"].why, found["layer@1"].ratio), ({}, {"nccl": "RuntimeError: .."}, None))
        self.assertEqual(told.rank_rows({"ranks": ranks}, "ranks-models")["Qwen3-32B 1"].wrong, "wrong")
        for sides, name in ((ranks[:1], "sums"), (ranks, "sums-4"), (2 * ranks, "sums"), (2 * ranks, "ranks-models")):
            self.assertEqual(told.rank_rows({"ranks": sides}, name), {}, "a file of another number of ranks")
        self.assertEqual(told.rank_rows({"ranks": 2 * ranks}, "sums-4")["sum@1"].ratios, {"nccl": 3.0})

    def test_rows_of_steps_and_layers(self):
        content = {"rows": [{"model": "Qwen3-4B", "rows": 1, "context": 1024, "contestant": name, "step_us": us} for name, us in (("serving", 6.0), ("sinter-pdl", 4.0))],
                   "failures": [{"model": "Qwen3-4B", "rows": 1, "contestant": "compile", "why": "OutOfMemoryError"}, {"model": "Qwen3-4B", "rows": 8, "why": "no time left"},
                                {"model": "Qwen3-8B", "rows": 8, "contestant": "case", "why": "RuntimeError"}]}
        found = told.decode_rows(content, "decode")
        self.assertEqual((found["Qwen3-4B@1"].ratio, found["Qwen3-4B@1"].lacks(("serving", "compile"))), (1.5, []))
        self.assertEqual((set(found), found["Qwen3-8B@8"].failed), ({"Qwen3-4B@1", "Qwen3-8B@8"}, "RuntimeError"))
        self.assertEqual(told.layer_row({"correct": False, "refused": "Error: no plan"}).wrong, "Error: no plan")


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
