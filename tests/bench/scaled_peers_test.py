#!/usr/bin/env python3
"""The layers that scaled_peers.py measures, without torch or a GPU."""

import sys
import unittest

import scaled_peers
import sinter
from scaled_layers import MODELS


class ScaledPeersTest(unittest.TestCase):
    def test_a_layer_takes_each_matrix_with_its_scales(self):
        scale = {"row": lambda n, k: (n, 1), "group": lambda n, k: (n // 128, k // 128)}
        for k, n in MODELS.values():
            for scales, of in scale.items():
                buffers = scaled_peers.chain(sinter, k, n, scales).buffers(3)
                self.assertEqual([one.shape for one in buffers],
                                 [(3, k), (k,), (n, k), of(n, k), (n, k), of(n, k), (k, n), of(k, n), (3, k)])
                self.assertEqual([str(one.dtype) for one in buffers],
                                 ["bf16", "bf16", "e4m3", "f32", "e4m3", "f32", "e4m3", "f32", "bf16"])

    def test_arguments_name_contestants_and_models(self):
        options = scaled_peers.parse(["--out", "x"])
        self.assertEqual((options.models.split(","), options.rows), (list(MODELS), "1,16,64,128,256,1024"))
        self.assertIn("cublaslt_fast", options.contestants.split(","))


if __name__ == "__main__":
    program = unittest.main(exit=False, argv=sys.argv[:1])
    sys.exit(0 if program.result.wasSuccessful() else 1)
