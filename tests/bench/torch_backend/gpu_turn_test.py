"""Processes share the GPU, and one at a time has it exclusively to measure."""

import os
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import run

from gpu_turn import GpuTurn


class GpuTurnTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.told = []
        path = os.path.join(folder.name, "turn")
        self.one, self.other, self.third = (
            GpuTurn(path, lambda name=name: self.told.append(f"{name} done")) for name in ("one", "other", "third")
        )

    def beside(self, f):
        thread = threading.Thread(target=f)
        thread.start()
        self.addCleanup(thread.join)
        return thread

    def use_other(self):
        self.other.take()
        self.told.append("other")
        self.other.give()

    def test_who_uses_it_is_beside_others(self):
        self.one.take()
        self.beside(self.use_other).join()
        self.one.give()
        self.assertEqual(self.told, ["other", "other done", "one done"])

    def test_who_measures_is_alone(self):
        with self.one.alone():
            thread = self.beside(self.use_other)
            time.sleep(0.1)
            self.told.append("one")
        thread.join()
        self.assertEqual(self.told, ["one", "one done", "other", "other done"])
        self.assertGreater(self.other.waited, 0.05)
        self.assertLess(self.one.waited, 0.05)

    def test_who_waits_to_be_alone_is_overtaken_by_nobody(self):
        def measure():
            with self.third.alone():
                self.told.append("third")

        self.one.take()
        first = self.beside(measure)
        time.sleep(0.1)
        second = self.beside(self.use_other)
        time.sleep(0.1)
        self.assertEqual(self.told, [])
        self.one.give()
        first.join()
        second.join()
        self.assertEqual(self.told, ["one done", "third", "third done", "other", "other done"])

    def test_who_had_it_has_it_behind_a_measurement(self):
        self.one.take()
        with self.one.alone():
            pass
        thread = self.beside(lambda: self.measure_other())
        time.sleep(0.1)
        self.assertEqual(self.told, ["one done", "one done"])
        self.one.give()
        thread.join()
        self.assertEqual(self.told[2:], ["one done", "other", "other done"])

    def measure_other(self):
        with self.other.alone():
            self.told.append("other")

    def test_who_waits_for_another_process_lets_it_measure_and_counts_the_wait(self):
        self.one.take()
        with self.one.waiting():
            thread = self.beside(lambda: self.measure_other())
            thread.join()
            time.sleep(0.1)
        self.assertGreater(self.one.waited, 0.05)
        self.assertTrue(self.one._mine)
        self.one.give()
        self.assertEqual(self.told, ["one done", "other", "other done", "one done"])

    def test_who_waits_to_be_alone_goes_first_where_a_user_lets_it(self):
        self.one.take()
        thread = self.beside(lambda: self.measure_other())
        time.sleep(0.1)
        self.one.let()
        self.told.append("one")
        self.one.give()
        thread.join()
        self.assertEqual(self.told, ["one done", "other", "other done", "one", "one done"])


class WorkerTest(unittest.TestCase):
    """A process that measures has so many seconds, without those in which it waits for the GPU."""

    def measured(self, *told_then_waited, seconds):
        with tempfile.NamedTemporaryFile("w", suffix=".py") as script:
            says = "".join(f"print({line!r}, end='', flush=True); time.sleep({after})\n" for line, after in told_then_waited)
            script.write("import time\n" + says)
            script.flush()
            with unittest.mock.patch.object(sys, "argv", [script.name]):
                worker = run.Worker("turn")
            self.addCleanup(worker.process.stdout.close)
            self.addCleanup(worker.kill)
            return worker.measure("row", seconds, time.time() + 60)

    def test_waiting_for_the_gpu_does_not_count(self):
        found = self.measured((run.WAITS, 4), (run.WORKS, 0), ('RESULT {"a": 1}\n', 0), seconds=2)
        self.assertEqual(found, {"a": 1})

    def test_work_does(self):
        self.assertIsNone(self.measured((run.WAITS, 0), (run.WORKS, 30), ('RESULT {"a": 1}\n', 0), seconds=1))


if __name__ == "__main__":
    unittest.main()
