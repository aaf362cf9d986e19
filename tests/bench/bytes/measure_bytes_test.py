#!/usr/bin/env python3
"""Tests measure_bytes.py with an ncu that is a script."""

import json
import os
import stat
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import measure_bytes as bytes_of  # noqa: E402

HEADER = '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"\n'


def csv_of(launches):
    """Rows as ncu prints them for [{metric: value}]."""
    lines = ["==PROF== Connected\n", HEADER]
    for i, launch in enumerate(launches):
        for name, value in launch.items():
            lines.append(f'"{i}","7","kernel_{i}(int)","{name}","byte","{value}"\n')
    return "".join(lines)


class ParseTest(unittest.TestCase):
    def test_values_are_scaled_and_summed_per_launch(self):
        text = csv_of([{"dram__bytes_read.sum": "1,500", "lts__t_sectors_srcunit_tex_op_read.sum": "10"},
                       {"dram__bytes_read.sum": "500", "lts__t_sectors_srcunit_tex_op_read.sum": "n/a"}])
        launches = bytes_of.parse_launches(text, bytes_of.COUNTERS)
        self.assertEqual(launches[0], {"kernel": "kernel_0", "dram_read": 1500.0, "l2_read": 320.0})
        self.assertEqual(bytes_of.total(launches), {"dram_read": 2000.0})

    def test_no_table_is_no_launch(self):
        self.assertEqual(bytes_of.parse_launches("==ERROR== nothing", bytes_of.COUNTERS), [])

    def test_ranges_go_to_rows_in_order(self):
        ranges = [{"kernel": "range", "dram_read": 3}, {"kernel": "range", "dram_read": 4}]
        rows = bytes_of.assign([{"id": "G1"}, {"id": "G2"}], ranges)
        self.assertEqual([row["counted"] for row in rows], [{"dram_read": 3}, {"dram_read": 4}])
        with self.assertRaises(RuntimeError):
            bytes_of.assign([{"id": "G1"}], ranges)


class LimitTest(unittest.TestCase):
    def test_what_takes_too_long_is_killed_with_its_children(self):
        with tempfile.TemporaryDirectory() as folder:
            mark = os.path.join(folder, "alive")
            with self.assertRaises(subprocess.TimeoutExpired):
                bytes_of.run_limited(["sh", "-c", f"(sleep 1; touch {mark}) & wait"], 0.2)
            time.sleep(1.5)
            self.assertFalse(os.path.exists(mark))


class TextTest(unittest.TestCase):
    def row(self, name, contestant, dram, l2, intake=None, dsm=0):
        return {"id": name, "contestant": contestant, "weight_bytes": 3e5 if name == "G1" else 8e6, "dram_read_bytes": 8e6,
                "l2_bytes": 2e7, "dsm_bytes": 1e6, "counted": {"dram_read": dram, "l2_read": l2, "l1tex": l2,
                                                               "sm_intake": (intake or l2) + dsm, "dsm_in": dsm}}

    def verdicts(self, *row):
        line = bytes_of.comparison_line(self.row(*row))
        return [word for word in line.split() if word in ("ok", "OFF", "-")]

    def test_dram_is_held_to_its_bound_where_weights_are_large(self):
        self.assertEqual(self.verdicts("G4", "fused", 9.0e6, 2e7, None, 1e6), ["ok", "ok", "ok"])
        self.assertEqual(self.verdicts("G5", "fused", 9.6e6, 2e7, None, 1e6), ["OFF", "ok", "ok"])
        self.assertEqual(self.verdicts("G1", "fused", 1e6, 2e7, None, 1e6), ["-", "ok", "ok"])

    def test_l2_lies_between_what_is_asked_and_what_arrives(self):
        self.assertEqual(self.verdicts("G4", "fused", 8e6, 1.2e7, 2.1e7, 1e6), ["ok", "ok", "ok"])
        self.assertEqual(self.verdicts("G4", "fused", 8e6, 1.2e7, 1.6e7, 1e6), ["ok", "OFF", "ok"])
        self.assertEqual(self.verdicts("G4", "fused", 8e6, 2.6e7, 5e7, 1e6), ["ok", "OFF", "ok"])

    def test_dsm_is_exact(self):
        self.assertEqual(self.verdicts("G4", "fused", 8e6, 2e7, None, 1.001e6), ["ok", "ok", "OFF"])

    def test_reduction_is_the_mean_over_problems(self):
        rows = [self.row("G1", "fused", 1e6, 1e6), self.row("G1", "unfused", 2e6, 4e6),
                self.row("G2", "fused", 3e6, 3e6), self.row("G2", "unfused", 4e6, 4e6)]
        text = bytes_of.reduction_text(rows)
        self.assertIn("58%", text)
        self.assertIn("dram_read  37.5%", text)
        self.assertIn("l2_read  50.0%", text)

    def test_weights_of_problems(self):
        folder = os.path.join(HERE, "..", "problems")
        self.assertEqual(bytes_of.weight_bytes(folder, "S8"), 2 * 3 * 3072 * 1024)
        self.assertEqual(bytes_of.weight_bytes(folder, "G1"), 2 * 512 * (32 + 256))


FAKE_NCU = """#!{python}
import json, sys
sys.path.insert(0, {here!r})
from measure_bytes_test import csv_of
a = sys.argv
if a[1] == "--query-metrics":
    print("dram__bytes_read  Counter byte")
    print("lts__t_bytes  Counter byte")
    sys.exit()
assert a[a.index("--metrics") + 1] == "dram__bytes_read.sum,lts__t_bytes.sum", a
contestant, ids = a[a.index("--contestant") + 1], a[a.index("--ids") + 1].split(",")
moved = {{"fused": "100", "unfused": "200", "cublaslt": "300"}}[contestant]
assert a[a.index("--replay-mode") + 1] == "app-range" and "--profile-from-start" not in a, a
with open(a[a.index("--log-file") + 1], "w") as file:
    file.write(csv_of([{{"dram__bytes_read.sum": moved, "lts__t_bytes.sum": "200"}}] * len(ids)))
with open(a[a.index("--out") + 1], "w") as file:
    json.dump({{"machine": {{}}, "commit": "c", "dirty": False, "bytes": [
        {{"id": i, "contestant": contestant, "dram_read_bytes": 100}} for i in ids]}}, file)
"""


class RunTest(unittest.TestCase):
    def test_whole_run_with_a_stand_in(self):
        with tempfile.TemporaryDirectory() as folder:
            ncu, out = os.path.join(folder, "ncu"), os.path.join(folder, "bytes.json")
            with open(ncu, "w", encoding="utf-8") as file:
                file.write(FAKE_NCU.format(python=sys.executable, here=HERE))
            os.chmod(ncu, stat.S_IRWXU)
            done = subprocess.run([sys.executable, os.path.join(HERE, "measure_bytes.py"), "--ncu", ncu, "--bench", "none",
                                   "--ids", "G1,G4", "--cublaslt", "--logs", os.path.join(folder, "logs"), "--out", out],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn("not on this GPU: dram__bytes_write.sum", done.stdout)
            os.remove(ncu)  # a second run takes what is there
            again = subprocess.run(done.args, capture_output=True, text=True, check=False)
            self.assertEqual(again.returncode, 0, again.stdout + again.stderr)
            with open(out, encoding="utf-8") as file:
                rows = json.load(file)["rows"]
            counted = {(row["id"], row["contestant"]): row["counted"]["dram_read"] for row in rows}
            self.assertEqual(counted, {("G1", "fused"): 100, ("G4", "fused"): 100, ("G1", "unfused"): 200,
                                       ("G4", "unfused"): 200, ("G1", "cublaslt"): 300, ("G4", "cublaslt"): 300})


if __name__ == "__main__":
    unittest.main()
