#!/usr/bin/env python3
"""What serve_bench.py does with servers, stood in for by a process that answers /health, and with the client's figures."""

import contextlib
import io
import json
import os
import sys
import tempfile
import time
import unittest
import unittest.mock

import serve_bench

#: Stands in for vLLM's server. It ends at once if its model is of int4 and it takes Marlin.
SERVER = """
import http.server, json, os, sys
arguments = sys.argv
assert os.environ["VLLM_PLUGINS"] in ("", "sinter") and os.path.isdir(arguments[arguments.index("--model") + 1])
if os.environ["VLLM_PLUGINS"] and os.environ.get("VLLM_DISABLED_KERNELS"):
    sys.exit("Error: no such kernel")
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()
    def log_message(self, *arguments):
        pass
http.server.HTTPServer(("127.0.0.1", int(arguments[arguments.index("--port") + 1])), Handler).serve_forever()
"""


def figures(speed):
    return {"output_throughput": 100.0 * speed, "mean_ttft_ms": 20.0 / speed, "mean_tpot_ms": 5.0 / speed, "completed": 8}


class ServeBenchTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, self.out = folder.name, os.path.join(folder.name, "out.json")
        package = os.path.join(self.folder, "vllm", "entrypoints", "openai")
        os.makedirs(package)
        for place in (self.folder + "/vllm", os.path.dirname(package), package):
            open(os.path.join(place, "__init__.py"), "w", encoding="utf-8").close()
        with open(os.path.join(package, "api_server.py"), "w", encoding="utf-8") as file:
            file.write(SERVER)

    def run_it(self, measure, *more):
        said = io.StringIO()
        with contextlib.ExitStack() as stack:
            stack.enter_context(unittest.mock.patch.object(serve_bench.own_benches, "write_model", lambda folder, name, more: None))
            stack.enter_context(unittest.mock.patch.object(serve_bench.Server, "measure", measure))
            stack.enter_context(unittest.mock.patch.dict(os.environ, {"PYTHONPATH": self.folder}))
            stack.enter_context(contextlib.redirect_stdout(said))
            code = serve_bench.main(["--out", self.out, "--ready", "30", *more])
        with open(self.out, encoding="utf-8") as file:
            return code, json.load(file), said.getvalue()

    def test_measures_in_turns_and_compares(self):
        order = []

        def measure(self, concurrent):
            order.append((self.how, concurrent))
            return figures(1.25 if self.how == "sinter" else 1.0)

        code, result, said = self.run_it(measure, "--formats", "bf16", "--concurrent", "1,8", "--rounds", "2")
        self.assertEqual((code, result["failures"], len(result["runs"])), (0, [], 8))
        self.assertEqual(order[:4], [("vllm", 1), ("sinter", 1), ("vllm", 8), ("sinter", 8)])
        taken = [row for row in result["rows"] if row["contestant"] == "sinter"]
        self.assertEqual([(row["concurrent"], row["turns"], row["against"]) for row in taken], [(1, 2, "vllm"), (8, 2, "vllm")])
        for name in ("ratio", "tpot_ratio", "ttft_ratio"):
            self.assertAlmostEqual(taken[0][name], 1.25)
        self.assertIn("1.250 times vllm's", said)

    def test_a_server_that_fails_is_left_out(self):
        def measure(self, concurrent):
            if concurrent == 8 and self.how == "vllm-marlin":
                raise ValueError("the server answered 500")
            return figures({"vllm": 1.0, "vllm-marlin": 2.0}[self.how])

        code, result, said = self.run_it(measure, "--formats", "int4", "--concurrent", "1,8", "--rounds", "2")
        self.assertEqual(code, 1)
        self.assertEqual(result["failures"], ["int4 sinter-marlin: int4 sinter-marlin ended with 1", "int4 vllm-marlin: ValueError: the server answered 500"])
        self.assertIn("Error: no such kernel", "".join(result["logs"]["int4 sinter-marlin"]))
        self.assertEqual([(row["contestant"], row["concurrent"], row["turns"]) for row in result["rows"]], [("vllm", 1, 2), ("vllm-marlin", 1, 1), ("vllm", 8, 2)])
        self.assertIn("FAILED int4 sinter-marlin", said)

    def test_ends_in_time(self):
        begin = time.monotonic()
        code, result, _ = self.run_it(lambda self, concurrent: figures(1.0), "--formats", "bf16", "--limit", "5", "--wait", self.folder, "--rounds", "100000")
        self.assertEqual((code, result["failures"]), (0, []))
        self.assertLess(time.monotonic() - begin, 20)

    def test_the_ratio_is_to_the_fastest_server_without_the_plugin(self):
        runs = [{"format": "int4", "contestant": how, "concurrent": 8, **figures(speed)} for how, speed in (("vllm", 1.0), ("vllm-marlin", 1.5), ("sinter-marlin", 3.0))]
        found = {row["contestant"]: row for row in serve_bench.compare(runs)}
        self.assertEqual(found["sinter-marlin"]["against"], "vllm-marlin")
        self.assertAlmostEqual(found["sinter-marlin"]["ratio"], 2)
        self.assertNotIn("ratio", found["vllm-marlin"])


if __name__ == "__main__":
    sys.path.insert(0, serve_bench.HERE)
    unittest.main()
