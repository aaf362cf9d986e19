#!/usr/bin/env python3
"""The sinter command from outside: output, errors, JSON, exit statuses. Usage: cli_test.py SINTER SOURCE."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

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

    def test_plan_shows_drawing_levels_losers_and_constants(self):
        lines = self.sinter("plan", "--target", "h200", CHAIN).stdout.splitlines()
        text = "\n".join(lines)
        for part in ("C = relu(A W1)", "E = C W2", "+---v---", "shared memory ", "ring ", "<- bound",
                     "not measured (sinter tune measures)", "bound by", "searched", "hbm_bytes_per_us",
                     "cp.async.bulk read stream"):
            self.assertIn(part, text)
        self.assertNotIn("not taken", text)
        losers = [line for line in lines if line.startswith("  ") and " us  " in line and line.strip()[0].isdigit()]
        self.assertEqual(len(losers), 10, text)
        self.assertEqual(text.count("\nnot chosen:"), 1)
        self.assertLess(lines.index("not chosen:"), 64, "the plan itself is more than a screen")

    def test_plan_json_carries_the_explanation(self):
        plan = json.loads(self.sinter("plan", "--target", "h200", "--json", CHAIN).stdout)["explanation"]
        self.assertEqual(plan["schema"], 1)
        for kernel in plan["kernels"]:
            self.assertEqual([level["level"] for level in kernel["levels"]],
                             ["hbm", "l2", "intake", "shared", "tensor", "dsm", "fixed"])
            self.assertEqual(sum(level["bound"] for level in kernel["levels"]), 1)
        self.assertEqual(len(plan["runners_up"]), 10)
        names = [loser["name"] for loser in plan["runners_up"]]
        self.assertEqual(len(set(names)), len(names))
        self.assertTrue(all(constant["source"] for constant in plan["model"]["constants"]))

    def test_plan_draws_svg(self):
        path = os.path.join(self.cache, "plan.svg")
        for choice in ("fused", "unfused"):
            self.sinter("plan", "--target", "h200", "--choice", choice, "--svg", path, CHAIN)
            root = xml.etree.ElementTree.parse(path).getroot()
            self.assertEqual(root.tag, "{http://www.w3.org/2000/svg}svg")
            words = " ".join(root.itertext())
            for part in (choice + " plan", "E = C W2", "consumer warpgroups", "the bound", "ring stage"):
                self.assertIn(part, words)
        self.fails("cannot write", "plan", "--target", "h200", "--svg", "/no/such/folder/plan.svg", CHAIN, expect=FAILED)

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

    def tuning_set(self, name, body=""):
        """A set's file as the library writes it."""
        text = "sinter tuning set 1\n" + body
        path = os.path.join(self.cache, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "sha256 " + hashlib.sha256(text.encode()).hexdigest() + "\n")
        return path

    def tuning_entry(self, chain):
        digest = hashlib.sha256(chain.encode()).hexdigest()
        return ("chain %s m 16 chip %s flags 0\n  on h200 sm_90a 132 SMs\n  plan fused\n  schedule any\n"
                "  kernel %s\n  predicted_us 4\n  measured_us 4.25\n  untuned_us 4.5\n  device NVIDIA H200\n"
                "  driver CUDA 13.0\n  seed 7\n  error 0.0024\n  bytes 00\n" % (digest, digest, digest))

    def test_a_tuning_set_is_chosen_by_name_and_shows(self):
        path = self.tuning_set("set.txt")
        plain = json.loads(self.sinter("plan", "--target", "h200", "--json", CHAIN).stdout)
        tuned = json.loads(self.sinter("plan", "--target", "h200", "--json", "--tuning-set", path, CHAIN).stdout)
        self.assertNotEqual(tuned["digest"], plain["digest"])
        self.assertEqual(tuned["counters"]["searched"], 1)
        with open(path, encoding="utf-8") as file:
            digest = file.read().split()[-1]
        text = self.sinter("plan", "--target", "h200", "--tuning-set", path, CHAIN).stdout
        self.assertIn("tuning: " + digest[:16], text)
        self.assertIn("tuning: none", self.sinter("plan", "--target", "h200", "--tuning-set", "", CHAIN).stdout)
        for name, why in (("none.txt", "cannot be opened"), ("damaged.txt", "damaged")):
            bad = os.path.join(self.cache, name)
            if why == "damaged":
                shutil.copy(path, bad)
                with open(bad, "r+b") as file:
                    file.seek(60)
                    file.write(b"~")
            for command in (["plan", CHAIN], ["tune", CHAIN], ["device"]):
                self.fails("tuning set " + bad + ": " + why, *command, "--target", "h200", "--tuning-set", bad)

    def test_ranks_that_read_one_tuning_set_agree(self):
        path = self.tuning_set("set.txt")
        environment = dict(os.environ, SINTER_CACHE_DIR=self.cache, SINTER_TUNING_SET=path)
        ranks = [subprocess.Popen([SINTER, "plan", "--target", "h200", "--json", CHAIN], env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(8)]
        results = [rank.communicate(timeout=60) for rank in ranks]
        if any(rank.returncode == UNAVAILABLE for rank in ranks):
            self.skipTest(results[0][1])
        self.assertEqual({rank.returncode for rank in ranks}, {DONE}, results)
        self.assertEqual(len({json.loads(out)["digest"] for out, _ in results}), 1)

    def test_tuning_sets_are_merged_into_a_new_file(self):
        entries = sorted(self.tuning_entry(chain) for chain in ("one", "two", "three"))
        first, second = self.tuning_set("1.txt", "".join(entries[:2])), self.tuning_set("2.txt", "".join(entries[1:]))
        out = os.path.join(self.cache, "out.txt")
        with open(first, "rb") as file:
            before = file.read()
        result = self.sinter("tune", "--base", first, "--base", second, "--out", out)
        with open(out, encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(text, open(self.tuning_set("want.txt", "".join(entries)), encoding="utf-8").read())
        self.assertIn("3 entries, digest " + text.split()[-1], result.stdout)
        with open(first, "rb") as file:
            self.assertEqual(file.read(), before)
        merged = json.loads(self.sinter("tune", "--json", "--base", out, "--out", out).stdout)
        self.assertEqual(merged["set"], {"path": out, "entries": 3, "digest": text.split()[-1]})
        self.fails("--keep needs --base", "tune", "--keep", CHAIN)
        self.fails("no chain given", "tune", "--out", out)
        self.fails("cannot be opened", "tune", "--base", "/no/such/set", "--out", out)
        self.fails("cannot be written", "tune", "--base", out, "--out", "/no/such/folder/set")
        self.fails("--margin", "tune", "--margin", "-1", CHAIN)

    def test_several_json_files_are_several_chains(self):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../bench/problems/stitch")
        files = [os.path.join(folder, name + ".json") for name in ("dien_gru_cell", "crnn_lstm_cell")]
        warm = json.loads(self.sinter("warm", "--target", "h200", "--json", *files).stdout)
        self.assertEqual(warm["plans"], 2)
        self.fails("needs a GPU", "tune", "--target", "h200", *files, expect=UNAVAILABLE)
        self.fails("no file is called so", "plan", "--target", "h200", *files)

    def test_tune_takes_a_whole_list(self):
        path = os.path.join(self.cache, "list.txt")
        with open(path, "w", encoding="utf-8") as file:
            file.write("# none\n")
        self.fails("holds no problem", "tune", "--file", path)
        with open(path, "w", encoding="utf-8") as file:
            file.write("A " + CHAIN + "\nB " + CHAIN.replace("m=20", "m=M") + "\n")
        self.fails("leaves m open", "tune", "--file", path)
        self.fails("needs a GPU", "tune", "--target", "h200", "-m", "4", "--file", path, expect=UNAVAILABLE)

    def test_help_for_every_verb(self):
        for arguments in ([], ["run"], ["plan"], ["tune"], ["device"], ["cache"], ["version"], ["cache", "ls"],
                          ["cache", "stat"], ["cache", "clear"], ["cache", "verify"]):
            self.assertIn("--help", self.sinter(*arguments, "--help").stdout)
        self.assertTrue(self.sinter("--version").stdout.startswith("sinter 0."))

    def test_errors_are_one_line_that_helps(self):
        self.fails("a command is needed: run, plan, tune, warm, device, cache, version")
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
