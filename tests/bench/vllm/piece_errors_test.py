#!/usr/bin/env python3
"""Distances of pieces from float64, on graphs of torch's operators and of an opaque one. Skipped where torch is missing."""

import unittest

import piece_errors

try:
    import torch
except ImportError:
    torch = None


@unittest.skipIf(torch is None, "no torch")
class PieceErrorsTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        library = torch.library.Library("standin_pieces", "FRAGMENT")
        self.addCleanup(library._destroy)
        library.define("half_of(Tensor x) -> Tensor")
        self.kinds = []

        def half_of(x):
            self.kinds.append(x.dtype)
            return x * 0.5

        library.impl("half_of", half_of, "CompositeExplicitAutograd")

    def graph(self, f, operands):
        made = torch.fx.symbolic_trace(f)
        values = iter(operands)

        class Tell(torch.fx.Interpreter):
            def run_node(self, n):
                n.meta["example_value"] = found = super().run_node(n)
                return found

        Tell(made).run(*values)
        return made

    def operands(self):
        return [torch.randn(8, 64).bfloat16(), torch.nn.Parameter(torch.randn(32, 64).bfloat16(), requires_grad=False)]

    @staticmethod
    def piece(x, w):
        y = torch.nn.functional.linear(x, w)
        kept = torch.empty(8, 32, dtype=torch.bfloat16)
        z = torch.ops.standin_pieces.half_of(torch.nn.functional.silu(y.float()).to(torch.bfloat16))
        return z, kept.view(-1, 8, 32), y, x.argmax(-1)

    def test_distances_are_from_float64(self):
        operands = self.operands()
        graph = self.graph(self.piece, operands)
        exact = piece_errors.in_double(graph, operands)
        wanted = torch.nn.functional.linear(operands[0].double(), operands[1].double())
        self.assertLess((exact[2] - wanted).abs().max().item(), 1e-12)
        self.assertEqual(self.kinds[-1], torch.bfloat16)  # an opaque operator gets what it had
        self.assertEqual(exact[0].dtype, torch.float64)
        single = graph(*operands)
        found = piece_errors.compare(graph, single, operands)
        self.assertEqual(len(found), 2)  # not the empty buffer, not the integers
        for one, ours in found:
            self.assertEqual(one, ours)
            self.assertTrue(1e-4 < one < 1e-2, one)

    def test_a_wrong_result_is_told(self):
        operands = self.operands()
        graph = self.graph(self.piece, operands)
        z, kept, y, ids = graph(*operands)
        summary = piece_errors.summary([piece_errors.compare(graph, (z, kept, y * 1.1, ids), operands), "no form in float64"])
        self.assertEqual((summary["outputs"], summary["most"]["output"], summary["failed"]), (2, 1, ["no form in float64"]))
        self.assertGreater(summary["most"]["ratio"], 20)
        self.assertAlmostEqual(summary["most"]["compiled"], 0.1, places=2)
        self.assertEqual(piece_errors.summary([]), {"outputs": 0, "failed": []})

    def test_operands_are_not_overwritten(self):
        def piece(x, y):
            x += 1
            return x * y

        operands = [torch.randn(8, 8).bfloat16() for _ in range(2)]
        graph, before = self.graph(piece, [one.clone() for one in operands]), operands[0].clone()
        found = piece_errors.compare(graph, piece(operands[0].clone(), operands[1]), operands)
        self.assertTrue(torch.equal(operands[0], before))
        self.assertEqual(found[0][0], found[0][1])


if __name__ == "__main__":
    unittest.main()
