#!/usr/bin/env python3
"""Each habit is found in one sentence, and not in the sentence to write in its place."""

import pathlib
import unittest

import english

PAIRS = {
    "behind": ("the cast behind the product", "the cast that consumes the product"),
    "beside": ("a copy beside the model", "a copy in addition to the model"),
    "alone": ("products alone walk units", "only products walk units"),
    "what": ("a list of what is left", "a list of the ops that are left"),
    "that of": ("Strides are those of the caller.", "Strides are the caller's."),
    "no noun": ("K is no multiple of 8.", "K is not a multiple of 8."),
    "told": ("The part is told of the end.", "The part receives the epilogue."),
    "for a number": ("takes 7 us for 5", "went from 7 to 5 us"),
    "fragment": ("Of a cluster: its rank.", "This is the rank in the cluster."),
    "word": ("all but for the last", "all except the last"),
}


def habits_of(line, path="page.md"):
    return [finding.split(": ")[1] for finding in english.findings(pathlib.Path(path), line)]


class English(unittest.TestCase):
    def test_finds_each_habit(self):
        self.assertEqual(set(PAIRS), set(english.HABITS))
        for habit, (wrong, right) in PAIRS.items():
            self.assertIn(habit, habits_of(wrong))
            self.assertEqual([], habits_of(right))

    def test_reads_comments_and_messages_only(self):
        self.assertEqual(["behind"], habits_of("int x = behind;  // It lies behind x.", "a.cc"))
        self.assertEqual(["no noun"], habits_of('return Error("the stride is no multiple of 8");', "a.cc"))
        self.assertEqual([], habits_of('Find("behind");', "a.cc"))

    def test_leaves_out_code_of_pages(self):
        self.assertEqual([], habits_of("```\nbehind the product\n```"))
        self.assertEqual([], habits_of("the field `behind` of it"))


if __name__ == "__main__":
    unittest.main()
