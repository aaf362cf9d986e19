"""What the list of mutants makes of sources."""

import pathlib
import tempfile
import unittest

import mutants


def mutant(**fields) -> mutants.Mutant:
    return mutants.Mutant({"id": 1, "file": "a.cc", "find": "x < 1", "put": "x <= 1", "wrong": "off by one", "test": "a_test", **fields})


class Mutants(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "a.cc").write_text('// #include "no.h"\n#include "b.h"\nint F(int x) {\n  if (x < 1) return Done(x);\n  return 0;\n}\n')

    def with_all(self, *listed: mutants.Mutant) -> str:
        return mutants.with_all(self.root, list(listed))["a.cc"]

    def test_an_expression_becomes_a_conditional_one(self):
        self.assertIn("if ((IsMutant(1) ? (x <= 1) : (x < 1))) return", self.with_all(mutant()))

    def test_a_statement_becomes_an_if(self):
        text = self.with_all(mutant(find="return 0;", put=""))
        self.assertIn("if (IsMutant(1)) {  } else { return 0; }", text)

    def test_all_of_a_file_are_in_one_text_behind_the_header(self):
        text = self.with_all(mutant(id=2, find="return 0;", put="return 1;"), mutant())
        self.assertTrue(text.startswith('// #include "no.h"\n#include "mutant.h"\n#include "b.h"\n'))
        self.assertEqual(text.count("IsMutant("), 2)

    def test_mutants_that_overlap_are_refused(self):
        with self.assertRaisesRegex(ValueError, "overlaps"):
            self.with_all(mutant(), mutant(id=2, find="(x < 1)", put="(true)"))

    def test_a_text_that_is_not_there_once_is_told(self):
        told = mutants.check(self.root, [mutant(), mutant(id=2, find="x < 2"), mutant(id=3, find="x"), mutant(id=4, file="no.cc")])
        self.assertEqual(len(told), 3)
        self.assertIn("mutant 2 (off by one): its text is in a.cc 0 times", told[0])

    def test_other_languages_have_one_at_a_time(self):
        (self.root / "a.py").write_text("size = 4\n")
        one = mutant(file="a.py", find="4", put="8")
        self.assertFalse(one.compiled)
        self.assertEqual(mutants.with_one(self.root, one), "size = 8\n")

    def test_a_row_without_a_field_is_told(self):
        with self.assertRaisesRegex(ValueError, "mutant 7 needs the field file"):
            mutants.Mutant({"id": 7})


if __name__ == "__main__":
    unittest.main()
