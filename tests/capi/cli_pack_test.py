#!/usr/bin/env python3
"""sinter warm and the pack verbs of sinter cache, from outside. Usage: cli_pack_test.py SINTER."""

import base64
import json
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import unittest

SINTER = sys.argv[1]
DONE, FAILED, USAGE, UNAVAILABLE = 0, 1, 2, 3
WORKLOAD = """# two chains, one of which leaves m open
first gemm_chain m=20 n=256 k=64 l=64 act=relu layout=oi dtype=bf16
second gemm_chain m=M n=320 k=64 l=64 act=relu layout=oi dtype=bf16
"""
# RFC 8032, section 7.1, test 1.
SEED = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
PUBLIC = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"


def pem(what, head, key):
    body = base64.b64encode(bytes.fromhex(head + key)).decode()
    return "-----BEGIN %s KEY-----\n%s\n-----END %s KEY-----\n" % (what, body, what)


class Packs(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="sinter-cli-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)
        self.workload = self.write("work.txt", WORKLOAD)
        self.secret = self.write("secret.pem", pem("PRIVATE", "302e020100300506032b657004220420", SEED))
        self.public = self.write("public.pem", pem("PUBLIC", "302a300506032b6570032100", PUBLIC))
        self.pack = os.path.join(self.folder, "all.pack")
        self.nvrtc = os.environ.get("SINTER_NVRTC", "")

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o600)
        return path

    def sinter(self, *arguments, cache="cache", nvrtc=None, expect=DONE, **variables):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SINTER_")}
        environment["SINTER_CACHE_DIR"] = os.path.join(self.folder, cache)
        nvrtc = self.nvrtc if nvrtc is None else nvrtc
        if nvrtc:
            environment["SINTER_NVRTC"] = nvrtc
        environment.update(variables)
        result = subprocess.run([SINTER, *arguments], env=environment, capture_output=True, text=True, timeout=100)
        if result.returncode == UNAVAILABLE and expect == DONE and nvrtc == self.nvrtc:
            self.skipTest(result.stderr.strip())
        self.assertEqual(result.returncode, expect, result.stdout + result.stderr)
        return result

    def warm(self, *more, **named):
        return json.loads(self.sinter("warm", self.workload, "--m", "8,64", "--target", "h200", "--json", *more,
                                      **named).stdout)

    def test_a_workload_is_warmed_packed_and_served_without_nvrtc(self):
        cold = self.warm("--pack", self.pack, "--sign", self.secret)
        self.assertEqual((cold["plans"], cold["failed"]), (4, []))
        self.assertEqual(cold["pack"]["plans"], 4)
        self.assertEqual(cold["pack"]["skipped"], 0)
        again = self.warm()
        self.assertEqual((again["counters"]["searched"], again["counters"]["compiled"]), (0, 0))
        # Elsewhere, without a compiler.
        packs = ("--use-pack", self.pack, "--pack-keys", self.public)
        served = self.warm(*packs, cache="elsewhere", nvrtc="/dev/null")
        self.assertEqual(served["failed"], [])
        self.assertEqual(served["counters"]["compiled"], 0)
        self.assertFalse(served["counters"]["nvrtc_loaded"])
        # By the environment alone.
        self.warm(cache="elsewhere", nvrtc="/dev/null", SINTER_PACKS="/no/such.pack:" + self.pack,
                  SINTER_PACK_KEYS=self.public)
        # Without the key, without the pack: nobody can build it.
        self.sinter("warm", self.workload, "--m", "8", "--target", "h200", "--use-pack", self.pack, cache="third",
                    nvrtc="/dev/null", expect=UNAVAILABLE)
        miss = self.sinter("plan", "--target", "h200", "--must-hit", *packs,
                           "gemm_chain m=500 n=320 k=64 l=64 act=relu layout=oi dtype=bf16", cache="third",
                           nvrtc="/dev/null", expect=FAILED)
        self.assertIn("CACHE_MISS", miss.stderr)
        self.assertIn("absent; nearest of 4 plans is", miss.stderr)
        self.assertRegex(miss.stderr, "in %s: bucket is (8|64), want 512" % re.escape(self.pack))
        verified = self.sinter("plan", "--target", "h200", *packs,
                               "gemm_chain m=8 n=320 k=64 l=64 act=relu layout=oi dtype=bf16", cache="third",
                               nvrtc="/dev/null", expect=FAILED, SINTER_MUST_HIT="verified")
        self.assertIn("was never checked on a GPU", verified.stderr)

    # A terminal in place of stderr, and a process that is killed in the middle.
    def test_a_killed_warm_up_shows_a_bar_and_goes_on_where_it_was(self):
        rows = "8,16,32,48,64,96,128,192"
        # A bar is shown after a second: chains that share no kernel take longer.
        workload = self.write("long.txt", "".join(
            "gemm_chain m=M n=%d k=64 l=64 act=relu layout=oi dtype=bf16\n" % n for n in range(256, 640, 64)))
        command = [SINTER, "warm", workload, "--m", rows, "--target", "h200", "--json", "--jobs", "1"]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SINTER_")}
        environment["SINTER_CACHE_DIR"] = os.path.join(self.folder, "cache")
        if self.nvrtc:
            environment["SINTER_NVRTC"] = self.nvrtc
        ours, theirs = pty.openpty()
        process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        shown = b""
        while not re.search(rb"\[#+\.+\] \d+/48", shown):
            ended = process.poll() is not None
            if select.select([ours], [], [], 0.1)[0]:
                try:
                    shown += os.read(ours, 4096)
                except OSError:  # nobody is left at the other end
                    break
            elif ended:
                break
        process.kill()
        os.close(ours)
        code = process.wait()
        if code == UNAVAILABLE:
            self.skipTest(shown.decode(errors="replace").strip())
        self.assertRegex(shown, rb"\r\x1b\[K *\d+ % \[#+\.+\] \d+/48", "exit %d" % code)
        rest = json.loads(self.sinter(*command[1:]).stdout)
        self.assertEqual((rest["plans"], rest["failed"]), (48, []))
        self.assertLess(rest["counters"]["searched"], 48)
        self.assertGreater(rest["counters"]["searched"], 0)
        again = json.loads(self.sinter(*command[1:]).stdout)["counters"]
        self.assertEqual((again["searched"], again["compiled"]), (0, 0))

    # One a processor, fewer where a job's 768 MiB do not fit as often.
    def test_jobs_are_as_many_as_memory_holds(self):
        def fit():
            with open("/proc/meminfo", encoding="ascii") as file:
                free = int(re.search(r"MemAvailable: *(\d+)", file.read()).group(1)) << 10
            try:
                with open("/sys/fs/cgroup/memory.max", encoding="ascii") as limit:
                    with open("/sys/fs/cgroup/memory.current", encoding="ascii") as used:
                        free = min(free, int(limit.read()) - int(used.read()))
            except (OSError, ValueError):  # no control group, or no limit
                pass
            return max(1, min(len(os.sched_getaffinity(0)), free // (768 << 20)))
        before = fit()
        jobs = self.warm()["jobs"]
        self.assertIn(jobs, range(min(before, fit()), max(before, fit()) + 1))
        self.assertEqual(self.warm("--jobs", "3")["jobs"], 3)

    def test_packs_are_looked_at_imported_and_damaged(self):
        self.warm("--pack", self.pack, "--sign", self.secret)
        keys = ("--pack-keys", self.public)
        stat = json.loads(self.sinter("cache", "stat", self.pack, "--json", *keys).stdout)
        self.assertEqual((stat["plans"], stat["signed_by"]), (4, [PUBLIC]))
        self.assertEqual(self.sinter("cache", "ls", self.pack, *keys).stdout.count("\n"), stat["plans"] + stat["kernels"])
        self.sinter("cache", "verify", self.pack, *keys)
        stored = json.loads(self.sinter("cache", "import", self.pack, "--json", *keys, cache="import").stdout)
        self.assertEqual(stored["stored"], stat["plans"] + stat["kernels"])
        local = json.loads(self.sinter("cache", "stat", "--json", cache="import").stdout)
        self.assertEqual((local["plans"], local["kernels"]), (stat["plans"], stat["kernels"]))
        one = os.path.join(self.folder, "one.pack")
        self.sinter("cache", "export", one, "--file", self.workload, "--id", "first", "--m", "8", "--sign", self.secret)
        self.assertEqual(json.loads(self.sinter("cache", "stat", one, "--json", *keys).stdout)["plans"], 1)
        trimmed = json.loads(self.sinter("cache", "trim", "--max", "1KiB", "--json", cache="import").stdout)
        self.assertEqual(trimmed["evicted"], stored["stored"])
        refused = self.sinter("cache", "stat", self.pack, expect=USAGE)
        self.assertIn("signed by none of the 0 trusted keys", refused.stderr)
        for option in ("--pack-keys", "SINTER_PACK_KEYS", "--unsigned", "SINTER_PACKS_UNSIGNED=1"):
            self.assertIn(option, refused.stderr)
        self.sinter("cache", "export", one, "--m", "8", "--file", self.workload, "--id", "first")
        unsigned = self.sinter("cache", "stat", one, *keys, expect=USAGE)
        self.assertIn("--unsigned (SINTER_PACKS_UNSIGNED=1) takes it", unsigned.stderr)
        self.sinter("cache", "stat", one, "--unsigned", *keys)
        self.sinter("cache", "export", one, "--file", self.workload, "--id", "first", "--m", "8", "--sign", self.secret)
        with open(one, "r+b") as file:
            file.seek(200)
            byte = file.read(1)
            file.seek(200)
            file.write(bytes([byte[0] ^ 1]))
        self.assertIn("unsound", self.sinter("cache", "verify", one, *keys, expect=FAILED).stderr)
        os.chmod(self.secret, 0o644)
        readable = self.sinter("cache", "export", one, "--sign", self.secret, expect=USAGE)
        self.assertIn("readable by others", readable.stderr)

    def test_every_verb_looks_after_the_store(self):
        self.warm()
        held = json.loads(self.sinter("cache", "stat", "--json").stdout)
        count = held["plans"] + held["kernels"]
        self.assertEqual(held["store"], "tables")
        self.assertEqual(json.loads(self.sinter("cache", "verify", "--json").stdout)["kernels"], held["kernels"])
        listed = json.loads(self.sinter("cache", "ls", "--json").stdout)["records"]
        self.assertEqual(len(listed), count)
        self.assertTrue(all(record["sound"] and record["producer"] for record in listed))
        self.assertIn("would remove %d records" % count, self.sinter("cache", "clear").stdout)
        self.assertIn("removed %d records" % count, self.sinter("cache", "clear", "--yes").stdout)
        self.assertIn("is empty", self.sinter("cache", "ls").stdout)

    def test_a_store_that_there_is_no_longer_is_an_error_with_the_way_out(self):
        for verb in ("ls", "stat", "clear"):
            refused = self.sinter("cache", verb, expect=USAGE, SINTER_CACHE_STORE="leveldb-db")
            self.assertIn('cache_store (SINTER_CACHE_STORE) is "leveldb-db"', refused.stderr)
            self.assertIn("unset it", refused.stderr)
        self.assertIn("is empty", self.sinter("cache", "ls", SINTER_CACHE_STORE="tables").stdout)

    def test_clear_follows_no_link(self):
        self.warm()
        victims = os.path.join(self.folder, "victims")
        obj = os.path.join(self.folder, "cache", "v1", "obj")
        os.rename(obj, victims)
        os.symlink(victims, obj)
        before = sorted(os.walk(victims))
        for mode in (0o700, 0o777):
            os.chmod(os.path.join(self.folder, "cache"), mode)
            refused = self.sinter("cache", "clear", "--yes", expect=USAGE)
            self.assertIn("is a link" if mode == 0o700 else "writable by", refused.stderr)
        self.assertEqual(sorted(os.walk(victims)), before)

    # What is in the cache, but for its age.
    def records(self):
        return re.sub(r" +\d+ (?:s|min|h|d) ", " ", self.sinter("cache", "ls").stdout)

    def test_a_read_only_cache_is_not_written(self):
        self.warm()
        before = self.records()
        self.warm("--batch-invariant", SINTER_CACHE="read-only")
        self.assertEqual(self.records(), before)
        self.assertIn("read-only", self.sinter("cache", "trim", "--max", "1", expect=USAGE,
                                               SINTER_CACHE="read-only").stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
