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

    def test_an_id_with_other_rows_or_images_is_a_case_of_the_same_layer(self):
        for group in cases.GROUPS:
            for case, of in cases.listed(group, "1234567"):
                self.assertEqual(cases.case(group, case.id).id, case.id)
                if of == "drawn":
                    chain = case.chain(sinter) if callable(case.chain) else sinter.Chain.from_text(case.chain)
                    self.assertGreater(chain.input_count, 0, case.id)
        self.assertEqual(cases.case("products", "bert_b-up-37").chain, "matmul m=37 n=3072 k=768 act=gelu_erf bias1=1")
        self.assertEqual((cases.case("encoders", "vit_b-5").rows, cases.case("rowwise", "gelu-3-64").rows), (5, 3))
        self.assertIn("b=M h=56 w=56 ic=224", cases.case("images", "regnety_16gf-56-images-3").chain)
        self.assertEqual(cases.case("depthwise", "convnext_t-7-768-7x7-images-9").rows, 9)

    def test_ffns_are_the_lines_of_a_problem_list(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("# two\nS8-m3 gated_ffn m=3 n=64 k=32 l=16 act=silu layout=oi dtype=bf16\nR1 gemm_chain m=5 n=64 k=32 l=16 act=relu layout=io dtype=f16\n")
            file.flush()
            found = cases.ffns(file.name)
        self.assertEqual([(case.id, case.rows, case.peers) for case in found], [("S8-m3", 3, ("eager", "compile")), ("R1", 5, ("eager", "compile"))])
        for case, inputs in zip(found, (4, 3)):
            self.assertEqual(sinter.Chain.from_text(case.chain).input_count, inputs)

    def test_refuses_what_peers_would_not_compute(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("X matmul m=8 n=8 k=8 act=relu\n")
            file.flush()
            with self.assertRaisesRegex(ValueError, "X: only matmul"):
                cases.read_products(file.name)


if __name__ == "__main__":
    unittest.main()
