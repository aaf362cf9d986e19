#!/usr/bin/env python3
"""The layers that layers.py measures, without torch or a GPU: every chain is one that the library takes."""

import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import cases  # noqa: E402
import sinter  # noqa: E402


class CasesTest(unittest.TestCase):
    def test_ids_are_of_one_case_each(self):
        ids = [case.id for group in cases.GROUPS for case in cases.cases(group)]
        self.assertEqual(len(ids), len(set(ids)))
        self.assertGreater(len(ids), 200)

    def test_every_chain_is_read(self):
        for group in cases.GROUPS:
            for case in cases.cases(group):
                chain = case.chain(sinter) if callable(case.chain) else sinter.Chain.from_text(case.chain)
                self.assertGreater(chain.input_count, 0, case.id)

    def test_refuses_what_peers_would_not_compute(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("X matmul m=8 n=8 k=8 act=relu\n")
            file.flush()
            with self.assertRaisesRegex(ValueError, "X: only matmul"):
                cases.read_products(file.name)


if __name__ == "__main__":
    unittest.main()
