#!/usr/bin/env python3
"""The layers that scaled_peers.py measures, without torch or a GPU."""

import sys
import unittest

import scaled_peers
import sinter
from scaled_layers import LAYERS, MODELS, random_layers


class ScaledPeersTest(unittest.TestCase):
    def test_a_layer_takes_each_matrix_with_its_scales(self):
        scale = {"row": lambda n, k: (n, 1), "group": lambda n, k: (n // 128, k // 128)}
        for k, n, gated, _ in LAYERS.values():
            for scales, of in scale.items():
                buffers = scaled_peers.chain(sinter, k, n, scales, gated).buffers(3)
                first = [(n, k), of(n, k)] * (2 if gated else 1)
                self.assertEqual([one.shape for one in buffers], [(3, k), (k,), *first, (k, n), of(k, n), (3, k)])
                self.assertEqual([str(one.dtype) for one in buffers], ["bf16", "bf16", *["e4m3", "f32"] * (3 if gated else 2), "bf16"])

    def test_contestants_of_sinter_compute_what_their_names_say(self):
        text = lambda *arguments, **named: str(scaled_peers.chain(sinter, 1024, 512, *arguments, **named))
        plain, rounded, fast = text("row"), text("row", rounded=True), text("row", accumulate="fast")
        self.assertEqual((plain.count("bf16[M,512]"), rounded.count("bf16[M,512]")), (0, 1))
        self.assertEqual((plain.count("accumulate=fast"), fast.count("accumulate=fast")), (0, 3))
        self.assertNotIn("e4m3", text(None))
        buffers = scaled_peers.chain(sinter, 1024, 512, None).buffers(3)
        self.assertEqual([one.shape for one in buffers], [(3, 1024), (1024,), (512, 1024), (512, 1024), (1024, 512), (3, 1024)])
        self.assertEqual([scaled_peers.scales_of(name) for name in ("sinter", "sinter-block", "sinter_bf16")], ["row", "group", None])

    def test_random_layers_are_those_of_their_seed(self):
        layers = random_layers()
        self.assertEqual(layers, random_layers(40, 2026))
        self.assertNotEqual(layers, random_layers(40, 2027))
        self.assertEqual(len(layers), 40)
        for k, n, _, m in layers.values():
            self.assertTrue(512 <= k <= 8192 and 512 <= n <= 8192 and 1 <= m <= 2048 and k % 128 == n % 128 == 0)
        self.assertTrue(10 < sum(one.gated for one in layers.values()) < 30)

    def test_arguments_name_contestants_and_models(self):
        options = scaled_peers.parse(["--out", "x"])
        self.assertEqual((options.models.split(","), options.rows), (list(MODELS), "1,16,64,128,256,1024"))
        self.assertIn("cublaslt_fast", options.contestants.split(","))
        options = scaled_peers.parse(["--out", "x", "--cases", "llama3_8b@37,S1@128,llama3_8b@5"])
        self.assertEqual(scaled_peers.asked(options), {"llama3_8b": [37, 5], "S1": [128]})
        options = scaled_peers.parse(["--out", "x", "--models", "llama3_8b,S1", "--rows", "1,16"])
        self.assertEqual(scaled_peers.asked(options), {"llama3_8b": [1, 16], "S1": [128]})


if __name__ == "__main__":
    program = unittest.main(exit=False, argv=sys.argv[:1])
    sys.exit(0 if program.result.wasSuccessful() else 1)
