#!/usr/bin/env python3
"""What experts.py needs no GPU for: chains, limits, routings, the summary."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import experts  # noqa: E402
import sinter  # noqa: E402

try:
    import torch
except ImportError:
    torch = None


class ExpertsTest(unittest.TestCase):
    def test_every_chain_is_taken(self):
        for name, model in experts.MODELS.items():
            chain = model.chain(sinter)
            self.assertEqual([tuple(info.shape) for info in chain.outputs(3)], [(3, model.hidden)], name)
            self.assertEqual(chain.input_count, 7 if model.codes else 5, name)

    def test_limits_are_bytes_at_few_rows_and_products_at_many(self):
        model = experts.MODELS["qwen3-30b"]
        self.assertAlmostEqual(model.limit_us(1, 8, "NVIDIA H100 80GB HBM3"), 2.5 + (8 * 9.437184e6 + 128 * 4096 + 12288) / 3.2e6, 3)
        self.assertAlmostEqual(model.limit_us(1 << 20, 128, "NVIDIA H200"), 2.5 + (1 << 21) * 2048 * (8 * 3 * 768 + 128) / 790e6, 0)

    def test_sums_up_by_routing_and_rows(self):
        row = {"routing": "zipf", "rows": 4, "over_limit": 1.2}
        rows = [{**row, "model": "a", "ratio": 1.0}, {**row, "model": "b", "ratio": 4.0}, {**row, "model": "c", "rows": 16}]
        self.assertEqual(experts.summary(rows), "zipf, 4 rows: 2 models, best peer / Sinter 2.000, least 1.000 (a), Sinter / limit 1.200")

    def test_takes_models_rows_and_routings_or_cases(self):
        options = mock.Mock(cases="", models="a,b", rows="1,4", routings="zipf")
        self.assertEqual(experts.asked(options), {name: [(1, "zipf"), (4, "zipf")] for name in "ab"})
        options = mock.Mock(cases="a@3:zipf,b@7:uniform,a@9:uniform")
        self.assertEqual(experts.asked(options), {"a": [(3, "zipf"), (9, "uniform")], "b": [(7, "uniform")]})

    def test_goes_on_where_the_same_library_stopped(self):
        machine = {"gpu": "H100", "commit": "a", "dirty": False}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "out.json"
            self.assertEqual(experts.held_rows(path, machine), [])
            experts.rows_file.write(str(path), {**machine, "rows": [{"rows": 1}]})
            self.assertEqual(experts.held_rows(path, machine), [{"rows": 1}])
            self.assertEqual(experts.held_rows(path, {**machine, "commit": "b"}), [])

    def test_a_model_without_a_plan_is_told_and_the_others_are_measured(self):
        def prepare(chain, m):
            if chain == experts.MODELS["mixtral-tp2"]:
                raise ValueError("no schedule")
            return m

        def bench(torch, name, contestants, plans, kernels):
            made = mock.Mock(absent={})
            made.measure = lambda rows, routing: {"model": name, "rows": rows, "routing": routing, "correct": plans[rows] == rows}
            return made

        with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
            path = Path(folder) / "out.json"
            words = ["experts.py", "--out", str(path), "--models", "mixtral-tp2,qwen3-30b", "--rows", "1,4", "--routings", "zipf", "--contestants", "sinter"]
            for patch in (
                mock.patch.dict(sys.modules, {"torch": mock.MagicMock()}),
                mock.patch.object(sys, "argv", words),
                mock.patch.object(sinter, "Context", return_value=mock.Mock(prepare=prepare)),
                mock.patch.object(experts.Model, "chain", lambda model, _: model),
                mock.patch.object(experts.turns, "machine", return_value={"gpu": "H100", "commit": "a", "dirty": False}),
                mock.patch.object(experts, "Bench", bench),
            ):
                stack.enter_context(patch)
            out = stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
            with self.assertRaises(SystemExit) as ended:
                experts.main()
            told = json.loads(path.read_text())
        self.assertEqual(ended.exception.code, 1)
        self.assertEqual([(row["model"], row["rows"]) for row in told["rows"] if row["correct"]], [("qwen3-30b", 1), ("qwen3-30b", 4)])
        refused = {(row["model"], row["rows"], row["refused"]) for row in told["rows"] if not row["correct"]}
        self.assertEqual(refused, {("mixtral-tp2", rows, "ValueError: no schedule") for rows in (1, 4)})
        self.assertEqual(told["failed"], {"mixtral-tp2": "ValueError: no schedule"})
        self.assertIn("mixtral-tp2: no plan: ValueError: no schedule", out.getvalue())
        self.assertNotIn("left; run", out.getvalue())

    @unittest.skipUnless(torch, "needs torch")
    def test_routings_are_uniform_and_zipfs(self):
        torch.manual_seed(0)
        model = experts.MODELS["gpt-oss-20b"]
        for routing, least, most in (("uniform", 1 / 34, 1 / 30), ("zipf", 0.0070, 0.26)):
            first = torch.bincount(experts.logits_of(torch, model, 100000, routing, "cpu").argmax(-1), minlength=32) / 100000
            self.assertTrue(least < first.min() and first.max() < most, (routing, first.min(), first.max()))
            self.assertTrue(routing == "uniform" or first.max() > 0.23)


if __name__ == "__main__":
    unittest.main()
