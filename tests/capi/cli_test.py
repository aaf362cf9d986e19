#!/usr/bin/env python3
"""The sinter command from outside: output, errors, JSON, exit statuses. Usage: cli_test.py SINTER SOURCE."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SINTER, SOURCE = sys.argv[1], sys.argv[2]
PROBLEMS = os.path.join(SOURCE, "tests", "bench", "problems")
CHAIN = "gemm_chain m=20 n=256 k=64 l=64 act=relu layout=oi dtype=bf16"
DONE, FAILED, USAGE, UNAVAILABLE = 0, 1, 2, 3


class Cli(unittest.TestCase):
    def setUp(self):
        self.cache = tempfile.mkdtemp(prefix="sinter-cli-")
        self.addCleanup(shutil.rmtree, self.cache, ignore_errors=True)

    def sinter(self, *arguments, expect=DONE):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SINTER_") or k == "SINTER_NVRTC"}
        environment["SINTER_CACHE_DIR"] = self.cache
        result = subprocess.run([SINTER, *arguments], env=environment, capture_output=True, text=True, timeout=60)
        if result.returncode == UNAVAILABLE and expect == DONE:
            self.skipTest(result.stderr.strip())
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result

    def fails(self, message, *arguments, expect=USAGE):
        result = self.sinter(*arguments, expect=expect)
        self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("sinter: "), result.stderr)
        self.assertIn(message, result.stderr)

    def test_run_shows_the_chain_the_plan_the_execution_and_the_counters(self):
        first = self.sinter("run", "--target", "h200", *CHAIN.split())
        self.assertTrue(first.stdout.startswith(CHAIN + " bias1=0 bias2=0\n"), first.stdout)
        for part in ("m<=32", "predicted", "prepared in", "search", "compile", "reference executor:", "output 0 rms 0."):
            self.assertIn(part, first.stdout)
        self.assertIn("searched 1, compiled ", first.stdout)
        self.assertIn("NVRTC loaded", first.stdout)
        self.assertEqual(first.stderr, "")
        self.assertLess(first.stdout.count("\n"), 50)
        second = self.sinter("run", "--target", "h200", CHAIN)
        self.assertIn("searched 0, compiled 0, plan hits 1,", second.stdout)
        self.assertIn("NVRTC not loaded", second.stdout)

    def test_without_a_gpu_one_line_says_so(self):
        result = self.sinter("run", "--json", "--no-reference", CHAIN)
        if json.loads(result.stdout)["gpu"]:
            self.skipTest("there is a GPU")
        result = self.sinter("run", CHAIN)
        self.assertEqual(result.stdout.count("no GPU was found"), 1)
        self.fails("needs a GPU", "tune", CHAIN, expect=UNAVAILABLE)

    def test_json_is_one_document(self):
        run = json.loads(self.sinter("run", "--target", "h200", "--json", CHAIN).stdout)
        self.assertEqual(run["m"], 20)
        self.assertEqual(run["bucket"], 32)
        self.assertEqual(len(run["digest"]), 64)
        self.assertGreater(run["reference"]["output_rms"][0], 0)
        self.assertTrue(run["counters"]["nvrtc_loaded"])
        plan = json.loads(self.sinter("plan", "--target", "h200", "--json", CHAIN).stdout)
        self.assertEqual(plan["digest"], run["digest"])
        self.assertIsInstance(plan["plan"], dict)
        self.assertIsInstance(plan["chain"], dict)
        self.assertEqual(plan["counters"]["searched"], 0)
        device = json.loads(self.sinter("device", "--target", "h100", "--json").stdout)
        self.assertEqual(device["model"]["name"], "h100")
        self.assertFalse(device["gpu"])
        self.assertEqual(json.loads(self.sinter("version", "--json").stdout)["version"], 100)

    def test_a_chain_comes_from_a_file_by_id(self):
        path = os.path.join(PROBLEMS, "gemm_chains.txt")
        for arguments in (["--file", path, "G1"], [path, "--id", "G1"], ["--file", path, "--id", "G1"]):
            run = self.sinter("run", "--target", "h200", "--json", "--no-reference", *arguments)
            self.assertTrue(json.loads(run.stdout)["chain"].startswith("G1 gemm_chain m=128 n=512 k=32 l=256"))
        self.fails('no problem is called "G11"', "run", "--file", path, "G11")
        self.fails('did you mean "G1"?', "run", "--file", path, "G11")
        self.fails("which problem? give one of G1 G2", "run", path)

    def test_a_dumped_chain_is_replayed(self):
        dump = os.path.join(self.cache, "dump")
        os.environ["SINTER_DUMP"] = dump
        self.addCleanup(os.environ.pop, "SINTER_DUMP")
        environment = dict(os.environ, SINTER_CACHE_DIR=self.cache)
        first = subprocess.run([SINTER, "plan", "--target", "h200", "--json", CHAIN], env=environment,
                               capture_output=True, text=True, timeout=60)
        if first.returncode == UNAVAILABLE:
            self.skipTest(first.stderr)
        folder = os.path.join(dump, os.listdir(dump)[0])
        self.assertIn("kernel0.cu", os.listdir(folder))
        replay = self.sinter("run", "--target", "h200", "--json", "-m", "20", os.path.join(folder, "chain.json"))
        self.assertEqual(json.loads(replay.stdout)["digest"], json.loads(first.stdout)["digest"])
        self.assertEqual(json.loads(replay.stdout)["counters"]["searched"], 0)
        self.fails("the chain leaves m open: give --m", "plan", "--target", "h200", os.path.join(folder, "chain.json"))

    def test_plan_explains_and_shows_source(self):
        text = self.sinter("plan", "--target", "h200", CHAIN).stdout
        self.assertIn("predicted", text)
        source = self.sinter("plan", "--target", "h200", "--source", CHAIN).stdout
        self.assertIn("__global__", source)
        unfused = json.loads(self.sinter("run", "--target", "h200", "--choice", "unfused", "--json", "--no-reference",
                                         CHAIN).stdout)
        self.assertEqual(unfused["chosen"], "unfused")
        self.fails("kernel is 9, the plan has", "plan", "--target", "h200", "--source", "--kernel", "9", CHAIN)

    def test_must_hit_fails_cold_and_serves_warm(self):
        cold = self.sinter("run", "--target", "h200", "--must-hit", CHAIN, expect=FAILED)
        self.assertIn("CACHE_MISS", cold.stderr)
        self.sinter("plan", "--target", "h200", CHAIN)
        self.sinter("run", "--target", "h200", "--must-hit", "--no-reference", CHAIN)

    def test_cache_verbs(self):
        self.assertIn("is empty", self.sinter("cache", "ls").stdout)
        self.sinter("plan", "--target", "h200", CHAIN)
        records = json.loads(self.sinter("cache", "ls", "--json").stdout)["records"]
        self.assertEqual(records[0]["kind"], "plan")
        stat = json.loads(self.sinter("cache", "stat", "--json").stdout)
        self.assertEqual(stat["plans"] + stat["kernels"], len(records))
        self.assertEqual(stat["unsound"], 0)
        self.sinter("cache", "verify")
        for folder, _, files in os.walk(os.path.join(self.cache, "v1", "obj")):
            for name in files:
                path = os.path.join(folder, name)
                os.chmod(path, 0o600)
                with open(path, "r+b") as record:
                    record.seek(100)
                    byte = record.read(1)
                    record.seek(100)
                    record.write(bytes([byte[0] ^ 1]))
        broken = self.sinter("cache", "verify", expect=FAILED)
        self.assertIn("unsound; each is a miss", broken.stderr)
        self.assertIn("would remove %d records" % len(records), self.sinter("cache", "clear").stdout)
        self.assertIn("removed %d records" % len(records), self.sinter("cache", "clear", "--yes").stdout)
        self.assertIn("is empty", self.sinter("cache", "ls").stdout)

    def test_help_for_every_verb(self):
        for arguments in ([], ["run"], ["plan"], ["tune"], ["device"], ["cache"], ["version"], ["cache", "ls"],
                          ["cache", "stat"], ["cache", "clear"], ["cache", "verify"]):
            self.assertIn("--help", self.sinter(*arguments, "--help").stdout)
        self.assertTrue(self.sinter("--version").stdout.startswith("sinter 0."))

    def test_errors_are_one_line_that_helps(self):
        self.fails("a command is needed: run, plan, tune, device, cache, version")
        self.fails('unknown command "rnu"; did you mean "run"?', "rnu")
        self.fails('unknown option "--jsn"; did you mean "--json"?', "run", "--jsn")
        self.fails('unexpected argument "extra"', "version", "extra")
        self.fails('did you mean "gemm_chain"?', "plan", CHAIN.replace("gemm_chain", "gem_chain"))
        self.fails("no chain given", "run")
        self.fails("no file is called so", "run", "no_such_chain")
        self.fails("act", "plan", CHAIN.replace("act=relu", "act=rleu"))
        self.fails("cannot read /no/such/file", "run", "--file", "/no/such/file", "S1")
        self.fails('did you mean "h200"?', "device", "--target", "h20")
        self.fails("--choice", "plan", "--choice", "quick", CHAIN)
        self.fails("cache: a command is needed", "cache")
        self.fails("--m", "run", "-m", "-3", CHAIN)

    def test_bad_json_names_the_place(self):
        path = os.path.join(self.cache, "bad.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"schema": 99}')
        self.fails(path, "run", path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
