#!/usr/bin/env python3
"""The sinter command without memory, and without a place for its output: one line, an exit status, never a signal.

Usage: cli_memory_test.py SINTER FAILING_NEW. Allocations of each verb fail one by one: a sample of them, with
SINTER_TEST_LONG=1 all.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import unittest

SINTER, FAILING_NEW = sys.argv[1], sys.argv[2]
CHAIN = "softmax rows=16 cols=64 dtype=bf16".split()
UNAVAILABLE = 3
SAMPLES = 12  # allocations of a verb that fail, spread over all of them
LONG = os.environ.get("SINTER_TEST_LONG") == "1"


class Memory(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="sinter-memory-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.cache = os.path.join(cls.folder, "cache")
        made = cls.run_sinter(["plan", "--target", "h200", *CHAIN])
        cls.has_compiler = made.returncode == 0

    @classmethod
    def run_sinter(cls, arguments, cache=None, preexec=None, stdout=subprocess.PIPE, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SINTER_") or k == "SINTER_NVRTC"}
        environment.update(SINTER_CACHE_DIR=cache or cls.cache, **variables)
        return subprocess.run([SINTER, *arguments], env=environment, stdout=stdout, stderr=subprocess.PIPE, text=True,
                              timeout=120, preexec_fn=preexec)

    def one_line(self, result, what):
        self.assertGreaterEqual(result.returncode, 0, f"{what}: signal {-result.returncode}: {result.stderr}")
        if result.returncode == 0:
            return
        lines = result.stderr.splitlines()  # the library may have warned of what it did without
        self.assertTrue(lines and lines[-1].startswith("sinter: "), f"{what}: {result.stderr}")
        self.assertNotIn("terminate", result.stderr, what)

    def verbs(self):
        target = ["--target", "h200"]
        pack, other = os.path.join(self.folder, "p.pack"), os.path.join(self.folder, "other")
        hit = [*target, "--must-hit", *CHAIN]
        yield "version", ["version"]
        yield "help", ["--help"]
        yield "nonsense", ["plam"]
        yield "device", ["device", *target]
        yield "tune", ["tune", *target, *CHAIN]
        for verb in ("ls", "stat", "verify"):
            yield f"cache {verb}", ["cache", verb, "--json"]
        yield "cache export", ["cache", "export", *target, pack]
        yield "cache import", ["cache", "import", "--unsigned", "--cache-dir", other, pack]
        yield "cache stat PACK", ["cache", "stat", "--unsigned", pack]
        yield "cache trim", ["cache", "trim", "--max", "1GiB", "--cache-dir", other]
        yield "cache clear", ["cache", "clear"]
        if not self.has_compiler:
            return
        yield "run", ["run", *hit]
        yield "plan", ["plan", *hit]
        yield "plan --json", ["plan", "--json", *hit]
        yield "plan --source", ["plan", "--source", *hit]
        yield "warm", ["warm", *target, *CHAIN]

    def test_each_verb_ends_with_a_line_whichever_allocation_fails(self):
        count_file = os.path.join(self.folder, "count")
        for name, arguments in self.verbs():
            self.run_sinter(arguments, LD_PRELOAD=FAILING_NEW, FAILING_NEW_COUNT=count_file)
            with open(count_file, encoding="utf-8") as file:
                count = int(file.read())
            self.assertGreater(count, 10, name)
            step = 1 if LONG else max(1, count // SAMPLES)
            failed = 0
            for at in [*range(min(3, count)), *range(step // 2, count, step)]:
                result = self.run_sinter(arguments, LD_PRELOAD=FAILING_NEW, FAILING_NEW_AT=str(at))
                self.one_line(result, f"{name}, allocation {at} of {count}")
                failed += result.returncode != 0
            self.assertGreater(failed, 0, name)

    def test_nothing_is_left_half_made(self):
        verify = self.run_sinter(["cache", "verify", "--json"])
        self.assertEqual(verify.returncode, 0, verify.stderr)
        if self.has_compiler:
            self.assertEqual(self.run_sinter(["plan", "--target", "h200", "--must-hit", *CHAIN]).returncode, 0)

    def test_when_no_memory_comes_back_the_line_still_comes(self):
        for arguments in (["version"], ["cache", "ls", "--json"], ["plan", "--json", "--target", "h200", *CHAIN]):
            for at in (5, 200):
                result = self.run_sinter(arguments, LD_PRELOAD=FAILING_NEW, FAILING_NEW_AT=str(at),
                                         FAILING_NEW_ON="1")
                self.one_line(result, f"{arguments} from allocation {at} on")

    def test_operands_that_no_machine_has_are_refused(self):
        for rows in ((1 << 31) - 1, 1 << 25):
            result = self.run_sinter(["run", "--target", "h200", "--json", "gemm_chain", f"m={rows}", "n=128", "k=65536", "l=128",
                                      "act=relu", "layout=oi", "dtype=bf16"])
            self.one_line(result, f"{rows} rows")
            self.assertEqual(result.returncode, UNAVAILABLE, result.stderr)
            json.loads(result.stdout)

    def test_a_limited_address_space_is_no_signal(self):
        for megabytes in (48, 64, 96, 160, 256):
            def limit(bytes_=megabytes << 20):
                resource.setrlimit(resource.RLIMIT_AS, (bytes_, bytes_))
            for arguments in (["version"], ["plan", "--target", "h200", *CHAIN], ["run", "--target", "h200", *CHAIN]):
                result = self.run_sinter(arguments, cache=os.path.join(self.folder, f"small{megabytes}"), preexec=limit)
                if "error while loading shared libraries" in result.stderr:
                    continue  # main never began
                self.one_line(result, f"{arguments} in {megabytes} MiB")

    def test_json_tells_an_error_as_a_document(self):
        for arguments in (["plan", "--json", "--target", "h200", "softmax", "rows=-1", "cols=64", "dtype=bf16"],
                          ["plan", "--json", "--target", "nothing", *CHAIN], ["plan", "--json", "--nonsense"],
                          ["cache", "stat", "--json", "/nonexistent.pack"]):
            result = self.run_sinter(arguments)
            self.assertNotEqual(result.returncode, 0)
            error = json.loads(result.stdout)["error"]
            self.assertEqual(error["exit"], result.returncode)
            self.assertEqual("sinter: " + error["message"] + "\n", result.stderr)

    def test_output_that_cannot_be_written_is_a_failure(self):
        for arguments in (["version"], ["--help"], ["plan", "--target", "h200", *CHAIN], ["cache", "ls", "--json"]):
            with open("/dev/full", "w", encoding="utf-8") as full:
                result = self.run_sinter(arguments, stdout=full)
            if not self.has_compiler and arguments[0] == "plan":
                continue
            self.assertEqual(result.returncode, 1, f"{arguments}: {result.stderr}")
            self.assertIn("standard output could not be written", result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
