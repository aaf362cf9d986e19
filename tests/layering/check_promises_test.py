"""What a row of promises must name."""

import os
import tempfile
import unittest

from check_promises import flaws

HEAD = "| promise | page | test |\n|---|---|---|\n"


class Promises(unittest.TestCase):
    def flaws_of(self, row):
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "tests"))
            for name, text in (("page.md", ""), ("tests/a_test.cc", "TEST_F(Suite,\n       Name) {}\n// verb --twice\n")):
                with open(os.path.join(root, name), "w", encoding="utf-8") as file:
                    file.write(text)
            return [why for _, why in flaws(HEAD + row + "\n", root)]

    def test_what_is_there(self):
        self.assertEqual(self.flaws_of("| it holds | [page](../page.md#part) | `tests/a_test.cc` `Suite.Name` |"), [])
        self.assertEqual(self.flaws_of("| it holds | [page](../page.md) | `tests/a_test.cc` `verb --twice` |"), [])

    def test_what_is_not(self):
        self.assertEqual(self.flaws_of("| it holds | [page](../page.md) | `tests/a_test.cc` `Suite.Other` |"),
                         ["tests/a_test.cc has no test Suite.Other"])
        self.assertEqual(self.flaws_of("| it holds | [page](../none.md) | `tests/b_test.cc` `Suite.Name` |"),
                         ["there is no page ../none.md", "there is no file tests/b_test.cc"])
        self.assertEqual(self.flaws_of("| it holds | page.md | none |"), ["is not: promise, [page](link), `file` `test`"])


if __name__ == "__main__":
    unittest.main()
