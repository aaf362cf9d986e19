"""Plants lines that read the date and lines that do not, and expects check_calendar.py to tell them apart."""

import os
import tempfile
import unittest

from check_calendar import dates


def lines(name, text):
    with tempfile.TemporaryDirectory() as root:
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path))
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return [number for _, number in dates(root)]


class Calendar(unittest.TestCase):
    def test_dates(self):
        self.assertEqual(lines("tests/a/b_test.cc", "int x;\nauto day = std::time(nullptr) / 86400;\n"), [2])
        self.assertEqual(lines("tests/a/b.h", "const time_t now = time(nullptr);\n"), [1])
        self.assertEqual(lines("tests/a/b.h", "auto now = std::chrono::system_clock::now();\n"), [1])
        self.assertEqual(lines("tests/a/CMakeLists.txt", "string(TIMESTAMP seconds %s UTC)\n"), [1])
        self.assertEqual(lines("tests/a/b.py", "import time\nif time.time() > 0: pass\nday = date.today()\n"), [2, 3])

    def test_durations_are_none(self):
        self.assertEqual(lines("tests/a/b_test.cc", "auto t = std::chrono::steady_clock::now();\nmodel.time(0);\n"), [])
        self.assertEqual(lines("tests/a/b.py", "start = time.monotonic()\n"), [])

    def test_stamps_of_results_choose_nothing(self):
        self.assertEqual(lines("tests/bench/b.py", "stamp = time.time()\n"), [])


if __name__ == "__main__":
    unittest.main()
