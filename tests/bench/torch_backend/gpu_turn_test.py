"""Processes share the GPU, and one alone measures on it."""

import os
import tempfile
import threading
import time
import unittest

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


if __name__ == "__main__":
    unittest.main()
