"""One process at a time has the GPU, and gives it once its work is done."""

import tempfile
import threading
import time
import unittest

from gpu_turn import GpuTurn


class GpuTurnTest(unittest.TestCase):
    def setUp(self):
        file = tempfile.NamedTemporaryFile()
        self.addCleanup(file.close)
        self.told = []
        self.one, self.other = (GpuTurn(file.name, lambda name=name: self.told.append(f"{name} done")) for name in ("one", "other"))

    def beside(self, f):
        thread = threading.Thread(target=f)
        thread.start()
        self.addCleanup(thread.join)
        return thread

    def test_waits_until_the_other_is_done(self):
        def work():
            self.other.take()
            self.told.append("other")
            self.other.give()

        self.one.take()
        thread = self.beside(work)
        time.sleep(0.1)
        self.told.append("one")
        self.one.give()
        thread.join()
        self.assertEqual(self.told, ["one", "one done", "other", "other done"])
        self.assertGreater(self.other.waited, 0.05)
        self.assertLess(self.one.waited, 0.05)

    def test_what_shares_it_is_beside_none_that_has_it(self):
        def work():
            with self.other.shared():
                self.told.append("other")

        with self.one.shared():
            self.beside(work).join()
        self.one.take()
        thread = self.beside(work)
        time.sleep(0.1)
        self.assertEqual(self.told, ["other"])
        self.one.give()
        thread.join()
        self.assertEqual(self.told, ["other", "one done", "other"])

    def test_is_taken_for_a_while(self):
        with self.one.taken():
            with self.one.taken():
                pass
            self.assertEqual(self.told, [], "whoever has it keeps it")
        self.assertEqual(self.told, ["one done"])


if __name__ == "__main__":
    unittest.main()
