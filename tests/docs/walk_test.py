#!/usr/bin/env python3
"""What walk.py takes for a block, for a mark, for a number; and that lines that are wrong fail. Usage: walk_test.py BUILD"""

import os
import re
import subprocess
import sys
import tempfile
import unittest

import walk

BUILD = sys.argv.pop(1)
PAGE = "# A\n\n<!-- not run: gpu -->\n```sh\nfalse\n\n# a comment\n```\ntext\n```python\nprint(1)\n```\n"


class Pages(unittest.TestCase):
    def test_blocks_have_a_language_lines_and_a_mark(self):
        blocks = walk.blocks_of("a.md", PAGE)
        self.assertEqual([(str(b), b.language, b.reason, b.count()) for b in blocks],
                         [("a.md:4", "sh", "gpu", 1), ("a.md:10", "python", None, 1)])
        self.assertEqual(walk.wrong_marks(PAGE, blocks), [])

    def test_marks_that_nobody_knows_or_that_stand_alone_are_wrong(self):
        for page in (PAGE.replace("gpu", "boredom"), PAGE.replace("```python", "```"), PAGE.replace("gpu -->\n", "gpu -->\n\n")):
            self.assertEqual(len(walk.wrong_marks(page, walk.blocks_of("a.md", page))), 1, page)

    def test_numbers_do_not_count(self):
        self.assertEqual(walk.plain("prepared in 327.1 ms: search 6 ms"), walk.plain("prepared in 0.9 ms: search 1,000 ms"))
        self.assertNotEqual(walk.plain("prepared in 1 ms"), walk.plain("found in 1 ms"))
        self.assertNotEqual(walk.plain("search 0.0 ms"), walk.plain("search 6.1 ms"))

    def test_as_typed_types_every_block_that_needs_no_gpu(self):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "as_typed")
        typed = subprocess.run([script, "--list"], stdout=subprocess.PIPE, text=True, check=True).stdout
        subprocess.run(["bash", "-n"], input=typed, text=True, check=True)
        with open(os.path.join(os.path.dirname(script), "..", "..", "README.md"), encoding="utf-8") as file:
            blocks = walk.blocks_of("README.md", file.read())
        self.assertEqual(re.findall(r"^say (.*)$", typed, re.M), [str(block) for block in blocks if block.reason != "gpu"])
        for block in blocks:
            if block.language in ("c", "python") and block.reason != "gpu":
                self.assertIn(block.text, typed)

    def test_names_of_the_package(self):
        self.assertEqual(walk.taken_names("import sinter\nplan = context.prepare(c)\ny = plan(x); sinter.torch.f(); other.g()"),
                         ["sinter.Context.prepare"])


class Walking(unittest.TestCase):
    def walked(self, page):
        """The errors in a page."""
        with tempfile.TemporaryDirectory() as root:
            with open(os.path.join(root, "a.md"), "w", encoding="utf-8") as file:
                file.write(page)
            walker = walk.Walker(root, BUILD, os.path.join(root, "work"), "cc", "c++")
            os.makedirs(walker.work)
            walker.walk("a.md")
            return walker.wrong

    def test_lines_that_fail_are_told(self):
        for block in ("sh\nfalse", "sh\nls nothing | cat", "python\nimport nothing", "console\n$ echo 1 a\n2 b", "console\n$ echo 2 b; exit 1\n2 b",
                      "c\nint main( {}", "text\n```\n<!-- not run: gpu -->\n```python\nplan.fly()", "cpp\nint f() { return x; }"):
            self.assertEqual(len(self.walked(f"```{block}\n```\n")), 1, block)

    def test_lines_that_are_right_pass(self):
        self.assertEqual(self.walked("```sh\nexport A=1\n```\n```sh\n[ $A = 1 ]\nexit 77\n```\n```console\n$ echo 1 a\n2 a\n```\n```python\npass\n```\n"
                                     "```c\nint main(void) { return 0; }\n```\n"), [])


if __name__ == "__main__":
    unittest.main()
