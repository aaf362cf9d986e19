"""Plants code that reads the library's English and code that only shows it, and expects check_texts.py to tell them apart."""

import unittest

from check_texts import readings_of


def lines(text, path="bindings/python/sinter/a.py"):
    return [line for line, _ in readings_of(text, path)]


CAUGHT = "try:\n    f()\nexcept Error as error:\n    "


class Texts(unittest.TestCase):
    def test_reading_an_error(self):
        for line in ('x = "op 3" in str(error)', 'x = str(error).startswith("op")', "x = error.message.split(': ')[0]", "x = error.message[3:]",
                     "x = str(error) == 'gone'", "x = pattern.search(str(error))", "x = error.args[1].find('op')", "x = 'nvrtc' in error.compile_log"):
            self.assertEqual(lines(CAUGHT + line + "\n"), [4], line)

    def test_reading_it_under_another_name(self):
        self.assertEqual(lines(CAUGHT + "why, at = str(error), 0\n    if 'op ' in why: pass\n"), [5])
        self.assertEqual(lines("def f(error: Error):\n    why = str(error)\n    return why.partition(': ')\n"), [3])

    def test_reading_a_plan_or_a_stage(self):
        self.assertEqual(lines("x = plan.explain().splitlines()\ny = 'fused' in plan.summary()\nz = found.note.find('apart')\n"), [1, 2, 3])
        self.assertEqual(lines("def progress(stage, fraction):\n    if stage == 'search':\n        PLANNED.match(stage)\n"), [2, 3])

    def test_a_regular_expression(self):
        self.assertEqual(lines("import re\n"), [1])
        self.assertEqual(lines("from re import compile\n"), [1])
        self.assertEqual(lines("import re\n", "bindings/python/sinter/_shape.py"), [])

    def test_showing_is_allowed(self):
        self.assertEqual(lines(CAUGHT + "log(str(error)); x = f'{error.message}: {error.op}'; y = error.message or 'none'\n"), [])
        self.assertEqual(lines(CAUGHT + "if error.op == 3 and error.code in LASTING: raise\n    if error.message == '': pass\n"), [])
        self.assertEqual(lines("def progress(stage, fraction):\n    show(stage, fraction)\nx = name.startswith('aten.')\nprint(plan.explain())\n"), [])


if __name__ == "__main__":
    unittest.main()
