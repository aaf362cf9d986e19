"""publish.py without a GPU: what is adopted under which name, and what is refused."""

import pathlib
import unittest

import publish
from publish import figures


class PublishTest(unittest.TestCase):
    def test_every_step_is_a_file_of_the_pages_and_fits_a_budget_or_resumes(self):
        for step in publish.STEPS:
            self.assertLessEqual({step.name, *step.also}, set(figures.FILES))
            self.assertTrue(step.resumes or step.seconds <= 550, step)
            self.assertEqual(bool(step.tuned), step.name in figures.SETS, step)
            for path in step.tuned:
                self.assertTrue((pathlib.Path(publish.HERE).parent.parent / path).exists(), path)

    def test_a_file_and_a_set_take_the_places_of_their_kind(self):
        text = 'FILES = {\n    "io": "a.json",\n    "io-2": "b.json",\n}\nSETS = {\n    "io": "a.set",\n}\n'
        self.assertEqual(publish.named(text, "io", "c.json"), text.replace('"a.json"', '"c.json"'))
        self.assertEqual(publish.named(text, "io", "c.set"), text.replace('"a.set"', '"c.set"'))

    def test_what_is_not_of_one_clean_state_is_refused(self):
        state = ("NVIDIA H100 80GB HBM3", "1234567", False, "2026-01-02")
        publish.refuse_mixed({"io": state, "tables": state})
        other = {"card": ("NVIDIA H200", *state[1:]), "commit": (state[0], "7654321", *state[2:]), "dirty": (*state[:2], True, state[3])}
        for what, wrong in other.items():
            with self.subTest(what), self.assertRaises(SystemExit):
                publish.refuse_mixed({"io": state, "tables": wrong})
        with self.assertRaises(SystemExit):
            publish.refuse_mixed({})


if __name__ == "__main__":
    unittest.main()
