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
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from no_compiler import end_without_compiler

SINTER = sys.argv[1]
DONE, FAILED, USAGE, UNAVAILABLE = 0, 1, 2, 3
WORKLOAD = """# two chains, one of which leaves m open
first gemm_chain m=20 n=256 k=64 l=64 act=relu layout=oi dtype=bf16
second gemm_chain m=M n=320 k=64 l=64 act=relu layout=oi dtype=bf16
"""
# A chain that no problem line says.
GRAPH = {
    "schema": 1,
    "inputs": [{"id": 0, "name": "x", "dtype": "bf16", "dims": ["M", 512]},
               {"id": 1, "dtype": "f32", "dims": ["M", 1], "strides": [4, 1]}],
    "ops": [{"id": 2, "op": "broadcast", "in": [1], "dtype": "f32", "dims": ["M", 512]},
            {"id": 3, "op": "binary", "in": [0, 2], "kind": "mul", "dtype": "f32", "dims": ["M", 512]}],
    "outputs": [{"value": 3}]}
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
            end_without_compiler(result.stderr.strip())
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
        # The pack is given only by the environment.
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

    # Chips of other architectures: their kernels differ, so do their keys.
    def test_one_pack_serves_several_targets(self):
        targets = ["h200", "a100", "rtx-4090"]
        for target in targets:
            warm = json.loads(self.sinter("warm", self.workload, "--m", "8", "--target", target, "--json").stdout)
            self.assertEqual((warm["plans"], warm["failed"]), (2, []), target)
        made = self.sinter("cache", "export", self.pack, "--sign", self.secret).stdout
        self.assertIn(": %d plans, " % (2 * len(targets)), made)
        for target in targets:
            served = json.loads(self.sinter(
                "warm", self.workload, "--m", "8", "--target", target, "--json", "--use-pack", self.pack, "--pack-keys",
                self.public, cache="of-" + target, nvrtc="/dev/null", SINTER_MUST_HIT="1").stdout)
            self.assertEqual((served["failed"], served["counters"]["compiled"]), ([], 0), target)
            self.assertFalse(served["counters"]["nvrtc_loaded"])
        miss = self.sinter("plan", "--target", "b200", "--must-hit", "--use-pack", self.pack, "--pack-keys", self.public,
                           "gemm_chain m=8 n=320 k=64 l=64 act=relu layout=oi dtype=bf16", cache="other",
                           nvrtc="/dev/null", expect=FAILED)
        self.assertIn("CACHE_MISS", miss.stderr)

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
            end_without_compiler(shown.decode(errors="replace").strip())
        self.assertRegex(shown, rb"\r\x1b\[K *\d+ % \[#+\.+\] \d+/48", "exit %d" % code)
        rest = json.loads(self.sinter(*command[1:]).stdout)
        self.assertEqual((rest["plans"], rest["failed"]), (48, []))
        self.assertLess(rest["counters"]["searched"], 48)
        self.assertGreater(rest["counters"]["searched"], 0)
        again = json.loads(self.sinter(*command[1:]).stdout)["counters"]
        self.assertEqual((again["searched"], again["compiled"]), (0, 0))

    def test_a_range_is_every_bucket_up_to_a_number_of_rows(self):
        chain = "gemm_chain m=M n=320 k=64 l=64 act=relu layout=oi dtype=bf16"

        def warm(rows, *more):
            return json.loads(self.sinter("warm", chain, "--m", rows, "--target", "h200", "--json", *more).stdout)
        self.assertEqual(warm("..32")["plans"], 4)  # 1, 8, 16, 32
        listed = json.loads(self.sinter("cache", "ls", "--json").stdout)["records"]
        self.assertEqual(sorted(record["m"] for record in listed if record["kind"] == "plan"), [1, 8, 16, 32])
        again = warm("..30")  # rows up to 30 need the bucket of 32
        self.assertEqual((again["plans"], again["counters"]["searched"]), (4, 0))
        self.assertEqual(warm("16..32")["plans"], 2)
        # A list may have ranges: 20 is of the bucket of 32, which the range does not repeat.
        self.assertEqual(warm("20,8..32")["plans"], 3)
        self.sinter("cache", "export", self.pack, chain, "-m", "..32")
        self.assertEqual(json.loads(self.sinter("cache", "stat", self.pack, "--unsigned", "--json").stdout)["plans"], 4)
        for wrong in ("..", "..0", "0..8", "64..32", "1...8", "..x", "8..", "..4294967296"):
            refused = self.sinter("warm", chain, "-m", wrong, "--target", "h200", expect=USAGE)
            self.assertIn('"%s" is not a range ..HIGH or LOW..HIGH with 1 <= LOW <= HIGH <= 2147483647' % wrong,
                          refused.stderr)
        self.assertIn("neither an integer from 0 to 2147483647 nor a range ..HIGH", self.sinter("warm", chain, "-m", "-8", "--target", "h200",
                                                                     expect=USAGE).stderr)

    def test_a_miss_that_must_hit_says_what_to_warm(self):
        chain = "gemm_chain m=M n=320 k=64 l=64 act=relu layout=oi dtype=bf16"
        missed = self.sinter("plan", chain, "-m", "20", "--target", "h200", "--must-hit", expect=FAILED)
        told = re.search(r'missing: bucket 32 of gemm_chain .*; to warm it: sinter (warm "([^"]+)" -m 32 --target h200), '
                         r"into the cache folder or the pack", missed.stderr)
        self.assertTrue(told, missed.stderr)
        rest = told.group(1).split('"')
        self.sinter("warm", told.group(2), *rest[2].split())
        self.sinter("plan", chain, "-m", "20", "--target", "h200", "--must-hit")
        # A kernel that is missing is made by the same command.
        shutil.rmtree(os.path.join(self.folder, "cache", "v1", "obj"))
        missed = self.sinter("plan", chain, "-m", "20", "--target", "h200", "--must-hit", expect=FAILED)
        self.assertRegex(missed.stderr, r"kernel [0-9a-f]{64} is not in the cache.*to warm it: sinter warm")
        # A chain that no line says, one without M, flags, a check on a GPU.
        graph = self.write("graph.json", json.dumps(GRAPH))
        missed = self.sinter("plan", graph, "-m", "20", "--target", "h200", "--must-hit", "--batch-invariant",
                             expect=FAILED)
        self.assertIn("sinter warm CHAIN.json -m 32 --batch-invariant --target h200 (sinter_x_chain_to_json makes "
                      "CHAIN.json)", missed.stderr)
        missed = self.sinter("plan", chain, "-m", "20", "--target", "h200", cache="third", expect=FAILED,
                             SINTER_MUST_HIT="verified")
        self.assertIn("-m 32 --verify on a machine with this GPU", missed.stderr)
        refused = self.sinter("warm", chain, "-m", "8", "--target", "h200", "--verify", expect=UNAVAILABLE)
        self.assertIn("--verify runs kernels and needs a GPU", refused.stderr)

    def test_an_empty_pack_is_an_error(self):
        refused = self.sinter("cache", "export", self.pack, expect=USAGE, cache="empty")
        self.assertIn("no pack was written: there is no record to write; make the records first (sinter warm WORKLOAD)",
                      refused.stderr)
        self.assertFalse(os.path.exists(self.pack))
        # A workload of which nothing could be prepared tells why, and leaves no pack.
        failed = self.sinter("warm", self.workload, "--m", "8", "--target", "h200", "--pack", self.pack, cache="empty",
                             nvrtc="/dev/null", expect=UNAVAILABLE)
        self.assertIn("2 of 2 plans could not be prepared", failed.stderr)
        self.assertFalse(os.path.exists(self.pack))

    def test_a_cap_that_evicts_what_was_warmed_says_so(self):
        lost = self.sinter("warm", self.workload, "--m", "8,64", "--target", "h200", "--json", expect=FAILED,
                           SINTER_CACHE_MAX_BYTES="60KB")
        kept = json.loads(lost.stdout)["kept"]
        self.assertGreater(kept["lost"], 0)
        self.assertEqual(kept["cap"], 60000)
        told = re.search(r"(\d+) of \d+ records that the workload needs were removed again by the cache's cap of 60000 bytes: "
                         r"set SINTER_CACHE_MAX_BYTES to (\d+) or more", lost.stderr)
        self.assertTrue(told, lost.stderr)
        self.assertEqual(int(told.group(1)), kept["lost"])
        enough = self.warm(SINTER_CACHE_MAX_BYTES=told.group(2))
        self.assertEqual(enough["kept"]["lost"], 0)

    def test_a_trim_leaves_no_plan_without_its_kernels(self):
        self.warm()
        folder = os.path.join(self.folder, "cache", "v1")
        for kind, age in (("obj", 1000000), ("plan", 1000)):  # kernels that were unused for long, and plans that were not
            for place, _, files in os.walk(os.path.join(folder, kind)):
                for index, name in enumerate(sorted(files)):
                    os.utime(os.path.join(place, name), (1, 1700000000 - age - index))
        held = json.loads(self.sinter("cache", "stat", "--json").stdout)
        self.sinter("cache", "trim", "--max", str(held["bytes"] * 3 // 4))
        left = [record for record in json.loads(self.sinter("cache", "ls", "--json").stdout)["records"]
                if record["kind"] == "plan"]
        self.assertIn(len(left), range(1, 4))
        served = 0
        for width, rows in ((256, (8, 64)), (320, (8, 64))):
            for m in rows:
                line = "gemm_chain m=%d n=%d k=64 l=64 act=relu layout=oi dtype=bf16" % (m, width)
                there = any("n=%d " % width in record["what"] and record["m"] == m for record in left)
                self.sinter("plan", line, "--target", "h200", "--must-hit", expect=DONE if there else FAILED)
                served += there
        self.assertEqual(served, len(left))

    def test_push_needs_a_remote_store_that_it_may_write(self):
        self.warm()
        self.assertIn("set SINTER_REMOTE (redis://HOST) and SINTER_REMOTE_KEY_FILE",
                      self.sinter("cache", "push", expect=USAGE).stderr)
        key = self.write("key", "a fleet's key of 32 bytes or so.")
        remote = {"SINTER_REMOTE": "redis://127.0.0.1:1", "SINTER_REMOTE_KEY_FILE": key}
        self.assertIn("set SINTER_REMOTE_ROLE=publisher", self.sinter("cache", "push", expect=USAGE, **remote).stderr)
        down = self.sinter("cache", "push", expect=FAILED, SINTER_REMOTE_ROLE="publisher", **remote)
        self.assertRegex(down.stderr, r"cache push: 0 of \d+ records written, then \(run it again to go on\): remote: connect")

    def test_push_fills_a_remote_store(self):
        server = shutil.which("redis-server")
        if server is None:
            self.skipTest("no redis-server here")
        held = self.warm()
        self.assertEqual(held["failed"], [])
        socket = os.path.join(self.folder, "redis")
        process = subprocess.Popen([server, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", self.folder],
                                   stdout=subprocess.DEVNULL)
        self.addCleanup(lambda: (process.kill(), process.wait()))
        for _ in range(500):
            if os.path.exists(socket):
                break
            time.sleep(0.01)
        key = self.write("key", "a fleet's key of 32 bytes or so.")
        remote = {"SINTER_REMOTE": "redis+unix://" + socket, "SINTER_REMOTE_KEY_FILE": key}
        records = json.loads(self.sinter("cache", "stat", "--json").stdout)
        count = records["plans"] + records["kernels"]
        first = json.loads(self.sinter("cache", "push", "--json", SINTER_REMOTE_ROLE="publisher", **remote).stdout)
        self.assertEqual((first["records"], first["pushed"], first["present"]), (count, count, 0))
        again = self.sinter("cache", "push", SINTER_REMOTE_ROLE="publisher", **remote)
        self.assertIn("%d records: 0 pushed (0 B), %d there before" % (count, count), again.stdout)
        served = self.warm(cache="elsewhere", nvrtc="/dev/null", **remote)
        self.assertEqual((served["failed"], served["counters"]["compiled"]), ([], 0))

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

    # The contents of the cache, without their age.
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
