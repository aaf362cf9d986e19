#!/usr/bin/env python3
"""The graphs of graphs.py at reduced size: reference executor and DAG against the NumPy formulas.

SINTER_LIBRARY names libsinter.so. Exits 77 without NumPy.
"""

import json
import os
import sys
import unittest

try:
    import numpy
except ImportError:
    print("skipped: no NumPy")
    sys.exit(77)

import dag
import drawing
import graphs
import rounding
import sinter_abi
from checking import expect_rounded, run_reference, type_of
from interpret import NumpyFramework, interpret

HERE = os.path.dirname(os.path.abspath(__file__))
COMMITTED = os.path.join(HERE, "..", "problems", "stitch")


class Graphs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = sinter_abi.Library()

    def check(self, name, seed):
        problem = graphs.PROBLEMS[name]
        graph = problem.graph("reduced")
        inputs = drawing.draw_inputs(graph, seed, problem.draws, problem.reduced)
        named = {i["name"]: x for i, x in zip(graph["inputs"], inputs)}
        wanted = problem.oracle(named, **problem.reduced)
        self.assertEqual(len(wanted), len(graph["outputs"]))
        dtypes = [type_of(graph, out["value"])["dtype"] for out in graph["outputs"]]
        executed, walked = run_reference(self.library, graph, inputs), interpret(graph, NumpyFramework(), inputs)
        for i, (dtype, want) in enumerate(zip(dtypes, wanted)):
            expect_rounded(self, f"{name} output {i} of the reference", executed[i], want, dtype)
            expect_rounded(self, f"{name} output {i} of the interpreter", walked[i], want, dtype)

    def test_every_graph_is_its_formula(self):
        for name in graphs.PROBLEMS:
            with self.subTest(name):
                for seed in (1, 2, 3):
                    self.check(name, seed)

    def test_a_wrong_formula_is_found(self):
        problem = graphs.PROBLEMS["llama_swiglu"]
        right = problem.oracle
        problem.oracle = lambda v, **sizes: [1.01 * right(v, **sizes)[0]]
        try:
            with self.assertRaises(AssertionError):
                self.check("llama_swiglu", 1)
        finally:
            problem.oracle = right

    def test_committed_files_are_generated(self):
        self.assertEqual(sorted(os.listdir(COMMITTED)), sorted(name + ".json" for name in graphs.PROBLEMS))
        for name, problem in graphs.PROBLEMS.items():
            with open(os.path.join(COMMITTED, name + ".json"), encoding="utf-8") as file:
                self.assertEqual(file.read(), dag.to_text(problem.graph("full")), name)

    def test_full_sizes_are_those_of_the_list_and_have_no_m(self):
        with open(os.path.join(HERE, "..", "problems", "stitch_graphs.txt"), encoding="utf-8") as file:
            listed = {line.split()[0] for line in file if line.strip() and not line.startswith("#")}
        self.assertEqual(listed, set(graphs.PROBLEMS))
        for name, problem in graphs.PROBLEMS.items():
            chain = self.library.chain_from_json(dag.to_text(problem.graph("full")))
            self.assertEqual(self.library.c.sinter_chain_uses_m(chain), 0, name)
            again = json.loads(self.library.chain_to_json(chain))
            self.assertEqual(len(again["ops"]), len(problem.graph("full")["ops"]), name)

    def test_adam_updates_in_place(self):
        graph = graphs.PROBLEMS["adam"].graph("full")
        name = {i["id"]: i["name"] for i in graph["inputs"]}
        self.assertEqual([name.get(out.get("alias")) for out in graph["outputs"]], ["m", "v", "w", None])


class Rounding(unittest.TestCase):
    def test_stored_values_read_back(self):
        codes = numpy.arange(256, dtype=numpy.uint8)
        values = rounding.decode("e4m3", codes)
        self.assertEqual(numpy.isnan(values).sum(), 2)
        kept = numpy.isfinite(values)
        numpy.testing.assert_array_equal(rounding.encode("e4m3", values)[kept], codes[kept])
        bits = numpy.arange(65536, dtype=numpy.uint16)
        wide = rounding.decode("bf16", bits)
        numpy.testing.assert_array_equal(rounding.encode("bf16", wide)[~numpy.isnan(wide)], bits[~numpy.isnan(wide)])

    def test_ties_go_to_even(self):
        numpy.testing.assert_array_equal(rounding.round_bf16([1 + 2**-8, 1 + 3 * 2**-8]), [1, 1 + 2**-6])
        numpy.testing.assert_array_equal(rounding.round_e4m3([17, 19, 463, 2**-10, -1e9]), [16, 20, 448, 0, -448])


class Builder(unittest.TestCase):
    def test_an_unused_input_is_an_error_and_a_dead_op_is_dropped(self):
        g = dag.Dag()
        x = g.input("x", "f32", 3)
        x + 1
        g.output(-x)
        self.assertEqual([op["op"] for op in g.to_dict()["ops"]], ["unary"])
        g.input("y", "f32", 3)
        with self.assertRaisesRegex(ValueError, "input y is not used"):
            g.to_dict()


if __name__ == "__main__":
    unittest.main()
