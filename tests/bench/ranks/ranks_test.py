#!/usr/bin/env python3
"""What the measurement over several GPUs needs neither GPUs nor PyTorch for: arguments, shapes by ranks, refusals, its file, and how peers are compiled."""

import contextlib
import io
import os
import sys
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import ranks  # noqa: E402
import shares  # noqa: E402

@contextlib.contextmanager
def torch_stands_in(multicast=0):
    """PyTorch without GPUs; modules that use it are imported again."""
    torch = mock.MagicMock()
    torch.distributed._symmetric_memory.rendezvous.return_value.multicast_ptr = multicast
    torch.ops.symm_mem.fused_all_gather_matmul.return_value = [None, [mock.MagicMock()]]
    torch.ops.symm_mem.fused_all_gather_scaled_matmul.return_value = [None, [mock.MagicMock()]]
    names = {"torch": torch, "torch.distributed": torch.distributed, "torch.distributed._symmetric_memory": torch.distributed._symmetric_memory,
             "torch.multiprocessing": torch.multiprocessing}
    with mock.patch.dict(sys.modules, names):
        yield torch


def side_of(rank, size):
    side = mock.MagicMock()
    side.group.rank, side.group.size = rank, size
    return side


class Arguments(unittest.TestCase):
    def refused(self, *arguments):
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            ranks.parse(["out.json", *arguments])
        return said.getvalue()

    def test_two_ranks_and_all_parts_unless_given(self):
        options = ranks.parse(["out.json"])
        self.assertEqual((options.ranks, options.parts, options.multicast), (2, list(ranks.PARTS), False))
        self.assertEqual(options.rows, [1, 16, 64, 128, 256, 1024, 4096])
        self.assertEqual(ranks.parse(["out.json", "--ranks", "8", "--rows", "3,5", "--parts", "times"]).rows, [3, 5])

    def test_what_no_group_has_is_refused(self):
        for number in ("1", "9", "two"):
            self.assertIn("--ranks", self.refused("--ranks", number))
        self.assertIn("'speed' is not one of right local", self.refused("--parts", "right,speed"))
        self.assertIn("'mpi' is not one of sinter nccl", self.refused("--ways", "mpi"))
        self.assertIn("'f16' is not one of bf16 e4m3", self.refused("--kinds", "f16"))
        self.assertIn("--rows", self.refused("--rows", "1,0"))

    def test_fewer_gpus_than_ranks_are_skipped(self):
        with torch_stands_in() as torch, mock.patch.dict(os.environ), contextlib.redirect_stdout(io.StringIO()) as said:
            torch.cuda.device_count.return_value = 2
            self.assertEqual(ranks.main(["out.json", "--ranks", "4"]), 77)
            self.assertEqual(said.getvalue(), "ranks: --ranks 4 needs as many GPUs, 2 are here\n")
            self.assertEqual(os.environ["NCCL_NVLS_ENABLE"], "0", "multicast is off unless it is asked for")
        with torch_stands_in() as torch, mock.patch.dict(os.environ, clear=True), contextlib.redirect_stdout(io.StringIO()):
            torch.cuda.device_count.return_value = 2
            ranks.main(["out.json", "--ranks", "4", "--multicast"])
            self.assertNotIn("NCCL_NVLS_ENABLE", os.environ)


class Shares(unittest.TestCase):
    def test_ranks_share_heads_and_columns(self):
        self.assertEqual(shares.share("Llama-3-70B", 2), (8192, 4096, 14336))
        self.assertEqual(shares.share("Qwen3-32B", 2), (5120, 4096, 12800))
        self.assertEqual(shares.share("Llama-3-70B", 4), (8192, 2048, 7168))
        self.assertEqual(shares.share("Qwen3-32B", 8), (5120, 1024, 3200))

    def test_what_ranks_cannot_share_is_named(self):
        with self.assertRaisesRegex(ValueError, "Llama-3-70B has 64 heads, which 3 ranks cannot share equally: measure 2, 4 or 8 ranks"):
            shares.share("Llama-3-70B", 3)

    def test_models_of_three_ranks_are_left_out_with_the_reason(self):
        with torch_stands_in():
            import rank_times

            options = mock.Mock(kinds=["bf16"], model_rows=[1])
            side = side_of(0, 3)
            side.group.error = None
            good, report = rank_times.models(side, None, options, 0, None)
            self.assertTrue(good)
            self.assertEqual([why.split()[0] for why in report["left out"]], list(shares.MODELS))
            self.assertEqual(list(report), ["left out"])

    def test_asynchronous_products_are_of_prompts(self):
        self.assertEqual(shares.layer_ways(1), shares.SUMS)
        self.assertEqual(shares.layer_ways(1024), (*shares.SUMS, "symm async"))


class Checks(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        stack.enter_context(torch_stands_in())
        import rank_checks

        self.checks = rank_checks

    def test_all_but_the_last_rank_must_name_it(self):
        told = {"other plan": "rank 3 binds plan 12", "missed": 3, "seconds": 2.1, "launch": "rank 3 has sent nothing for 2 s"}
        for rank in range(4):
            self.assertTrue(self.checks.is_refused(told, rank, 4))
        for wrong in ({"other plan": "bound"}, {"missed": 1}, {"seconds": 9.0}, {"launch": "launched"}):
            self.assertFalse(self.checks.is_refused({**told, **wrong}, 0, 4), wrong)
        self.assertTrue(self.checks.is_refused({"other plan": "rank 0 binds plan 12"}, 3, 4))

    def test_one_wrong_element_is_wrong(self):
        right = {"sum 1": 0, "layer 1": [1e-5, 2e-5], "ended": "None"}
        self.assertTrue(self.checks.are_right(right))
        for wrong in ({"sum 1": 1}, {"layer 1": [1e-5, 0.5]}, {"ended": "rank 1 .."}):
            self.assertFalse(self.checks.are_right({**right, **wrong}), wrong)

    def test_the_last_rank_alone_has_another_plan_and_does_not_launch(self):
        class Error(Exception):
            message = "rank 2 binds plan 12"

        sinter = mock.MagicMock(Error=Error)
        for rank, launches in ((0, 2), (1, 2), (2, 0)):
            side, bound = side_of(rank, 3), mock.MagicMock()
            side.group.missed = 2
            side.sum.side_effect = [Error(), bound]
            with mock.patch.dict(sys.modules, sinter=sinter):
                self.checks.refused(side, lambda: None)
            self.assertEqual(side.sum.call_args_list[0], mock.call(5, residual=int(rank == 2)))
            self.assertEqual(bound.call_count, launches)

    def test_the_form_is_read_from_the_schedules_alone(self):
        text = "kernel 0\n  schedule   product bm8 pushes4 grid128\nkernel 1\n  schedule   one-shot threads=512\nrunner-up [two-shot threads=256]"
        self.assertEqual(self.checks.form_of(text), "sent by the product, one-shot")
        self.assertEqual(self.checks.form_of("  schedule   product bm8\n  schedule   two-shot threads=256 grid=131"), "two-shot")


class Peers(unittest.TestCase):
    def test_each_case_compiles_its_peers_anew(self):
        with torch_stands_in() as torch:
            import rank_times

            order = []
            torch._dynamo.reset.side_effect = lambda: order.append("reset")
            torch.compile.side_effect = lambda **_: lambda function: order.append("compile") or function
            with mock.patch.object(rank_times, "between_attentions"), mock.patch.object(rank_times, "weights_between", return_value=[mock.MagicMock()] * 10):
                for kind in ("bf16", "e4m3"):
                    for rows in (16, 1024):
                        order.clear()
                        _, ways = rank_times.ways_between(side_of(0, 4), shares.share("Qwen3-32B", 4), kind, rows, mock.MagicMock())
                        self.assertEqual(tuple(ways), ("sinter", *shares.layer_ways(rows)))
                        self.assertEqual((order[0], set(order[1:])), ("reset", {"compile"}))

    def test_layers_have_the_ways_that_the_lists_ask_for(self):
        with torch_stands_in():
            import rank_times

            for size in (2, 4, 8):
                for rows in (1, 1024):
                    found = rank_times.contestants(side_of(0, size), rows, mock.MagicMock())
                    of = lambda start: [way.removeprefix(start) for way in found if way.startswith(start) and "sinter" not in way]
                    self.assertEqual(tuple(of("layer, ")), shares.layer_ways(rows))
                    self.assertEqual(tuple(of("sum + residual, ")), shares.SUMS)
                    self.assertEqual("layer, sinter, the sum sends" in found, size <= 4)

    def test_multimem_needs_multicast(self):
        for there in (0, 1):
            with torch_stands_in(multicast=there) as torch:
                import rank_peers

                ways, _ = rank_peers.sums(1, 8, None, mock.MagicMock(group_name="0"))
                self.assertEqual(tuple(ways), shares.SUMS)
                ways["symm one-shot"](lambda out: out)
                if there:
                    ways["symm multimem"](lambda out: out)
                    self.assertTrue(torch.ops.symm_mem.multimem_all_reduce_.called)
                else:
                    with self.assertRaisesRegex(RuntimeError, "NVLink multicast is off"):
                        ways["symm multimem"](lambda out: out)

    def test_without_symmetric_memory_its_ways_say_why(self):
        with torch_stands_in() as torch:
            import rank_peers

            torch.distributed._symmetric_memory.empty.side_effect = RuntimeError("no peer access")
            ways, kept = rank_peers.sums(1, 8, None, mock.MagicMock())
            self.assertEqual((tuple(ways), kept), (shares.SUMS, None))
            with self.assertRaisesRegex(RuntimeError, "no peer access"):
                ways["symm two-shot"](lambda out: out)

    def test_rows_that_ranks_cannot_share_have_no_asynchronous_products(self):
        with torch_stands_in():
            import rank_peers

            with self.assertRaisesRegex(ValueError, "1026 rows are not a multiple of 4 ranks"):
                rank_peers.async_way(1026, 4, lambda: None)["symm async"]()


class File(unittest.TestCase):
    def test_it_has_the_state_the_number_of_ranks_and_each_rank_that_told(self):
        options = ranks.parse(["out.json", "--ranks", "3"])
        results = {0: {"failed": []}, 2: {"failed": ["right"]}, "local": {"failed": []}}
        document = ranks.document_of(options, {"commit": "1234567", "dirty": False}, results, ["rank 1 told nothing"])
        self.assertEqual((document["commit"], document["number of ranks"], document["multicast"]), ("1234567", 3, False))
        self.assertEqual([one["rank"] for one in document["ranks"]], [0, 2])
        self.assertEqual(document["failed"], ["rank 1 told nothing"])

    def test_a_rank_that_does_not_end_is_killed_and_named(self):
        spawn, options = mock.MagicMock(), ranks.parse(["out.json", "--ranks", "3"])
        processes = [mock.MagicMock(**{"is_alive.return_value": alive}) for alive in (False, True, False)]
        spawn.Process.side_effect = processes
        failed = ranks.told_by_ranks(spawn, options, {0: {}, 1: {}})
        self.assertEqual(failed, ["rank 1 did not end", "rank 2 told nothing"])
        self.assertEqual([one.kill.called for one in processes], [False, True, False])


if __name__ == "__main__":
    unittest.main()
