#!/usr/bin/env python3
"""What throughput.py does with engines, stood in for by a program that makes tokens of nothing."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest

import throughput

ENGINE = """
import json, os, sys
with open(sys.argv[1]) as file:
    options = json.load(file)
import time
place = os.path.dirname(sys.argv[1])
with_plugin = os.environ["VLLM_PLUGINS"] == "sinter"
assert place in os.environ["VLLM_CACHE_ROOT"]
with open(os.path.join(options["folder"], "config.json")) as file:
    assert json.load(file)["num_hidden_layers"] == 32
if options["engine"].get("fails") == with_plugin:
    sys.exit("no driver")
time.sleep(0 if with_plugin else options["engine"].get("late", 0))
print("something else")
print("RESULT", json.dumps({"ready_s": 1.0, "machine": {"gpu": "none"}}), flush=True)
for line in sys.stdin:
    rows = int(line)
    tokens = [[1, 2, 3, 4 + with_plugin] for _ in range(rows)]
    print("RESULT", json.dumps({"one_s": 0.5, "seconds": 1.5 - 0.2 * with_plugin, "tokens": tokens}), flush=True)
if with_plugin and not options["engine"].get("idle"):
    with open(os.environ["SINTER_METRICS_FILE"].replace("%p", "1"), "w") as file:
        file.write("# HELP\\nsinter_launches_total 12\\n")
"""


class ThroughputTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, here = folder.name, throughput.HERE
        with open(os.path.join(folder.name, "engine.py"), "w", encoding="utf-8") as file:
            file.write(ENGINE)
        throughput.HERE = folder.name
        self.addCleanup(setattr, throughput, "HERE", here)

    def run_it(self, engine):
        out, said = os.path.join(self.folder, "out.json"), io.StringIO()
        with contextlib.redirect_stdout(said):
            status = throughput.main(["--out", out, "--models", "Llama-3-8B", "--rows", "1,8", "--new", "4", "--engine", json.dumps(engine)])
        with open(out, encoding="utf-8") as file:
            return status, json.load(file), said.getvalue()

    def test_engines_are_compared(self):
        status, result, said = self.run_it({})
        self.assertEqual((status, result["failures"]), (0, []))
        self.assertEqual([(one["contestant"], one["rows"]) for one in result["rows"]],
                         [("vllm", 1), ("sinter", 1), ("vllm", 8), ("sinter", 8)])
        own, taken = result["rows"][2:]
        self.assertAlmostEqual(own["output_tokens_per_s"], 32 / 1.5)
        self.assertAlmostEqual(own["step_us"], 1e6 / 3)
        self.assertAlmostEqual(taken["ratio"], 1.5 / 1.3)
        self.assertAlmostEqual(taken["decode_ratio"], 1.0 / 0.8)
        self.assertAlmostEqual(taken["agreement"], 0.75)
        self.assertNotIn("tokens", taken)
        self.assertEqual((result["machine"], result["ready_s"]["Llama-3-8B vllm"]), ({"gpu": "none"}, 1.0))
        self.assertEqual(result["launches"], {"Llama-3-8B vllm": 0, "Llama-3-8B sinter": 12})
        self.assertIn("with / without 1.154", said)

    def test_the_order_of_engines_is_not_that_of_their_first_answers(self):
        _, result, _ = self.run_it({"late": 0.3})
        self.assertEqual([one["contestant"] for one in result["rows"]], ["vllm", "sinter", "vllm", "sinter"])

    def test_an_engine_that_does_not_start_is_a_failure_and_the_other_goes_on(self):
        status, result, said = self.run_it({"fails": True})
        self.assertEqual(status, 1)
        self.assertEqual([one["contestant"] for one in result["rows"]], ["vllm", "vllm"])
        self.assertIn("Llama-3-8B sinter ended with 1", said)

    def test_a_plugin_that_does_nothing_is_a_failure(self):
        status, result, _ = self.run_it({"idle": True})
        self.assertEqual((status, result["failures"]), (1, ["Llama-3-8B sinter: no plan of Sinter was launched"]))


if __name__ == "__main__":
    program = unittest.main(exit=False, argv=sys.argv[:1])
    sys.exit(0 if program.result.wasSuccessful() else 1)
