#!/usr/bin/env python3
"""What ranks.py needs neither GPUs nor PyTorch for: how its peers are compiled."""

import os
import sys
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)


class RanksTest(unittest.TestCase):
    def test_each_case_compiles_its_peers_anew(self):
        torch = mock.MagicMock()
        names = ("torch", "torch.distributed", "torch.distributed._symmetric_memory", "torch.multiprocessing")
        with mock.patch.dict(sys.modules, {name: torch if name == "torch" else mock.MagicMock() for name in names}):
            import ranks

            order = []
            torch._dynamo.reset.side_effect = lambda: order.append("reset")
            torch.compile.side_effect = lambda **_: lambda function: order.append("compile") or function
            side = mock.MagicMock()
            side.group.rank, side.group.size = 0, 2
            with mock.patch.object(ranks, "between_attentions"), mock.patch.object(ranks, "weights_between", return_value=[mock.MagicMock()] * 10):
                for kind in ("bf16", "e4m3"):
                    order.clear()
                    _, ways = ranks.ways_between(side, ranks.MODELS["Qwen3-32B"], kind, 16, mock.MagicMock())
                    self.assertEqual(list(ways), ["sinter", "nccl", "symm one-shot", "symm two-shot"])
                    self.assertEqual((order[0], set(order[1:])), ("reset", {"compile"}))


if __name__ == "__main__":
    unittest.main()
