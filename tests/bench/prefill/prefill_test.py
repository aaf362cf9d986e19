#!/usr/bin/env python3
"""What prefill.py computes, on a host: a prompt by PyTorch's operators and by the plugin's, and float32 of a decoding step's parts."""

import os
import sys
import unittest

os.environ["TRITON_INTERPRET"] = "1"  # before kernels.py is imported

try:
    import torch
    import triton  # noqa: F401
except ImportError:
    sys.exit(0)  # nothing of it runs without

import prefill
from models import TINY
from step import Weights


class PromptTest(unittest.TestCase):
    def setUp(self):
        self.weights = Weights(TINY, "cpu")

    def test_the_operator_computes_what_torch_does(self):
        prompt = prefill.Prompt(self.weights, 9)
        own, found = prompt(prefill.between), prompt(prefill.operator)
        self.assertEqual(found.shape, (1, TINY.vocabulary))
        self.assertLess(prefill.relative_error(found, own), 0.03)

    def test_a_token_sees_those_before_it_alone(self):
        long, short = prefill.Prompt(self.weights, 9), prefill.Prompt(self.weights, 8)
        short.tokens = long.tokens[:8]
        self.assertGreater(prefill.relative_error(short(prefill.between), long(prefill.between)), 0.1)
        first = long.tokens.clone()
        long.tokens = torch.cat((first[:-1].flip(0), first[-1:]))
        other = long(prefill.between)
        long.tokens = first
        self.assertGreater(prefill.relative_error(other, long(prefill.between)), 0.01)  # positions count


if __name__ == "__main__":
    unittest.main()
