#!/usr/bin/env python3
"""What architectures.py does with engines, stood in for by functions that answer in forked processes; the list; own_benches.py's figures."""

import contextlib
import io
import json
import os
import sys
import tempfile
import time
import unittest
import unittest.mock

import architecture_engine
import architectures
import architectures_table
import own_benches

ROWS = [{"name": name, "architecture": "A", "type": "a", "config": {}} for name in ("plain", "late", "dies", "hangs", "last")]


def run(row, how, folder, options, answer, asked):
    """Stands in for an engine."""
    assert os.environ["VLLM_PLUGINS"] == {"vllm": "", "sinter": "sinter"}[how] and folder in os.environ["VLLM_CACHE_ROOT"]
    assert os.getpgid(0) == os.getpid() and os.environ["CUDA_VISIBLE_DEVICES"] in ("0", "1")
    print("Error: said in the log", flush=True)
    if row["name"] == "dies" and how == "sinter":
        raise ValueError("no such model")
    if row["name"] == "hangs":
        time.sleep(60)
    time.sleep(0.3 * (row["name"] == "late"))
    told = [{"7": -1.0, "8": -2.0}]
    off = [{"7": -1.1, "9": -2.0}]
    answer({"ready_s": 1.0, "all_s": 2.0, "layers": 3 * (how == "sinter"), "scores": {"decode": off if how == "sinter" else told},
            **({"uncompiled": {"decode": told}} if how == "vllm" else {}), **({"pieces": [[(0.002, 0.003)], "no form"]} if options["errors"] else {}),
            "graphs": [{"ops": 5, "taken": ["a", "b"], "left": [["mm", "too wide; 9 columns"]]}, {"ops": 1, "taken": [], "left": [["mm", "too wide; 8"]]}] if how == "sinter" else []})
    turn = 0
    for line in asked:
        turn += 1
        assert int(line) == turn
        answer({"graph_us": {str(m): (90.0 if how == "sinter" else 99.0) * m + turn for m in options["rows"]}})


class ArchitecturesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out, self.list = (os.path.join(folder.name, name) for name in ("out.jsonl", "list.jsonl"))
        with open(self.list, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in ROWS)

    def run_it(self, *more):
        said = io.StringIO()
        with contextlib.ExitStack() as stack:
            for of, name, by in ((architectures.engines, "run", run), (architectures.engines, "prepare", lambda rows: []), (architectures, "fork_works", lambda gpu: True),
                                 (architectures, "machine", lambda: {"gpu": "none"})):
                stack.enter_context(unittest.mock.patch.object(of, name, by))
            stack.enter_context(contextlib.redirect_stdout(said))
            code = architectures.main(["--out", self.out, "--list", self.list, "--gpus", "0,1", "--at-once", "4", "--least", "0", *more])
        with open(self.out, encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        return code, {one["name"]: one for one in lines if "name" in one}, said.getvalue()

    def test_measures_compares_and_goes_on(self):
        code, rows, said = self.run_it("--only", "plain,late,dies,last", "--rows", "8,32")
        self.assertEqual(code, 1)
        self.assertEqual(list(rows["plain"]["ratio"]), ["8", "32"])
        self.assertAlmostEqual(rows["plain"]["ratio"]["8"], (99 * 8 + 2) / (90 * 8 + 2))
        self.assertEqual(len(rows["last"]["turns_us"]["sinter"]), 3)
        self.assertEqual({key: rows["late"][key] for key in ("graphs", "parts", "without", "ops", "taken", "linked")},
                         {"graphs": 2, "parts": 2, "without": 1, "ops": 6, "taken": 4, "linked": 3})
        self.assertEqual(rows["late"]["left"], {"mm: too wide": 2})
        distances = rows["late"]["rms"]["sinter"]["decode"]
        for found in (distances["rms"], distances["middle"], *distances["each"], *(-one for one in distances["shift"])):
            self.assertAlmostEqual(found, 0.1)
        self.assertNotIn("pieces", rows["late"])
        self.assertEqual(rows["late"]["rms"]["vllm"]["decode"]["rms"], 0)
        self.assertEqual(rows["dies"]["failures"]["sinter"]["why"], "ValueError: no such model")
        self.assertIn("ValueError: no such model", rows["dies"]["failures"]["sinter"]["log"])
        self.assertNotIn("ratio", rows["dies"])
        self.assertIn("6 ratios, geometric mean", said)
        self.assertNotIn("error of pieces", said)
        # what is known does not run again, what failed does
        code, again, said = self.run_it("--only", "plain,late,dies,last")
        self.assertEqual((code, said.count("0 ratio"), said.count("no such model")), (1, 0, 1))

    def test_pieces_are_compared_where_that_is_asked_for(self):
        _, rows, said = self.run_it("--only", "plain,last", "--errors", "last")
        self.assertEqual(("pieces" in rows["plain"], list(rows["last"]["pieces"])), (False, ["vllm", "sinter"]))
        self.assertAlmostEqual(rows["last"]["pieces"]["sinter"]["mean"], 1.5)
        self.assertEqual(rows["last"]["pieces"]["sinter"]["failed"], ["no form"])
        self.assertIn("error of pieces vllm 1.50, most 1.50 sinter 1.50, most 1.50; ready", said)

    def test_gives_up_what_hangs_and_ends_in_time(self):
        begin = time.monotonic()
        code, rows, _ = self.run_it("--only", "hangs,plain", "--ready", "1")
        self.assertEqual((code, rows["hangs"]["failures"]["vllm"]["why"]), (1, "not ready after 1 s"))
        self.assertIn("ratio", rows["plain"])
        code, _, said = self.run_it("--only", "hangs", "--limit", "1.5")
        self.assertEqual((code, "not reached: hangs" in said), (1, True))
        self.assertLess(time.monotonic() - begin, 20)

    def test_refuses_a_fork_that_cannot_open_the_gpu(self):
        with unittest.mock.patch.object(architectures, "fork_works", lambda gpu: False), unittest.mock.patch.object(architectures.engines, "prepare", lambda rows: []):
            with contextlib.redirect_stdout(io.StringIO()) as said:
                self.assertEqual(architectures.main(["--out", self.out, "--list", self.list, "--gpus", "0"]), 3)
        self.assertIn("--no-fork", said.getvalue())

    def test_stops_the_others_of_a_gpu(self):
        with tempfile.TemporaryDirectory() as more:
            for name in ("0-11", "1-12"):
                open(os.path.join(more, name), "w", encoding="utf-8").close()
            pairs = [unittest.mock.Mock(gpu=gpu, engines={"vllm": unittest.mock.Mock(process=process)}) for gpu, process in (("0", 1), ("0", 2), ("1", 3))]
            with unittest.mock.patch.object(architectures, "send") as send:
                with architectures.alone(pairs[0], pairs, more):
                    stopped = [call.args for call in send.call_args_list]
        self.assertEqual(stopped, [(2, architectures.signal.SIGSTOP), (11, architectures.signal.SIGSTOP)])
        self.assertEqual([call.args[0] for call in send.call_args_list[2:]], [2, 11])

    def test_the_list(self):
        rows = architecture_engine.read(os.path.join(architectures.HERE, "architectures.jsonl"))
        self.assertEqual(len({row["name"] for row in rows}), len(rows))
        self.assertGreaterEqual(len({row["architecture"] for row in rows}), 75)
        for row in rows:
            self.assertLessEqual(set(row), {"name", "architecture", "type", "config", "attention", "decode_only", "env"}, row["name"])
            config = architecture_engine.config(row)
            self.assertEqual(config["architectures"], [row["architecture"]])
            for listed in ("layer_types", "mlp_layer_types"):
                self.assertIn(len(config.get(listed) or ()), (0, config["num_hidden_layers"]), row["name"])
        for name in own_benches.MODELS:
            self.assertIn(name, {row["name"] for row in rows})

    def test_tells_files_together(self):
        old = {"name": "a", "architecture": "A", "ratio": {"8": 1.1}, "parts": 2, "linked": 0, "graphs": 3, "taken": 4, "ops": 5,
               "rms": {how: {"decode": {"rms": rms}} for how, rms in (("vllm", 0.1), ("sinter", 0.2))}}
        again, failed = {**old, "ratio": {"8": 0.98}}, {"name": "a", "architecture": "A", "failures": {"vllm": {"why": "no"}}}
        bare = {**old, "name": "b", "architecture": "B", "parts": 0, "ratio": {"8": 1.0}, "rms": {"vllm": {"decode": {"rms": None}}, "sinter": {"decode": {"rms": 0.1}}}}
        for name, lines in ((self.out, [{"machine": 1}, old, bare]), (self.list, [again, failed])):
            with open(name, "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
        found = architectures_table.summary(architectures_table.read([self.out, self.list]), "8")
        self.assertEqual((found["rows"], found["ran"], found["with parts"], found["least"], found["below 0.99"]), (2, 2, 1, 0.98, ["a"]))
        self.assertAlmostEqual(found["error, times vLLM's"], 2)
        of_prompts = {how: {"decode": {"rms": 9.0, "middle": rms}} for how, rms in (("vllm", 0.1), ("sinter", 0.11))}
        self.assertAlmostEqual(architectures_table.apart({"rms": of_prompts})["decode"], 1.1)  # one prompt of eight does not decide
        with contextlib.redirect_stdout(io.StringIO()) as said:
            architectures_table.main([self.out, self.list])
        self.assertIn("mean: 0.990", said.getvalue())

    def test_compares_benches(self):
        found = own_benches.compare({"latency 8": {"vllm": [1.0, 1.2, 1.1], "sinter": [1.0]}, "throughput": {"vllm": [100.0], "sinter": [110.0]}, "latency 1": {"vllm": [1.0]}})
        self.assertAlmostEqual(found["latency 8"]["ratio"], 1.1)
        self.assertAlmostEqual(found["throughput"]["ratio"], 1.1)
        self.assertNotIn("ratio", found["latency 1"])
        self.assertEqual(own_benches.figure("latency 8", {"avg_latency": 2.0}), 2.0)
        self.assertEqual(own_benches.figure("throughput", {"tokens_per_second": 3.0}), 3.0)


if __name__ == "__main__":
    sys.path.insert(0, architectures.HERE)
    unittest.main()
