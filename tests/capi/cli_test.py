#!/usr/bin/env python3
"""The sinter command from outside: output, errors, JSON, exit statuses. Usage: cli_test.py SINTER SOURCE [FAKE_LIBCUDA FAKE_NVML_FOLDER]."""

import fcntl
import hashlib
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import unittest
import xml.etree.ElementTree

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from no_compiler import end_without_compiler

SINTER, SOURCE = sys.argv[1], sys.argv[2]
FAKE_DRIVER = sys.argv[3] if len(sys.argv) > 3 else ""
FAKE_NVML = sys.argv[4] if len(sys.argv) > 4 else ""
PROBLEMS = os.path.join(SOURCE, "tests", "bench", "problems")
CHAIN = "gemm_chain m=20 n=256 k=64 l=64 act=relu layout=oi dtype=bf16"
DONE, FAILED, USAGE, UNAVAILABLE = 0, 1, 2, 3


class Cli(unittest.TestCase):
    def setUp(self):
        self.cache = tempfile.mkdtemp(prefix="sinter-cli-")
        self.addCleanup(shutil.rmtree, self.cache, ignore_errors=True)

    def sinter(self, *arguments, expect=DONE, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SINTER_") or k == "SINTER_NVRTC"}
        environment["SINTER_CACHE_DIR"] = self.cache
        environment.update(variables)
        result = subprocess.run([SINTER, *arguments], env=environment, capture_output=True, text=True, timeout=60)
        if result.returncode == UNAVAILABLE and expect == DONE:
            end_without_compiler(result.stderr.strip())
        if expect is not None:
            self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result

    def fails(self, message, *arguments, expect=USAGE, **variables):
        result = self.sinter(*arguments, expect=expect, **variables)
        if "--json" in arguments:
            self.assertIn(message, json.loads(result.stdout)["error"]["message"])
        else:
            self.assertEqual(result.stdout, "")
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertTrue(result.stderr.startswith("sinter: "), result.stderr)
        self.assertIn(message, result.stderr)

    def test_run_shows_the_chain_the_plan_the_execution_and_the_counters(self):
        first = self.sinter("run", "--target", "h200", *CHAIN.split())
        self.assertTrue(first.stdout.startswith(CHAIN + " bias1=0 bias2=0\n"), first.stdout)
        for part in ("m<=32", "predicted", "prepared in", "summed over threads: search", "compile", "reference executor:", "output 0 rms 0."):
            self.assertIn(part, first.stdout)
        self.assertIn("searched 1, compiled ", first.stdout)
        self.assertIn("NVRTC loaded", first.stdout)
        self.assertEqual(first.stderr, "")
        self.assertLess(first.stdout.count("\n"), 50)
        second = self.sinter("run", "--target", "h200", CHAIN)
        self.assertIn("searched 0, compiled 0, plan hits 1,", second.stdout)
        self.assertIn("NVRTC not loaded", second.stdout)

    def test_a_small_file_that_asks_for_2_to_the_40_elements_is_refused_at_once(self):
        path = os.path.join(self.cache, "chain.json")
        for rows, m, bound in ((1 << 20, [], "GiB of float64 values are held"), ("M", ["-m", str(1 << 20)], "operations, 1.76e+13 of them at op 2 (exp")):
            dims, sums = [rows, 1 << 20], [rows]
            chain = {"schema": 1, "inputs": [{"id": 0, "dtype": "f32", "dims": [1]}],
                     "ops": [{"id": 1, "op": "broadcast", "in": [0], "dtype": "f32", "dims": dims},
                             {"id": 2, "op": "unary", "in": [1], "kind": "exp", "dtype": "f32", "dims": dims},
                             {"id": 3, "op": "reduce", "in": [2], "kind": "sum", "axes": [1], "dtype": "f32", "dims": sums}],
                     "outputs": [{"value": 3}]}
            with open(path, "w", encoding="utf-8") as file:
                json.dump(chain, file)
            refused = self.sinter("run", "--target", "h200", *m, path, expect=None)
            if "no NVRTC" in refused.stderr:
                end_without_compiler(refused.stderr.strip())
            self.assertEqual(refused.returncode, UNAVAILABLE, refused.stderr)
            self.assertIn("reference: ", refused.stderr)
            self.assertIn(bound, refused.stderr)

    def test_without_a_gpu_one_line_says_so(self):
        result = self.sinter("run", "--json", "--no-reference", CHAIN)
        if json.loads(result.stdout)["gpu"]:
            self.skipTest("there is a GPU")
        result = self.sinter("run", CHAIN)
        self.assertEqual(result.stdout.count("no GPU was found"), 1)
        self.fails("needs a GPU", "tune", CHAIN, expect=UNAVAILABLE)

    def test_a_trace_tells_where_the_time_went(self):
        trace = os.path.join(self.cache, "trace.%p.json")
        self.sinter("plan", "--target", "h200", CHAIN, SINTER_TRACE=trace)
        written = [name for name in os.listdir(self.cache) if name.startswith("trace.")]
        self.assertEqual(len(written), 1)
        self.assertRegex(written[0], r"^trace\.\d+\.json$")
        with open(os.path.join(self.cache, written[0]), encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        spans = [event for event in events if event["ph"] == "X"]
        self.assertEqual({span["name"] for span in spans} - {"wait for lock"},
                         {"prepare", "look up plan", "search", "generate", "look up kernel", "compile"})
        whole = next(span for span in spans if span["name"] == "prepare")
        self.assertRegex(whole["args"]["detail"], r"^chain [0-9a-f]{16}, m <= 32$")
        for span in spans:
            self.assertGreaterEqual(span["ts"], whole["ts"])
            self.assertLessEqual(span["ts"] + span["dur"], whole["ts"] + whole["dur"] + 0.01)
        failed = self.sinter("plan", "--target", "h200", CHAIN, SINTER_TRACE="/nonexistent/trace")
        self.assertIn("trace: create /nonexistent/trace: No such file", failed.stderr)

    def test_log_lines_as_json(self):
        result = self.sinter("plan", "-v", "--target", "h200", CHAIN, SINTER_LOG_FORMAT="json", SINTER_CAHCE="\"x\"")
        lines = [json.loads(line) for line in result.stderr.splitlines()]
        self.assertEqual(lines[-1].keys() ^ {"time", "level", "process", "logger", "message"}, set())
        self.assertTrue(any(line["level"] == "warn" and "SINTER_CAHCE" in line["message"] for line in lines))
        self.assertTrue(any(line["level"] == "info" and line["message"].startswith("compiled ") for line in lines))

    def doctor(self, *arguments, **variables):
        result = self.sinter("doctor", "--json", *arguments, expect=None, **variables)
        said = json.loads(result.stdout)
        self.assertEqual(said["exit"], result.returncode, result.stderr)
        for check in said["checks"]:
            self.assertTrue(check["status"] == "ok" or check["way_out"] or check["check"] == "warning", check)
        return said, {check["check"]: check for check in said["checks"]}

    def test_doctor_of_a_machine_that_compiles_for_others(self):
        said, checks = self.doctor("--target", "h200")
        if checks["compiler"]["status"] != "ok":
            end_without_compiler(checks["compiler"]["found"])
        self.assertEqual(said["exit"], DONE, said)
        self.assertEqual({check["status"] for check in checks.values()}, {"ok"})
        self.assertRegex(checks["prepare"]["found"], r"^\d+ ms cold \(summed over threads: search \d+, compile \d+\), [\d.]+ ms warm$")
        self.assertIn(self.cache, checks["cache"]["found"])
        self.assertTrue(any("libc.so" in library for library in said["libraries"]))
        _, checks = self.doctor("--target", "h200")
        self.assertTrue(checks["records"]["found"].startswith("0 plans, 0 kernels"), "the proof leaves nothing behind")
        lines = self.sinter("doctor", "--target", "h200").stdout.splitlines()
        self.assertEqual([line[6:].split()[0] for line in lines], list(checks))

    def test_doctor_names_bad_and_unknown_variables_all_at_once(self):
        said, _ = self.doctor(SINTER_LOG="loud", SINTER_CACHE="maybe", SINTER_CAHCE="off", SINTER_REMOTE_KEY="geheim",
                              SINTER_REMOTE="redis://me:geheim@host")
        found = [(check["status"], check["found"]) for check in said["checks"] if check["check"] == "variable"]
        self.assertEqual([status for status, _ in found], ["fail", "fail", "warn"], found)
        for part, (_, line) in zip(("SINTER_CACHE=\"maybe\"", "SINTER_LOG=\"loud\"", "did you mean SINTER_CACHE?"), found):
            self.assertIn(part, line)
        self.assertEqual(said["exit"], FAILED)
        self.assertNotIn("geheim", json.dumps(said))

    def test_doctor_of_what_is_missing_or_cannot_be_written(self):
        said, checks = self.doctor("--target", "h200", SINTER_NVRTC="/nonexistent/libnvrtc.so")
        self.assertEqual((said["exit"], checks["compiler"]["status"]), (UNAVAILABLE, "fail"))
        self.assertIn("SINTER_NVRTC", checks["compiler"]["way_out"])
        self.assertNotIn("prepare", checks)
        os.chmod(self.cache, 0o777)
        said, checks = self.doctor("--target", "h200", SINTER_NVRTC="/nonexistent/libnvrtc.so")
        self.assertIn("chmod go-w", checks["cache"]["way_out"])
        self.assertEqual((said["exit"], checks["records"]["status"]), (FAILED, "fail"))
        _, checks = self.doctor("--target", "h200", SINTER_CACHE="off")
        self.assertEqual(checks["cache"]["status"], "warn")
        model = os.path.join(self.cache, "model")
        _, checks = self.doctor("--target", "h200", SINTER_DEVICE_MODEL=model)
        self.assertEqual(checks["model"]["status"], "fail")

    def test_doctor_writes_what_can_be_sent_of_a_chip(self):
        path = os.path.join(self.cache, "report.json")
        _, checks = self.doctor("--target", "a100", "--report", path)
        if checks["compiler"]["status"] != "ok":
            end_without_compiler(checks["compiler"]["found"])
        self.assertEqual(checks["prepare"]["status"], "ok", "the proof is a chain that such a chip takes")
        with open(path) as file:
            text = file.read()
        chip = json.loads(text)["chip"]
        self.assertEqual((chip["context"]["model"]["arch"], chip["context"]["model"]["products"]), ("sm_80", False))
        self.assertTrue(chip["compiler"].startswith("nvrtc-"))
        self.assertEqual(len(chip["chains"]), 12)
        for chain in chip["chains"]:
            self.assertNotIn("error", chain)
            self.assertNotIn("right", chain, "without a GPU nothing ran")
            if "e4m3" in chain["chain"]:
                self.assertIn("run only on chips from sm_89 on, device model a100 is sm_80", chain["refused"])
            else:
                self.assertGreater(chain["predicted_us"], 0, chain)
        self.assertNotIn(self.cache, text)
        self.assertNotIn("libnvrtc", text)
        self.fails("/no/such/report.json", "doctor", "--target", "a100", "--report", "/no/such/report.json")

    @unittest.skipUnless(FAKE_DRIVER, "no driver without a GPU was built")
    def test_doctor_reports_of_a_gpu_that_computes_nothing(self):
        path = os.path.join(self.cache, "report.json")
        _, checks = self.doctor("--report", path, SINTER_LIBCUDA=FAKE_DRIVER)
        if checks["compiler"]["status"] != "ok":
            end_without_compiler(checks["compiler"]["found"])
        with open(path) as file:
            chains = json.load(file)["chip"]["chains"]
        self.assertEqual([chain["right"] for chain in chains], [False] * 12)

    # Machine code runs on every driver of the compiler's CUDA major version; PTX only on one that is as new.
    @unittest.skipUnless(FAKE_DRIVER, "no driver without a GPU was built")
    def test_doctor_asks_whether_the_driver_takes_what_is_compiled(self):
        model = self.sinter("device", "--target", "a100", "--model").stdout
        ptx = self.write("ptx.model", model.replace("arch = sm_80\n", "arch = compute_80\n"))
        checks = self.doctor("--target", "h200")[1]
        if checks["compiler"]["status"] != "ok":
            end_without_compiler(checks["compiler"]["found"])
        major, minor = map(int, re.match(r"nvrtc-(\d+)\.(\d+)", checks["compiler"]["found"]).groups())
        own, older, newer = (1000 * a + 10 * b for a, b in ((major, minor), (major - 1, 9), (major, minor + 1)))
        for cuda, of_ptx, status in ((own, False, "ok"), (own, True, "ok"), (newer, True, "ok"), (older, False, "fail"),
                                     (older, True, "fail")):
            variables = {"SINTER_DEVICE_MODEL": ptx} if of_ptx else {}
            found = self.doctor(SINTER_LIBCUDA=FAKE_DRIVER, FAKE_CUDA=str(cuda), **variables)[1]["compiler"]
            self.assertEqual(found["status"], status, (cuda, of_ptx, found))
            if status == "fail":
                self.assertIn("a driver runs %s of its own CUDA version" % ("PTX" if of_ptx else "code"), found["way_out"])

    @unittest.skipUnless(FAKE_DRIVER, "no driver without a GPU was built")
    def test_doctor_sees_a_gpu_that_computes_nothing(self):
        said, checks = self.doctor(SINTER_LIBCUDA=FAKE_DRIVER)
        if checks["compiler"]["status"] != "ok":
            end_without_compiler(checks["compiler"]["found"])
        self.assertIn(FAKE_DRIVER, checks["driver"]["found"])
        self.assertIn("NVIDIA H200; model h200", checks["gpu"]["found"])
        self.assertEqual((said["exit"], checks["launch"]["status"]), (FAILED, "fail"))
        self.assertIn("a WRONG result", checks["launch"]["found"])

    def doctor_with_nvml(self, told):
        path = ":".join(filter(None, (FAKE_NVML, os.environ.get("LD_LIBRARY_PATH"))))
        return self.doctor(SINTER_LIBCUDA=FAKE_DRIVER, LD_LIBRARY_PATH=path, FAKE_NVML=told)[1]

    @unittest.skipUnless(FAKE_NVML, "no driver without a GPU was built")
    def test_doctor_asks_nvml_for_what_slows_a_gpu_down(self):
        checks = self.doctor_with_nvml("0 0 1 345 1980 1980 1")
        self.assertEqual([checks[name]["status"] for name in ("mig", "persist", "clocks")], ["ok"] * 3)
        self.assertEqual(checks["clocks"]["found"], "345 of 1980 MHz, applications get 1980 MHz")
        self.assertEqual(checks["mig"]["found"], "off")

        checks = self.doctor_with_nvml("1 0 0 900 1980 1500 36")
        self.assertEqual([checks[name]["status"] for name in ("mig", "persist", "clocks")], ["warn"] * 3)
        self.assertEqual(checks["mig"]["found"], "on; off after a reset")
        self.assertIn("sinter device --measure", checks["mig"]["way_out"])
        self.assertIn("nvidia-smi -i 0000:3b:00.0 -pm 1", checks["persist"]["way_out"])
        self.assertEqual(checks["clocks"]["found"],
                         "900 of 1980 MHz, applications get 1500 MHz, slowed down by the power cap, heat")
        self.assertIn("nvidia-smi -i 0000:3b:00.0 -rac; look at", checks["clocks"]["way_out"])

        checks = self.doctor_with_nvml("-1 -1 -1 900 1980 -1 -1")
        self.assertNotIn("mig", checks)
        self.assertNotIn("persist", checks)
        self.assertEqual(checks["clocks"]["found"], "900 of 1980 MHz")

    def test_a_failure_has_its_fields_as_json(self):
        failed = self.sinter("plan", "--json", "--target", "h200", "gated_ffn m=M n=0 k=64 l=64 act=silu", expect=USAGE)
        error = json.loads(failed.stdout)["error"]
        self.assertEqual((error["field"], error["value"], error["bound"]), ("n", "0", "an integer in [1, 2^31 - 1]"))
        self.assertNotIn("op", error)
        path = os.path.join(self.cache, "chain.json")
        chain = {"schema": 1, "inputs": [{"id": 0, "dtype": "f32", "dims": ["M", 64]}],
                 "ops": [{"id": 1, "op": "reduce", "in": [0], "kind": "sum", "axes": [7], "keepdims": False, "dtype": "f32", "dims": ["M"]}],
                 "outputs": [{"value": 1}]}
        with open(path, "w") as file:
            json.dump(chain, file)
        error = json.loads(self.sinter("plan", "--json", "--target", "h200", path, expect=USAGE).stdout)["error"]
        self.assertEqual((error["op"], error["field"], error["value"], error["bound"]), (1, "axis", "7", "in [0, 1]"))

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
            end_without_compiler(first.stderr)
        folder = os.path.join(dump, os.listdir(dump)[0])
        self.assertIn("kernel0.cu", os.listdir(folder))
        replay = self.sinter("run", "--target", "h200", "--json", "-m", "20", os.path.join(folder, "chain.json"))
        self.assertEqual(json.loads(replay.stdout)["digest"], json.loads(first.stdout)["digest"])
        self.assertEqual(json.loads(replay.stdout)["counters"]["searched"], 0)
        self.fails("the chain leaves m open: give --m", "plan", "--target", "h200", os.path.join(folder, "chain.json"))

    def test_plan_explains_and_shows_source(self):
        text = self.sinter("plan", "--target", "h200", CHAIN).stdout
        self.assertIn("predicted", text)
        self.assertNotIn("batch-invariant", text)
        invariant = self.sinter("plan", "--target", "h200", "--batch-invariant", CHAIN).stdout
        self.assertIn("  batch-invariant\n", invariant)
        source = self.sinter("plan", "--target", "h200", "--source", CHAIN).stdout
        self.assertIn("__global__", source)
        unfused = json.loads(self.sinter("run", "--target", "h200", "--choice", "unfused", "--json", "--no-reference",
                                         CHAIN).stdout)
        self.assertEqual(unfused["chosen"], "partly fused")  # a kernel for each product: the first takes the activation
        self.fails('--kernel: "9" is not an integer from 0 to 0', "plan", "--target", "h200", "--source", "--kernel", "9", CHAIN)

    def test_plan_shows_drawing_levels_losers_and_constants(self):
        lines = self.sinter("plan", "--target", "h200", CHAIN).stdout.splitlines()
        text = "\n".join(lines)
        for part in ("c = relu(a w1)", "out = c w2", "+---v---", "shared memory", "ring ", "<- bound",
                     "(sinter tune measures it)", "bound by", "searched"):
            self.assertIn(part, text)
        self.assertNotIn("not taken", text)
        self.assertNotIn("hbm_bytes_per_us", text)
        self.assertEqual(len(self.losers(lines)), 3, text)
        self.assertEqual(text.count("\nrunners-up, the first 3 of 10"), 1)
        self.assertLess(len(lines), 60, "the plan is more than a screen")
        whole = self.sinter("plan", "-v", "--target", "h200", CHAIN).stdout
        for part in ("every runner-up:", "hbm_bytes_per_us", "cp.async.bulk read stream", "Measured on one card"):
            self.assertIn(part, whole)
        self.assertEqual(len(self.losers(whole.partition("every runner-up:")[2].splitlines())), 10)

    def losers(self, lines):
        return [line for line in lines if re.match(r" +\d+ +[0-9.]+ us  ", line)]

    def test_a_plan_of_many_kernels_is_short_too(self):
        line = "products m=48 k=512 n=512,512,512,512,512 act=relu"
        text = self.sinter("plan", "--target", "h200", "--choice", "unfused", line).stdout
        self.assertIn("sinter plan -v draws each kernel", text)
        self.assertNotIn("+---v---", text)
        self.assertLess(text.count("\n"), 60)
        whole = self.sinter("plan", "-v", "--target", "h200", "--choice", "unfused", line).stdout
        self.assertEqual(whole.count("<- bound"), len(re.findall(r"^kernel \d+  product", whole, re.M)))
        self.assertIn("alike: kernels 1, 2, 3, 4\n", whole)
        self.assertNotIn("unfused", text)

    # A stitched kernel: overlapping and serial times add up to the prediction.
    def test_plan_of_a_stitched_kernel_adds_up(self):
        graph = os.path.join(PROBLEMS, "stitch", "dien_gru_cell.json")
        text = self.sinter("plan", "--target", "h200", graph).stdout
        self.assertIn("plan  without M  predicted", text)
        self.assertIn("\n1 kernel: ", text)
        self.assertNotIn("m<=", text)
        self.assertIn("(cast f32, slice)", text)
        for line in ("softmax rows=128 cols=4096", graph):
            text = self.sinter("plan", "--target", "h200", line).stdout
            self.assertNotIn("not measured", text)
            us = {name: float(value) for name, value in
                  re.findall(r"^  (hbm|l2|issue|latency|together|fixed) +([0-9.]+) \|", text, re.M)}
            self.assertEqual(sorted(us.keys() - {"l2"}), ["fixed", "hbm", "issue", "latency", "together"])
            total = float(re.search(r"together \+ fixed: predicted ([0-9.]+) us", text).group(1))
            self.assertAlmostEqual(us["together"] + us["fixed"], total, delta=0.011)
            parts = us["hbm"] + us.get("l2", 0), us["issue"], us["latency"]
            self.assertAlmostEqual(us["together"], sum(part ** 4 for part in parts) ** 0.25, delta=0.02 + us["together"] * 0.05)
            self.assertEqual(text.count("<- bound"), 1)
            losers = re.findall(r"^ +\d+ +[0-9.]+ us  (.*\n(?: {17}.*\n)+)", text, re.M)
            self.assertEqual(len(losers), 3)
            for loser in losers:
                self.assertRegex(loser, r"\[.*block \d+")
                self.assertRegex(loser, r"slower: |predicted equal|less than 0.01 us slower")
        self.assertIn("%0 (broadcast) block", self.sinter("plan", "--target", "h200", "softmax rows=128 cols=4096").stdout)
        json_levels = json.loads(self.sinter("plan", "--target", "h200", "--json", graph).stdout)["explanation"]["kernels"][0]
        us = {level["level"]: level["us"] for level in json_levels["levels"]}
        self.assertAlmostEqual(us["together"] + us["fixed"], json_levels["predicted_us"])

    def test_plan_json_carries_the_explanation(self):
        plan = json.loads(self.sinter("plan", "--target", "h200", "--json", CHAIN).stdout)["explanation"]
        self.assertEqual(plan["schema"], 3)
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
            kernels = "1 kernel" if choice == "fused" else "2 kernels"
            for part in ("plan of " + kernels, kernels + ": ", "out = ", "consumer warpgroups", ", bound", "ring"):
                self.assertIn(part, words)
        self.fails("cannot write /dev/null/plan.svg: Not a directory", "plan", "--target", "h200", "--svg", "/dev/null/plan.svg", CHAIN)
        alone = self.sinter("plan", "--target", "h200", "--choice", "unfused", "--svg", "-", CHAIN).stdout
        with open(path, encoding="utf-8") as drawn:
            self.assertEqual(alone, drawn.read())
        for other in ("--source", "--json"):
            self.fails("--svg - excludes --source and --json", "plan", "--target", "h200", "--svg", "-", other, CHAIN)

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
        self.assertEqual(records[0]["what"], "gemm_chain n=256 k=64 l=64 act=relu layout=oi dtype=bf16")
        self.assertEqual((records[0]["m"], records[0]["device"]), (32, "h200"))
        self.assertTrue(all(record["kind"] == "kernel" and record["device"] == "sm_90a" for record in records[1:]))
        self.assertTrue(all(re.match(r"product: \w+ n=.*\[.*\]$", record["what"]) for record in records[1:]), records)
        lines = self.sinter("cache", "ls").stdout.splitlines()
        self.assertEqual(len(lines), len(records))
        self.assertRegex(lines[0], r"^plan   [0-9a-f]{16}  m<=32 +h200 +\d+ s +[0-9.]+ \w+  gemm_chain n=256")
        self.assertRegex(lines[1], r"^kernel [0-9a-f]{16} .*, not verified$")
        stat = json.loads(self.sinter("cache", "stat", "--json").stdout)
        self.assertEqual(stat["plans"] + stat["kernels"], len(records))
        self.assertEqual(stat["unsound"], 0)
        verdict = self.sinter("cache", "verify").stdout
        self.assertIn("read every byte of %d records" % len(records), verdict)
        self.assertIn("%d sound: 1 plan, %d kernel" % (len(records), len(records) - 1), verdict)
        self.assertNotEqual(verdict, self.sinter("cache", "stat").stdout)
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
        self.assertRegex(broken.stderr, r"unsound: \d+ records?; each is a miss until")
        self.assertRegex(broken.stdout, r"(?m)^ +[1-9]\d* unsound: a miss until it is built again$")
        self.assertIn("would remove %d records" % len(records), self.sinter("cache", "clear").stdout)
        self.assertIn("removed %d records" % len(records), self.sinter("cache", "clear", "--yes").stdout)
        self.assertIn("is empty", self.sinter("cache", "ls").stdout)

    def test_the_cache_takes_no_options_that_would_do_nothing(self):
        for command in (("ls",), ("stat",), ("verify",), ("clear",), ("trim", "--max", "1"), ("import", "a.pack"),
                        ("export", "a.pack"), ("push",)):
            self.fails('unknown option "--device"', "cache", *command, "--device", "0")
            for option, value in (("--target", "h200"), ("--tuning-set", "")):
                # An export may plan a chain, and a push lists the records for a model.
                if command[0] != "export" and (command[0], option) != ("push", "--target"):
                    self.fails('unknown option "%s"' % option, "cache", *command, option, value)

    def test_commands_that_look_make_no_folder(self):
        missing = os.path.join(self.cache, "mistyped")
        for command in (("ls",), ("stat",), ("verify",), ("push",), ("export", os.path.join(self.cache, "a.pack"))):
            self.fails(missing + ": no such folder", "cache", *command, "--cache-dir", missing)
            self.assertFalse(os.path.exists(missing), command)

    def test_cache_ls_lists_the_store(self):
        self.sinter("plan", "--target", "h200", CHAIN)
        records = json.loads(self.sinter("cache", "ls", "--json").stdout)["records"]
        self.assertGreater(len(records), 1)
        self.assertTrue(all(record["what"] and record["created"] > 0 for record in records), records)

    def tuning_set(self, name, body=""):
        """A set's file as the library writes it."""
        text = "sinter tuning set 2\n" + body
        path = os.path.join(self.cache, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text + "sha256 " + hashlib.sha256(text.encode()).hexdigest() + "\n")
        return path

    def tuning_entry(self, chain):
        digest = hashlib.sha256(chain.encode()).hexdigest()
        return ("chain %s m 16 chip %s flags 0\n  on h200 sm_90a 132 SMs\n  plan fused\n  schedule any\n"
                "  kernel %s\n  predicted_us 4\n  measured_us 4.25\n  untuned_us 4.5\n  device NVIDIA H200\n"
                "  driver CUDA 13.0\n  seed 7\n  error 0.0024\n  record 00\n" % (digest, digest, digest))

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
            end_without_compiler(results[0][1])
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
        self.fails("cannot write /dev/null/set", "tune", "--base", out, "--out", "/dev/null/set")
        self.fails("--margin", "tune", "--margin", "-1", CHAIN)

    def test_several_json_files_are_several_chains(self):
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../bench/problems/stitch")
        files = [os.path.join(folder, name + ".json") for name in ("dien_gru_cell", "crnn_lstm_cell")]
        warm = json.loads(self.sinter("warm", "--target", "h200", "--json", *files).stdout)
        self.assertEqual(warm["plans"], 2)
        self.fails("needs a GPU", "tune", "--target", "h200", *files, expect=UNAVAILABLE)
        self.fails('dien_gru_cell.json" is a file, and "', "plan", "--target", "h200", *files)

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
        self.fails('unknown command "rnu"; did you mean "run"?', "rnu")
        self.fails('unknown option "--jsn"; did you mean "--json"?', "run", "--jsn")
        self.fails('unexpected argument "extra"', "version", "extra")
        self.fails("did you mean gemm_chain?", "plan", CHAIN.replace("gemm_chain", "gem_chain"))
        self.fails("no chain given", "run")
        self.fails("no_such_chain: no kind of chain and no file is called so", "run", "no_such_chain")
        self.fails("chains/no_such.json: no such file", "run", "chains/no_such.json")
        self.fails("act", "plan", CHAIN.replace("act=relu", "act=rleu"))
        self.fails("cannot read /no/such/file", "run", "--file", "/no/such/file", "S1")
        self.fails('did you mean "h200"?', "device", "--target", "h20")
        self.fails("--choice", "plan", "--choice", "quick", CHAIN)
        self.fails("--m", "run", "-m", "-3", CHAIN)

    def write(self, name, text):
        path = os.path.join(self.cache, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def test_a_target_is_a_model_or_refused(self):
        model = self.sinter("device", "--target", "h200", "--model").stdout
        good = self.write("good.model", model)
        self.assertIn("device: h200", self.sinter("device", "--target", good).stdout)
        self.fails('"" names no device model', "device", "--target", "")
        self.fails(self.cache + "/ is a folder, not a file", "device", "--target", self.cache + "/")
        self.fails("cannot read /no/such/model: No such file", "device", "--target", "/no/such/model")
        for text in ("", "h200\n"):
            path = self.write("empty.model", text)
            self.fails(path + ' has no line "key = value"', "device", "--target", path)
        other = self.write("other.model", model.replace("arch = sm_90a", "arch = sm_75"))
        self.fails('device model h200: arch = "sm_75", must be sm_90a, or, for stitched kernels and products only,', "plan", "--target", other, CHAIN)
        self.fails("--device excludes --target", "device", "--device", "0", "--target", "h200")
        bare = self.write("bare.model", model.replace(" [measured]", ""))
        self.fails("has no provenance, must end in [measured]", "plan", "--target", bare, CHAIN)

    def test_measuring_is_for_gpus(self):
        self.fails("--measure needs a GPU: ", "device", "--measure", expect=UNAVAILABLE, SINTER_LIBCUDA="/no/such/libcuda.so")
        self.fails("--target excludes --measure", "device", "--measure", "--target", "h200")
        self.fails("--model excludes --measure", "device", "--measure", "--model")

    def test_figures_say_where_they_come_from(self):
        self.assertRegex(self.sinter("device", "--target", "h100").stdout, r"\nlaunch_us = [\d.]+ \[measured from h200\]\n")
        described = json.loads(self.sinter("device", "--target", "h100", "--json").stdout)
        self.assertEqual(set(described["model"]) - set(described["provenance"]), {"name", "arch", "measured", "products"})
        self.assertEqual(described["model"]["launch_us"], 0.62)
        plan = self.sinter("plan", "-v", "--target", "h200", CHAIN).stdout
        self.assertRegex(plan, r"stitch_read_us +0.5 us +fitted: 650 schedules")

    def test_numbers_are_taken_whole_or_refused_with_their_bounds(self):
        for value in ("nan", "inf", "1e300", "-1", "5s"):
            for option, verb in (("--deadline", "plan"), ("--budget", "tune")):
                self.fails('%s: "%s" is not a number from 0 to 1000000000' % (option, value), verb, option + "=" + value, CHAIN)
        self.fails('--margin: "nan" is not a number from 0 to 10', "tune", "--margin", "nan", CHAIN)
        for value in ("-1", "18446744073709551616", "1.5", "0x10"):
            self.fails('--seed: "%s" is not an integer from 0 to 18446744073709551615' % value, "run", "--seed=" + value, CHAIN)
        self.fails('--m: "2147483648" is not an integer from 0 to 2147483647', "run", "-m", "2147483648", CHAIN)
        self.fails('--top-k: "0" is not an integer from 1', "tune", "--top-k", "0", CHAIN)
        self.fails('--jobs: "257" is not an integer from 1 to 256', "warm", "--jobs", "257", CHAIN)
        self.fails('--max: "1x" is not a size such as', "cache", "trim", "--max", "1x")
        self.fails('--max: "0" is not a size of at least 1 byte', "cache", "trim", "--max", "0")
        self.sinter("cache", "trim", "--max", "2GiB")
        self.fails("deadline passed", "plan", "--target", "h200", "--deadline", "1e-7", CHAIN, expect=FAILED)  # not none
        self.fails('--kernel: "7" is not an integer from 0 to ', "plan", "--target", "h200", "--source", "--kernel", "7", CHAIN)
        first, last = (json.loads(self.sinter("run", "--target", "h200", "--json", "--seed", seed, CHAIN).stdout)
                       for seed in ("18446744073709551614", "18446744073709551615"))
        self.assertNotEqual(first["reference"]["output_rms"], last["reference"]["output_rms"])

    def test_words_and_paths_are_refused_with_what_is_allowed(self):
        self.fails('--choice: "fast" is not one of best, fused, unfused', "plan", "--choice", "fast", CHAIN)
        for option, verb in (("--out", "tune"), ("--base", "tune"), ("--svg", "plan"), ("--file", "run"), ("--use-pack", "run"),
                             ("--pack", "warm")):
            self.fails('%s: "" is not a path' % option, verb, option, "", CHAIN)
        self.fails('"--top-k=" has no value', "tune", "--top-k=", "3", CHAIN)
        self.fails('--cache-dir ""', "plan", "--cache-dir=", CHAIN)

    def test_help_states_the_bounds_of_every_number(self):
        shown = self.sinter("tune", "--help").stdout
        for bounds in ("--budget FLOAT:0..1000000000", "--top-k INT:1..2147483647", "--margin FLOAT:0..10", "-m,--m INT:0..2147483647"):
            self.assertIn(bounds, shown)
        for verb in ("run", "plan", "tune", "search", "warm", "device", "doctor"):
            self.assertNotRegex(self.sinter(verb, "--help").stdout, r" (INT|UINT|FLOAT)(?!:)")

    def test_lists_are_as_long_as_the_products(self):
        line = "products m=8 k=64 n=64,64 act=%s"
        self.fails("act has 3 items, n has 2", "plan", "--target", "h200", line % "relu,relu,relu")
        self.fails("bias has 2 items, n has 1", "plan", "--target", "h200", "products m=8 k=64 n=64 bias=1,1")
        self.assertIn("act=relu gated", self.sinter("plan", "--target", "h200", line % "relu,relu").stdout)

    def test_a_file_is_read_or_refused(self):
        path = self.write("list.txt", "A " + CHAIN + "\n")
        self.fails('"%s" is a file, and "gemm_chain" follows it' % path, "plan", "--target", "h200", path,
                   *CHAIN.split())
        chain = self.write("chain.json", "{}")
        self.fails("is one chain in JSON", "plan", "--file", chain, "A")
        self.fails("is one chain in JSON", "plan", "--id", "A", chain)
        empty = self.write("empty.txt", "")
        for arguments in ([], ["--id", "A"], ["A"]):
            self.fails(empty + " holds no problem", "run", "--file", empty, *arguments)
        self.fails(empty + " holds no problem", "warm", "--file", empty)
        nameless = self.write("nameless.txt", CHAIN + "\n")
        self.fails("none of its problems has an id", "run", "--file", nameless)
        self.fails("none of its problems has an id", "run", "--file", nameless, "A")
        self.fails(self.cache + " is a folder, not a file", "run", "--file", self.cache)
        large = os.path.join(self.cache, "large.txt")
        with open(large, "wb") as file:
            file.truncate((64 << 20) + 1)
        self.fails(large + " has more than 64 MiB", "run", "--file", large)

    # 3 is for what the machine lacks; what the caller gave is 2.
    def test_input_errors_are_usage_errors(self):
        self.fails("there is no other to share its kernel with", "plan", "--target", "h200", "--choice", "fused", "matmul m=64 n=512 k=512")
        path = self.write("none.json", '{"schema": 1, "inputs": [{"dtype": "f32", "dims": [4]}], "ops": [], "outputs": []}')
        self.fails(path, "plan", "--target", "h200", path)

        for verb in (["ls"], ["stat"], ["verify"], ["clear"], ["trim", "--max", "1G"]):
            result = self.sinter("cache", *verb, "--cache-dir", "/dev/null/x", expect=None)
            self.assertIn(result.returncode, (DONE, USAGE), verb)
        self.assertIn("is a folder, not a file", self.sinter("cache", "export", self.cache, expect=USAGE).stderr)

    def test_options_that_would_do_nothing_are_refused(self):
        self.fails("--kernel requires --source", "plan", "--target", "h200", "--kernel", "0", CHAIN)
        self.fails("excludes", "plan", "--target", "h200", "--source", "--json", CHAIN)
        self.fails("--sign requires --pack", "warm", "--target", "h200", "--sign", "key.pem", CHAIN)
        graph = os.path.join(PROBLEMS, "stitch", "dien_gru_cell.json")
        for verb in (["plan"], ["run"], ["warm"], ["tune"]):
            self.fails("--m is 5, but no extent of the chain is M", *verb, "--target", "h200", "-m", "5", graph)
        for option in ("--must-hit", "--verify", "--choice=best", "--deadline=1"):
            self.fails('unknown option "%s"' % option.split("=")[0], "tune", option, CHAIN)
        self.fails("would do nothing", "tune", "--base", "a", "--out", "b", "-m", "3")
        self.fails("need a chain or --file", "cache", "export", os.path.join(self.cache, "p"), "-m", "3")

    def test_variables_are_read_or_named(self):
        quiet = self.sinter("device", "--target", "h200", SINTER_CACHE_MAX_BYTES="2GiB", SINTER_LOG="off",
                            SINTER_MODULE_CACHE_BYTES="64M")
        self.assertEqual(quiet.stderr, "")
        slip = self.sinter("device", "--target", "h200", SINTER_CAHCE="1")
        self.assertEqual(slip.stderr, "sinter: environment: no variable is called SINTER_CAHCE; did you mean SINTER_CACHE?\n")
        self.assertEqual(self.sinter("device", "--target", "h200", SINTER_CAHCE="1", SINTER_LOG="off").stderr, "")
        self.fails('SINTER_CACHE_MAX_BYTES="2Gb3" is not a size such as', "device", "--target", "h200",
                   SINTER_CACHE_MAX_BYTES="2Gb3")

    def test_control_characters_do_not_reach_the_terminal(self):
        raw = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\x80-\x9f\u202a-\u202e]")
        evil = "\x1b]0;x\x07\x7f\u009b31m\u202e"
        path = self.write(evil + ".json", "{}")
        for arguments in ([evil], ["--id", evil, "x"], ["--file", "/no/" + evil], ["--" + evil], [path],
                          ["--target", "/no/" + evil], ["--cache-dir", "/dev/null/" + evil, CHAIN]):
            result = subprocess.run([SINTER, "plan", *arguments], env=dict(os.environ, SINTER_CACHE_DIR=self.cache),
                                    capture_output=True, text=True, timeout=60)
            self.assertIsNone(raw.search(result.stderr), repr(result.stderr))
            self.assertIsNone(raw.search(result.stdout), repr(result.stdout))
        logged = self.sinter("device", "--target", "h200", **{"SINTER_" + evil: "1"}).stderr
        self.assertIsNone(raw.search(logged), repr(logged))
        self.assertIn("SINTER_\\x1b]0;x", logged)
        folder = os.path.join(self.cache, "v1", "plan", "00")
        self.sinter("plan", "--target", "h200", CHAIN)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with open(os.path.join(folder, "0" * 62 + ".bad"), "w", encoding="utf-8") as tombstone:
            tombstone.write("why " + evil)
        for arguments in (["verify"], ["verify", "--json"], ["ls"], ["stat"]):
            result = self.sinter("cache", *arguments)
            self.assertIsNone(raw.search(result.stdout), repr(result.stdout))

    def test_a_denied_toolchain_is_one_line(self):
        self.sinter("plan", "--target", "h200", CHAIN)
        version = self.sinter("plan", "--target", "h200", "-v", "matmul m=8 n=64 k=64").stderr
        for deny in re.findall(r"nvrtc-(\d+\.\d+)", version)[:1] or ["13.0"]:
            result = subprocess.run([SINTER, "plan", "--target", "h200", CHAIN.replace("n=256", "n=320")],
                                    env=dict(os.environ, SINTER_CACHE_DIR=self.cache, SINTER_DENY_TOOLCHAINS=deny),
                                    capture_output=True, text=True, timeout=60)
            if result.returncode == DONE:
                self.skipTest("the compiler is another one")
            self.assertEqual(result.returncode, USAGE)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
            self.assertIn('is denied ("%s")' % deny, result.stderr)

    def test_help_explains_commands_and_kinds(self):
        kinds = re.findall(r"^  (\w+) +\S", self.sinter("help").stdout.split("Kinds of chains")[1], re.M)
        self.assertIn("gemm_chain", kinds)
        self.assertEqual(len(kinds), 48)
        for kind in kinds:
            text = self.sinter("help", kind).stdout
            self.assertTrue(text.startswith(kind + ": "), text)
            keys = re.findall(r"^  (\w+) ", text.split("keys:\n")[1], re.M)
            self.fails("key is bogus, must be one of " + " ".join(keys) + "\n", "plan", kind + " bogus=1")
            example = re.search(r"^example: (.*)$", text, re.M).group(1)
            if kind in ("gemm_chain", "products", "masked_softmax", "rope"):
                self.sinter("run", "--target", "h200", "--no-reference", example)
        self.assertIn("--source", self.sinter("help", "plan").stdout)
        self.assertIn("Usage: sinter cache ls", self.sinter("help", "cache", "ls").stdout)
        self.assertEqual(self.sinter("help").stdout, self.sinter("--help").stdout)
        self.assertIn("Exit status: 0 done", self.sinter("help").stdout)
        self.fails('did you mean "gemm_chain"?', "help", "gem_chain")

    # A batch on a terminal of 40 columns: every line that is shown fits and none wraps.
    def test_progress_fits_the_terminal(self):
        path = os.path.join(PROBLEMS, "gemm_chains.txt")
        command = [SINTER, "warm", "--target", "h200", "--file", path, "--json", "--jobs", "1", "-m", "8,16,32,64"]
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SINTER_") or k == "SINTER_NVRTC"}
        environment["SINTER_CACHE_DIR"] = self.cache
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        shown = b""
        while shown.count(b"\r\x1b[K") < 4:
            try:
                shown += os.read(ours, 4096)
            except OSError:  # it ended
                break
        process.kill()
        os.close(ours)
        if process.wait() == UNAVAILABLE:
            end_without_compiler(shown.decode(errors="replace"))
        self.assertGreaterEqual(shown.count(b"\r\x1b[K"), 4, shown)
        lines = [line for line in shown.decode().split("\r\x1b[K")[:-1] if line]
        self.assertTrue(all(len(line) <= 39 for line in lines), lines)
        self.assertTrue(any(re.match(r" *\d+ % \[#*\.*\] \d+/", line) for line in lines), lines)

    def test_a_group_alone_prints_its_help(self):
        self.assertEqual(self.sinter("cache").stdout, self.sinter("cache", "--help").stdout)
        self.assertEqual(self.sinter().stdout, self.sinter("--help").stdout)
        self.fails('unknown command "lss"; did you mean "ls"?', "cache", "lss")

    def test_verbose_is_taken_before_and_behind_a_command(self):
        for arguments in (["-v", "plan"], ["plan", "-v"], ["plan", "--verbose"]):
            told = self.sinter(*arguments, "--target", "h200", "--cache-dir", "", CHAIN)
            self.assertIn("compiled ", told.stderr)
            self.assertIn("constants of the device model h200", told.stdout)
        for arguments in (["-v", "cache", "ls"], ["cache", "-v", "ls"], ["cache", "ls", "-v"]):
            self.sinter(*arguments)
        self.assertEqual(self.sinter("--help").stdout.count("-v,--verbose"), 1)
        self.assertNotIn("  -v,--verbose", self.sinter("plan", "--help").stdout)
        self.fails("version: --verbose would do nothing", "-v", "version")
        self.fails("help: --verbose would do nothing", "help", "-v", "plan")

    def test_a_gpu_that_is_asked_for_by_number_has_no_substitute(self):
        none = {"SINTER_LIBCUDA": "/no/such/libcuda.so"}
        for verb in (["run", CHAIN], ["plan", CHAIN], ["tune", CHAIN], ["warm", CHAIN], ["device"]):
            self.fails("--device 3: no CUDA driver", verb[0], "--device", "3", *verb[1:], expect=UNAVAILABLE, **none)
        self.sinter("plan", CHAIN, **none)
        if FAKE_DRIVER:  # it has one
            self.fails("device ordinal 3", "run", "--device", "3", CHAIN, expect=USAGE, SINTER_LIBCUDA=FAKE_DRIVER)

    @unittest.skipUnless(FAKE_DRIVER, "no driver without a GPU was built")
    def test_a_device_model_file_is_called_so(self):
        path = os.path.join(self.cache, "none.model")
        self.fails("device model file %s: open: No such file" % path, "device", SINTER_LIBCUDA=FAKE_DRIVER, SINTER_DEVICE_MODEL=path)
        self.fails("device model file %s: not a regular file" % self.cache, "device", SINTER_LIBCUDA=FAKE_DRIVER,
                   SINTER_DEVICE_MODEL=self.cache)

    def test_a_chip_of_another_generation_is_told_why(self):
        self.fails('no device model "b300"; built in: h200, h100, a100,', "plan", "--target", "b300", CHAIN)
        self.fails("kernels of convolutions run only on Hopper (sm_90a: H100, H200, GH200), device model b200 is sm_100: leave it to another "
                   "library", "plan", "--target", "b200", "conv b=4 ic=64 h=8 w=8 oc=64 k=3")

    def test_words_that_people_say_are_understood_or_explained(self):
        for word, hint in (("ffn", "did you mean gated_ffn or gemm_chain?"), ("mlp", "did you mean gated_ffn or gemm_chain?"),
                           ("linear", "did you mean matmul?"), ("swish", "an activation: matmul .. act=silu; did you mean silu?"),
                           ("gelu_tanh", "an activation: matmul .. act=gelu_tanh")):
            self.fails("kind is %s" % word, "plan", word + " m=4 n=64 k=64")
            self.fails(hint, "plan", word + " m=4 n=64 k=64")
        self.fails("did you mean gelu_tanh or gelu_erf?", "plan", CHAIN.replace("act=relu", "act=gelu"))
        self.fails("did you mean silu?", "plan", CHAIN.replace("act=relu", "act=swish"))
        self.fails("did you mean rows?", "plan", "gelu m=4 cols=64")
        self.fails('unknown command "gelu", a kind of chain: sinter run gelu ..', "gelu")

    def test_only_files_are_read_and_written(self):
        fifo, link, line = os.path.join(self.cache, "fifo"), os.path.join(self.cache, "link"), CHAIN
        os.mkfifo(fifo)
        os.symlink(fifo, link)
        for path in (fifo, link):
            self.fails(path + ' is a pipe, not a file ("-" is standard input)', "plan", "--target", path, line)
            self.fails(path + ' is a pipe, not a file ("-" is standard input)', "plan", "--file", path)
            self.fails(path + " is a pipe, not a file", "plan", path)
            self.fails(path + ' is a pipe, not a file ("-" is standard output)', "plan", "--target", "h200", "--svg", path, line)
            for option in (["tune", "--out"], ["tune", "--base"], ["plan", "--tuning-set"], ["plan", "--pack-keys"],
                           ["warm", "--pack", path + "2", "--sign"], ["warm", "--pack"]):
                refused = self.sinter(*option, path, "--target", "h200", line, expect=USAGE)
                self.assertRegex(refused.stderr, "is a pipe|not a regular file", option)
            for verb in ("ls", "stat", "verify", "import", "export"):
                refused = self.sinter("cache", verb, path, expect=USAGE)
                self.assertRegex(refused.stderr, "is a pipe|not a regular file", verb)
        self.fails("/dev/zero is a device, not a file", "plan", "--target", "/dev/zero", line)
        self.fails(self.cache + " is a folder, not a file", "plan", self.cache)
        self.fails(self.cache + " is a folder, not a file", "plan", "--target", "h200", "--svg", self.cache, line)

    def test_a_dash_is_standard_input(self):
        environment = dict(os.environ, SINTER_CACHE_DIR=self.cache)
        def plan(text, *arguments):
            return subprocess.run([SINTER, "plan", "--json", *arguments], env=environment, input=text, capture_output=True, text=True,
                                  timeout=60, check=False)
        listed = plan("A " + CHAIN + "\n", "--target", "h200", "--file", "-", "A")
        if listed.returncode == UNAVAILABLE:
            end_without_compiler(listed.stderr)
        self.assertTrue(json.loads(listed.stdout)["text"].startswith("A gemm_chain"))
        described = json.dumps(json.loads(listed.stdout)["chain"])
        told = plan(described, "--target", "h200", "--file", "-", "-m", "20")
        self.assertEqual(json.loads(told.stdout)["digest"], json.loads(listed.stdout)["digest"])
        named = plan(described, "--target", "h200", "--file", "-", "A")
        self.assertIn('"A" names a problem, but standard input is one chain in JSON', named.stderr)
        open_m = plan(described, "--target", "h200", "--file", "-")
        self.assertIn("the chain leaves m open: give --m", open_m.stderr)
        model = self.sinter("device", "--target", "h100", "--model").stdout
        self.assertEqual(json.loads(plan(model, "--target", "-", CHAIN).stdout)["device"], "h100")

    # JSON is known by its text, whatever a file is called.
    def test_a_json_file_may_have_any_name(self):
        listed = self.sinter("plan", "--target", "h200", "--json", CHAIN)
        chain = self.write("chain.saved", "\n " + json.dumps(json.loads(listed.stdout)["chain"]))
        for arguments in ([chain], ["--file", chain]):
            told = self.sinter("plan", "--target", "h200", "--json", "-m", "20", *arguments).stdout
            self.assertEqual(json.loads(told)["digest"], json.loads(listed.stdout)["digest"])
        self.assertIn("2 of 2 plans prepared", self.sinter("warm", "--target", "h200", "-m", "20", chain, chain).stdout)
        lines = self.write("lines.json", CHAIN)
        self.fails(lines + ": ", "plan", "--target", "h200", lines)
        self.fails("other is not a chain in JSON", "warm", "--target", "h200", "-m", "20", chain, self.write("other", CHAIN))

    def test_words_that_are_no_pairs_are_named(self):
        self.fails("gated_ffn: word is 128, must be key=value with a key of m n k l act", "plan", "gated_ffn", "128", "n=64")
        self.fails("gated_ffn: word is m, must be key=value", "plan", "gated_ffn", "m", "=", "128")

    def test_a_kind_prints_its_keys(self):
        for arguments in (["gated_ffn", "--help"], ["gated_ffn", "m=8", "-h"]):
            self.assertEqual(self.sinter(*arguments).stdout, self.sinter("help", "gated_ffn").stdout)

    def test_targets_are_known_in_either_case(self):
        self.assertEqual(json.loads(self.sinter("device", "--target", "H200", "--json").stdout)["model"]["name"], "h200")
        for target in ("b300", "/no/such.model", "", self.write("no.model", "nothing")):
            refused = self.sinter("device", "--target", target, expect=USAGE)
            self.assertIn("h200, h100", refused.stderr)

    def test_a_chain_that_no_kernel_takes_is_a_wrong_question(self):
        self.fails("NO_LEGAL_PLAN: ", "plan", "--target", "h200", "matmul m=8 n=64 k=64 dtype=f32")

    # A bad key or place is reported before anything is compiled.
    def test_keys_and_places_are_checked_before_the_work(self):
        key = os.path.join(self.cache, "nokey.pem")
        pack = os.path.join(self.cache, "a.pack")
        for text, why in ((None, "No such file"), ("no key", "not an unencrypted Ed25519 private key")):
            if text is not None:
                os.chmod(self.write("nokey.pem", text), 0o600)
            self.fails("key file %s: " % key, "warm", "--target", "h200", "--pack", pack, "--sign", key, CHAIN)
            self.fails(why, "cache", "export", pack, "--sign", key)
        self.fails("--use-pack: cannot read %s: No such file" % pack, "plan", "--target", "h200", "--use-pack", pack, CHAIN)
        self.fails("--use-pack: %s is a folder" % self.cache, "plan", "--target", "h200", "--use-pack", self.cache, CHAIN)
        self.fails("cannot write /no/such/a.pack: No such file", "warm", "--target", "h200", "--pack", "/no/such/a.pack", CHAIN)
        self.fails("cannot write /no/such/set: No such file", "tune", "--out", "/no/such/set", CHAIN)
        self.fails("cannot write /no/such/plan.svg: No such file", "plan", "--target", "h200", "--svg", "/no/such/plan.svg", CHAIN)
        stat = json.loads(self.sinter("cache", "stat", "--json").stdout)
        self.assertEqual((stat["plans"], stat["kernels"]), (0, 0))
        self.assertFalse(os.path.exists(pack))

    def test_one_is_singular(self):
        self.sinter("plan", "--target", "h200", "softmax rows=8 cols=96")
        pack = os.path.join(self.cache, "one.pack")
        self.assertIn(": 1 plan, 1 kernel (", self.sinter("cache", "stat").stdout)
        self.assertRegex(self.sinter("cache", "export", pack).stdout, r": 1 plan, 1 kernel, \d+ bytes, not signed")
        self.assertIn(": 1 plan, 1 kernel (", self.sinter("cache", "stat", pack, "--unsigned").stdout)
        warm = self.sinter("warm", "--target", "h200", "softmax rows=8 cols=96").stdout
        self.assertIn("1 of 1 plan prepared", warm)
        self.assertIn("found 1 plan and 1 kernel", warm)
        checks = self.doctor("--target", "h200")[1]
        self.assertIn("1 plan, 1 kernel (", checks["records"]["found"])
        plan = self.sinter("plan", "--target", "h200", "softmax rows=8 cols=96").stdout
        self.assertIn(" 1 input, 1 output", plan)
        entry = self.tuning_set("1.txt", self.tuning_entry("one"))
        self.assertIn(": 1 entry, digest", self.sinter("tune", "--base", entry, "--out", os.path.join(self.cache, "o")).stdout)

    def test_no_line_is_wider_than_a_terminal(self):
        texts = [self.sinter(*arguments, "--help").stdout for arguments in
                 ([], ["run"], ["plan"], ["tune"], ["warm"], ["device"], ["cache"], ["cache", "export"], ["doctor"])]
        kinds = re.findall(r"^  (\w+) +\S", texts[0].split("Kinds of chains")[1], re.M)
        texts += [self.sinter("help", kind).stdout for kind in kinds]
        s8 = ["--file", os.path.join(PROBLEMS, "gated_ffn.txt"), "S8"]
        texts += [self.sinter(verb, "--target", "h200", *rest, *s8).stdout
                  for verb, *rest in (["plan"], ["plan", "-v"], ["run", "--no-reference"])]
        texts.append(self.sinter("cache", "ls").stdout)
        for text in texts:
            self.assertEqual([line for line in text.splitlines() if len(line) > 120], [])

    # The reference of a large chain takes seconds: a terminal sees how many.
    def test_the_reference_shows_its_time(self):
        ours, theirs = pty.openpty()
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SINTER_") or k == "SINTER_NVRTC"}
        environment["SINTER_CACHE_DIR"] = self.cache
        line = "matmul m=2048 n=8192 k=8192"
        process = subprocess.Popen([SINTER, "run", "--target", "h200", line], env=environment, stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        shown = b""
        while b"reference on the CPU" not in shown:
            try:
                shown += os.read(ours, 4096)
            except OSError:  # it ended
                break
        process.kill()
        os.close(ours)
        if process.wait() == UNAVAILABLE:
            end_without_compiler(shown.decode(errors="replace"))
        self.assertRegex(shown.decode(), r"reference on the CPU.*: \d+ s")

    def test_bad_json_names_the_place(self):
        path = os.path.join(self.cache, "bad.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write('{"schema": 99}')
        self.fails(path, "run", path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
