#!/usr/bin/env python3
"""The large graphs at reduced size: the reference executor against a walk through the ops in NumPy's float64.

SINTER_LIBRARY names libsinter.so. Exits 77 without NumPy.
"""

import sys
import unittest

try:
    import numpy
except ImportError:
    print("skipped: no NumPy")
    sys.exit(77)

import dag
import drawing
import large
import sinter_abi
from checking import expect_rounded, run_reference, type_of
from interpret import NumpyFramework, interpret


class LargeGraphs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = sinter_abi.Library()

    def test_they_are_large_and_their_text_is_not(self):
        self.assertGreaterEqual(len(large.LARGE), 8)
        for name, problem in large.LARGE.items():
            graph = problem.graph("full")
            self.assertTrue(100 <= len(graph["ops"]) <= 2000, f"{name}: {len(graph['ops'])} ops")
            text = dag.to_text(graph)
            self.assertLess(len(text), 200 << 10, name)
            self.assertEqual(self.library.c.sinter_chain_uses_m(self.library.chain_from_json(text)), 0, name)
            self.assertFalse([op for op in graph["ops"] if op["op"] == "matmul"], name)

    def test_reference_and_interpreter_agree(self):
        for name, problem in large.LARGE.items():
            graph = problem.graph("reduced")
            inputs = drawing.draw_inputs(graph, 1, problem.draws, problem.reduced)
            wanted = interpret(graph, NumpyFramework(), inputs)
            for i, (out, want) in enumerate(zip(run_reference(self.library, graph, inputs), wanted)):
                dtype = type_of(graph, graph["outputs"][i]["value"])["dtype"]
                with self.subTest(f"{name} output {i}"):
                    expect_rounded(self, f"{name} output {i}", out, want, dtype)
                    self.assertGreater(numpy.abs(out).max(), 0, "all zero: nothing is compared")

    def test_sixty_tensors_are_updated_in_place(self):
        graph = large.LARGE["adamw_60_tensors"].graph("full")
        self.assertEqual(sum("alias" in out for out in graph["outputs"]), 3 * 60)


if __name__ == "__main__":
    unittest.main()
