#!/usr/bin/env python3
"""What paper_kernels.py and paper_peers.py make of lists and sources, without their packages, torch or a GPU."""

import json
import os
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import paper_kernels  # noqa: E402
import paper_peers  # noqa: E402

LISTS = [os.path.join(HERE, "problems", name) for name in ("gemm_chains.txt", "gated_ffn.txt")]
TILELANG = """#include <a.h>
extern "C" __global__ void plain_kernel(const A a);
extern "C" __global__ void __launch_bounds__(256, 1) plain_kernel(const A a) { barrier.init(1); }
extern "C" int init() { cudaFuncSetAttribute(plain_kernel); return 0; }
extern "C" int call(bfloat16_t* __restrict__ A, float* __restrict__ C, cudaStream_t stream=cudaStreamDefault) { plain_kernel<<<1, 1>>>(A); }
"""


def stage(sums=False):
    return {"id": "G1", "reads": ["x"], "writes": "y", "candidates": [{"configuration": "1", "args": ["x", "y"], "sums": sums, "source": TILELANG}]}


class ProblemsTest(unittest.TestCase):
    def test_reads_the_committed_lists(self):
        listed = list(paper_kernels.problems(LISTS))
        self.assertEqual([name for name, *_ in listed], [f"G{i}" for i in range(1, 11)] + [f"S{i}" for i in range(1, 9)])
        self.assertEqual(listed[1][2:], ("gemm_chain", {"m": 128, "n": 256, "k": 512, "l": 64}))

    def test_refuses_what_it_would_not_compute(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write("X gemm_chain m=8 n=8 k=8 l=8 act=gelu layout=oi dtype=bf16\n")
            file.flush()
            with self.assertRaisesRegex(ValueError, "X: has act=gelu .*only relu"):
                list(paper_kernels.problems([file.name]))


class ConfigurationsTest(unittest.TestCase):
    def test_parts_of_a_sum_are_whole_blocks_and_blocks_are_not_wider_than_the_result(self):
        for _, _, kind, p in paper_kernels.problems(LISTS):
            first, second = paper_kernels.configurations(kind == "gated_ffn", p)
            self.assertEqual((first[1], second[1], second[2]), ("c", "y", (p["m"], p["l"], p["n"])))
            self.assertTrue(any(split == 1 for _, split in second[3]))
            for (_, block_n, block_k, _, _), split in second[3]:
                self.assertEqual((p["n"] % (split * block_k), block_n <= p["l"]), (0, True))


class SourcesTest(unittest.TestCase):
    def test_kernels_of_one_prologue_have_names_of_their_own(self):
        stages = [stage(), stage()]
        ((prologue, bodies),) = paper_kernels.sources(stages).items()
        self.assertEqual(prologue, "#include <a.h>\n")
        self.assertEqual([number for number, _ in bodies], [0, 1])
        for name in ("kernel_1", "call_1(", "init_1()", "barrier.init(1)", "#define error_buf error_buf_1"):
            self.assertIn(name, bodies[1][1])
        self.assertNotIn("plain_kernel", bodies[1][1])
        self.assertEqual(stages[1]["candidates"][0]["types"], ["bfloat16_t", "float"])
        self.assertNotIn("source", stages[1]["candidates"][0])

    def test_a_kernel_that_does_not_compile_leaves_the_others(self):
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "tilelang.jsonl"), "w", encoding="utf-8") as file:
                file.write(json.dumps(stage()) + "\n" + json.dumps(stage(True)) + "\n")
            compiled = paper_kernels.nvcc
            try:
                paper_kernels.nvcc = lambda _folder, name, _prologue, bodies: [(name, [number for number, _ in bodies if number], "wrong")]
                paper_kernels.build(folder)
            finally:
                paper_kernels.nvcc = compiled
            found = paper_peers.built(folder)
        self.assertEqual(list(found), [("G1", "tilelang")])
        self.assertEqual([[one["library"] for one in each["candidates"]] for each in found["G1", "tilelang"]], [[], ["tilelang_0"]])


if __name__ == "__main__":
    unittest.main()
