"""The draw of the gate's points, and which decisions count as wrong; no torch, no GPU."""

import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

import gate
import gate_points


def row(decision, inductor, sinter, **more):
    parts = [{"inductor_us": inductor, "expected_us": sinter}]
    return {"id": "x", "family": "norm", "decision": decision, "parts": parts, "us": {"inductor": inductor, "sinter": sinter, **more}}


class DrawnTest(unittest.TestCase):
    def test_a_point_is_the_same_at_each_draw(self):
        for index in range(40):
            one, other = (gate_points.drawn(35, index) for _ in range(2))
            self.assertEqual((one.name, one.family, one.what), (other.name, other.family, other.what))
            self.assertEqual([x.shape for x in one.inputs], [x.shape for x in other.inputs])

    def test_each_family_is_drawn_and_fits(self):
        points = [gate_points.drawn(1, index) for index in range(300)]
        self.assertEqual({point.family for point in points}, set(gate_points.FAMILIES))
        self.assertTrue(all(point.fits for point in points))
        self.assertNotEqual([p.what for p in points[:20]], [gate_points.drawn(2, index).what for index in range(20)])

    def test_points_of_few_rows_are_spread_among_the_others(self):
        names = gate.names_of(types.SimpleNamespace(points=20, few_rows=10, family=None))
        self.assertEqual(len(set(names)), 30)
        self.assertIn(sum(family == "few_rows" for _, family in names[:15]), range(4, 7))


class VerdictTest(unittest.TestCase):
    def test_wrong_is_what_is_taken_and_slower_and_what_is_left_and_would_be_faster(self):
        self.assertEqual(gate.verdict(row("taken", 10.0, 10.1)), "right")
        self.assertEqual(gate.verdict(row("taken", 10.0, 10.3)), "loses")
        self.assertEqual(gate.verdict(row("left", 10.0, 9.6)), "right")
        self.assertEqual(gate.verdict(row("left", 10.0, 9.4)), "misses")
        self.assertEqual(gate.verdict(row("left", 10.0, 30.0)), "right")

    def test_a_part_of_a_graph_is_judged_by_what_is_compiled_for_it(self):
        self.assertEqual(gate.verdict(row("some", 10.0, 12.0, gated=9.0)), "right")
        self.assertEqual(gate.verdict(row("some", 10.0, 8.0, gated=9.0)), "misses")
        self.assertEqual(gate.verdict(row("some", 10.0, 8.0, gated=11.0)), "loses")

    def test_what_was_not_measured_is_not_counted(self):
        self.assertIsNone(gate.verdict(row("none", 10.0, 8.0)))
        self.assertIsNone(gate.verdict({"id": "x", "error": "RuntimeError"}))
        self.assertIn("1 not decided: RuntimeError", gate.report([row("taken", 10.0, 8.0), {"id": "x", "error": "RuntimeError"}]))


class WorkersTest(unittest.TestCase):
    def test_each_number_is_given_once(self):
        with tempfile.TemporaryDirectory() as folder:
            takers = [gate.next_of(pathlib.Path(folder), 7) for _ in range(3)]
            taken = [number for _ in range(3) for taker in takers for number in [next(taker, None)]]
            self.assertEqual(sorted(n for n in taken if n is not None), list(range(7)))

    def test_a_worker_that_ends_is_told_of_and_replaced(self):
        code = (
            "import gate, os, pathlib, sys\n"
            "def work(arguments):\n"
            "    for number in gate.next_of(arguments.scratch, 4):\n"
            "        at = arguments.scratch / f'at{arguments.worker}'\n"
            "        at.write_text(str(number))\n"
            "        if number == 1: os._exit(3)\n"
            "        gate.add_row(arguments.out, {'id': number})\n"
            "        at.unlink()\n"
            "gate.work = work\n"
            "gate.main()\n"
        )
        with tempfile.TemporaryDirectory() as folder:
            program, out = pathlib.Path(folder, "program.py"), pathlib.Path(folder, f"{pathlib.Path(folder).name}.jsonl")
            program.write_text(f"import sys; sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})\n{code}")
            subprocess.run([sys.executable, program, out, "--target", "h200", "--jobs", "2", "--seconds", "30"], check=True, capture_output=True, timeout=60)
            rows = gate.rows_of(out)
        self.assertEqual(sorted(int(each["id"]) for each in rows), [0, 1, 2, 3])
        self.assertEqual([each["error"] for each in rows if "error" in each], ["its process ended with 3"])


if __name__ == "__main__":
    unittest.main()
