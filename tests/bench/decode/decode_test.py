#!/usr/bin/env python3
"""What decode.py computes without a GPU: bytes, chains and their plans, arguments, tables. With PyTorch and Triton here also its
kernels, in Triton's interpreter, and whole steps against float32, Sinter's chains run by the reference executor."""

import contextlib
import ctypes
import dataclasses
import io
import os
import sys
import tempfile
import threading
import unittest
import unittest.mock

os.environ["TRITON_INTERPRET"] = "1"  # before kernels.py is imported

import chains
import decode
import models
import results
import sinter
import split
import variants
from models import LARGE, MIXTURES, MODELS, SCALES, TINY, TINY8, TINY_MIXTURE

try:
    import torch
    import triton  # noqa: F401

    import contestants
    import kernels
    import measure
    import reference
    import step
except ImportError:
    torch = None
needs_torch = unittest.skipIf(torch is None, "no PyTorch with Triton")

PARTS = ("first", "between", "last", "upper", "lower", "lower_last")


class ModelsTest(unittest.TestCase):
    def test_parameters_are_those_that_are_published(self):
        """Billions, the matrix of logits once, within a percent."""
        published = {"Qwen3-0.6B": 0.596, "Llama-3.2-1B": 1.236, "Qwen3-4B": 4.022, "Qwen3-8B": 8.191 - 0.622,
                     "Llama-3-8B": 8.030 - 0.525}
        for name, billions in published.items():
            self.assertAlmostEqual(MODELS[name].weight_bytes() / 2e9 / billions, 1, delta=0.01, msg=name)

    def test_a_mixture_reads_the_experts_that_its_rows_take(self):
        (model,) = MIXTURES.values()
        expert, logits = 3 * 2048 * 768, 2048 * 151936
        self.assertAlmostEqual((48 / 12 * (model.weight_bytes() / 2 - logits) + logits) / 1e9, 3.3 - 0.31, delta=0.1)  # "A3B", one matrix of logits
        self.assertAlmostEqual((model.weight_bytes(rows=10**4) - model.weight_bytes()) / 2 / 12 / expert, 120, places=3)

    def test_limit_counts_the_cache_only_with_attention(self):
        model = MODELS["Llama-3-8B"]
        cache = 2 * 32 * 2 * 8 * 128 * 16 * 1024  # bytes, layers, keys and values, heads, columns, rows, positions
        self.assertAlmostEqual(
            models.limit_us(model, 16, 1024) - models.limit_us(model, 16, 1024, attention=False), cache / 4.55e6, places=3)


    def test_parts_of_models_that_are_split_have_whole_extents(self):
        for model in LARGE.values():
            part = models.part_of(model, 2)
            self.assertEqual((2 * part.inner, 2 * part.q, 2 * part.qkv, 2 * part.vocabulary), (model.inner, model.q, model.qkv, model.vocabulary))
            self.assertEqual((part.hidden, part.layers), (model.hidden, model.layers))
            self.assertAlmostEqual(2 * part.layer_bytes() / model.layer_bytes(), 1, places=3)
            self.assertEqual(part.hidden * part.inner % 8, 0)


class ChainsTest(unittest.TestCase):
    def test_buffers_have_the_shapes_of_the_weights(self):
        model = MODELS["Qwen3-4B"]
        shapes = lambda infos: [info.shape for info in infos]
        h, f, q, qkv = model.hidden, model.inner, model.q, model.qkv
        between = chains.between(model)
        self.assertEqual(shapes(between.buffers(8)), [
            (8, q), (8, h), (h, q), (h,), (f, h), (f, h), (h, f), (h,), (qkv, h), (8, h), (8, qkv)])
        self.assertEqual(shapes(chains.between(model, folded=True).buffers(8)), [
            (8, q), (8, h), (h, q), (f, h), (f, h), (h, f), (qkv, h), (8, h), (8, qkv)])
        self.assertEqual(shapes(chains.last(model).buffers(8))[-1], (8, model.vocabulary))

    def test_a_mixture_has_its_router_and_its_experts_as_weights(self):
        (model,) = MIXTURES.values()
        h, q, qkv, e, n = model.hidden, model.q, model.qkv, model.experts, model.inner
        self.assertEqual([info.shape for info in chains.between(model).buffers(8)], [
            (8, q), (8, h), (h, q), (h,), (e, h), (e, 2 * n, h), (e, h, n), (h,), (qkv, h), (8, h), (8, qkv)])

    def test_all_chains_of_all_models_are_valid(self):
        for model in MODELS.values():
            for part in PARTS:
                for folded in (False, True):
                    self.assertTrue(getattr(chains, part)(model, folded).uses_m)

    def test_chains_of_8_bit_weights_are_valid_and_take_each_matrix_with_its_scales(self):
        for model in MODELS.values():
            for part in PARTS:
                for scales in SCALES.values():
                    self.assertTrue(getattr(chains, part)(model, scales=scales).uses_m)
        model = MODELS["Qwen3-8B"]
        h, f, q, qkv = model.hidden, model.inner, model.q, model.qkv
        for scales, of in (("row", lambda n, k: (n, 1)), ("group", lambda n, k: (n // 128, k // 128))):
            with_scale = lambda n, k: [(n, k), of(n, k)]
            self.assertEqual([info.shape for info in chains.between(model, scales=scales).buffers(8)], [
                (8, q), (8, h), *with_scale(h, q), (h,), *with_scale(f, h), *with_scale(f, h), *with_scale(h, f), (h,),
                *with_scale(qkv, h), (8, h), (8, qkv)])

    def test_a_layer_is_planned_for_a_gpu_that_is_not_here(self):
        cache = os.environ.get("SINTER_CACHE_DIR", "")
        with sinter.Context(target="h200", cache_dir=cache) as context:
            try:
                plan = context.prepare(chains.between(MODELS["Qwen3-0.6B"]), 1)
            except sinter.Error as error:
                if error.code != sinter.Status.UNAVAILABLE:
                    raise
                self.skipTest(f"no run-time compiler: {error}")
            self.assertLessEqual(plan.kernel_count, 6)  # four products, one of them gated, and two norms
            self.assertGreater(plan.predicted_us, models.limit_us(MODELS["Qwen3-0.6B"], 1, 0) / 28 * 0.5)


class ArgumentsTest(unittest.TestCase):
    def refused(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as ended:
            decode.parse(["--out", "x.json", *arguments])
        self.assertEqual(ended.exception.code, 2)
        return said.getvalue()

    def test_lists_are_read(self):
        options = decode.parse(["--out", "x", "--models", "Qwen3-4B,Llama-3-8B", "--rows", "1,16", "--contexts", "4096"])
        self.assertEqual((options.models, options.rows, options.contexts), (["Qwen3-4B", "Llama-3-8B"], [1, 16], [4096]))

    def test_what_is_unknown_is_named(self):
        self.assertIn("'GPT-2'", self.refused("--models", "Qwen3-4B,GPT-2"))
        self.assertIn("'1,0'", self.refused("--rows", "1,0"))
        self.assertIn("'1,x'", self.refused("--rows", "1,x"))

    def test_contestants_of_a_mixture_are_checked(self):
        (name,) = MIXTURES
        self.assertIn("sinter-split-pdl computes no mixture", self.refused("--models", name))
        self.assertEqual(decode.parse(["--out", "x", "--models", name, "--contestants", "serving,sinter-pdl"]).models, [name])

    def test_contestants_of_mixtures_alone_are_checked(self):
        (name,) = MIXTURES
        for contestant in variants.OPAQUE:
            self.assertIn(f"{contestant} computes mixtures", self.refused("--contestants", contestant))
            self.assertIn("sinter-plugin-fp8", self.refused("--contestants", "sinter-plugin-fp8"))
            self.assertEqual(decode.parse(["--out", "x", "--models", name, "--contestants", contestant]).contestants, [contestant])

    def test_contestants_are_checked(self):
        self.assertIn("'jax'", self.refused("--contestants", "compile,jax"))
        for name in ("sinter-fast", "sinter-pdl-split", "sinter-split-unfused", "sinters"):
            self.assertIn(repr(name), self.refused("--contestants", name))
        for name in ("serving-fp8", "compile-fast", "compile-fp8-block-fast", "sinter-pdl-fp8", "sinter-folded-fp8", "sinter-block"):
            self.assertIn(repr(name), self.refused("--contestants", name))
        good = ("eager,serving,compile,max-autotune,sinter,sinter-split-folded-pdl,sinter-unfused,compile-fp8,compile-fp8-fast,"
                "max-autotune-fp8-block,sinter-fp8-pdl,sinter-split-fp8-block-pdl")
        self.assertEqual(decode.contestant_names(good), good.split(","))

    def test_names_say_what_the_weights_are(self):
        self.assertEqual([variants.weights_of(name) for name in ("sinter-pdl", "sinter-unfused-fp8-pdl", "compile-fp8-block")],
                         [("bf16", "sinter-pdl"), ("fp8", "sinter-unfused-pdl"), ("fp8-block", "compile")])
        self.assertEqual([variants.torch_of(name) for name in ("compile-fp8-fast", "max-autotune", "eager-fp8-block", "sinter")],
                         [("compile", True), ("max-autotune", False), ("eager", False), None])

    def test_arguments_of_two_gpus_are_checked(self):
        options = split.parse(["--out", "x", "--models", "Qwen3-32B-12L", "--rows", "1,16", "--contestants", "nccl,sinter-pdl"])
        self.assertEqual((options.models, options.rows, options.contestants), (["Qwen3-32B-12L"], [1, 16], ["nccl", "sinter-pdl"]))
        for wrong in (["--models", "Llama-3-8B"], ["--contestants", "serving"]):
            with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit) as ended:
                split.parse(["--out", "x", *wrong])
            self.assertEqual(ended.exception.code, 2)

    def test_a_file_is_asked_for(self):
        with contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            decode.parse([])

    def test_warming_processes_are_called_as_this_program_reads(self):
        options = decode.parse(["--out", "x", "--cases", "Qwen3-4B@1,Llama-3-8B@7,Qwen3-4B@93"])
        self.assertEqual((options.models, options.cases), (["Qwen3-4B", "Llama-3-8B"], {"Qwen3-4B": [1, 93], "Llama-3-8B": [7]}))
        options = decode.parse(decode.warm_command("Qwen3-4B", 8, ["compile"])[3:])
        self.assertTrue(options.warm_only)
        self.assertEqual((options.models, options.rows, options.contestants), (["Qwen3-4B"], [8], ["compile"]))


def case_rows():
    model = MODELS["Qwen3-0.6B"]
    more = {"kernels": 10, "rel_error": 1e-2}
    return [results.row(model, 8, 1024, name, us, bare, **more)
            for name, us, bare in (("sinter-pdl", 800.0, 500.0), ("sinter", 850.0, 450.0), ("compile", 1200.0, 900.0),
                                   ("serving", 1100.0, 990.0))]


class ResultsTest(unittest.TestCase):
    def test_a_row_has_rates_and_shares(self):
        row = case_rows()[0]
        self.assertAlmostEqual(row["tokens_per_s"], 8 / 800e-6)
        self.assertAlmostEqual(row["attention_share"], 3 / 8)
        self.assertAlmostEqual(row["bandwidth_without_attention"], MODELS["Qwen3-0.6B"].weight_bytes() / 500e-6 / 4.55e12)
        self.assertGreater(row["bandwidth"] * 800, row["bandwidth_without_attention"] * 500)

    def test_the_best_are_compared(self):
        (case,) = results.cases(case_rows()).values()
        self.assertAlmostEqual(results.ratio(case), 1100 / 800)
        self.assertAlmostEqual(results.ratio(case, "without_attention_us"), 900 / 500)

    def test_weights_of_8_bits_are_a_case_of_their_own(self):
        model = MODELS["Llama-3-8B"]
        one = [results.row(model, 8, 1024, name, us, us - 100, kernels=10, rel_error=1e-2)
               for name, us in (("sinter-pdl", 3900.0), ("compile", 4700.0), ("sinter-fp8-pdl", 2300.0), ("compile-fp8", 3300.0))]
        found = results.cases(one)
        self.assertEqual(list(found), [("Llama-3-8B", 8, 1024), ("Llama-3-8B fp8", 8, 1024)])
        self.assertEqual([round(results.ratio(case), 2) for case in found.values()], [1.21, 1.43])
        weights = model.weight_bytes(), model.weight_bytes("row")
        self.assertAlmostEqual(one[2]["bandwidth_without_attention"] / one[0]["bandwidth_without_attention"],
                               weights[1] / weights[0] * 3800 / 2200)
        self.assertLess(weights[1] / weights[0], 0.58)

    def test_a_part_of_a_model_has_a_line(self):
        part = models.part_of(LARGE["Llama-3-70B-12L"], 2)
        rows = [results.row(part, 16, 1024, name, us, us, kernels=9, rel_error=1e-2) for name, us in (("nccl", 300.0), ("sinter-pdl", 270.0))]
        self.assertIn("| Llama-3-70B-12L/TP2 | 16 | 1024 | nccl | 300 | 270 | 1.11 |", results.table(case_rows() + rows))

    def test_a_table_has_a_line_for_each_case_with_both(self):
        alone = {**case_rows()[0], "rows": 32}
        lines = results.table(case_rows() + [alone]).splitlines()
        self.assertEqual(len(lines), 3)
        self.assertTrue(lines[2].startswith("| Qwen3-0.6B | 8 | 1024 | serving | 1100 | 800 | 1.38 | 1.80 | 10000 |"))
        self.assertEqual(len({line.count("|") for line in lines}), 1)

    def test_the_source_is_what_the_library_says(self):
        state = results.source_state
        self.assertEqual(state("sinter 0.1.0 (commit 97f8b9c038e5 dirty; GNU 12)"), {"commit": "97f8b9c038e5", "dirty": True})
        self.assertEqual(state("sinter 0.1.0 (commit 97f8b9c038e5; GNU 12)"), {"commit": "97f8b9c038e5", "dirty": False})
        self.assertEqual(state(sinter.build_info()).keys(), {"commit", "dirty"})

    def test_files_are_replaced_as_a_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.json")
            results.write(path, {"library": "none"}, case_rows(), [])
            results.write(path, {"library": "none"}, case_rows()[:1], [{"why": "x"}])
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                self.assertEqual(results.main([path]), 0)
            self.assertEqual(len(said.getvalue().splitlines()), 2)
            self.assertEqual(os.listdir(folder), ["x.json"])


# ---------------------------------------------------------------- With PyTorch


class HostPlan:
    """A chain that the reference executor computes, with f32 tensors instead of bf16 ones."""

    def __init__(self, chain):
        self.chain = chain

    def bind(self, *inputs, out):
        outputs = out if isinstance(out, tuple) else (out,)
        rows = inputs[0].shape[0]
        infos = self.chain.buffers(rows)
        assert [tuple(tensor.shape) for tensor in (*inputs, *outputs)] == [info.shape for info in infos]

        def launch(pdl=False):
            given = {sinter.DType.BF16: torch.bfloat16}
            held = [tensor.to(given.get(info.dtype, tensor.dtype)).contiguous() for tensor, info in zip(inputs, infos)]
            made = [torch.empty(tensor.shape, dtype=torch.bfloat16) for tensor in outputs]
            addresses = lambda tensors: (ctypes.c_void_p * len(tensors))(*[tensor.data_ptr() for tensor in tensors])
            sinter._library.call("sinter_x_reference_run", self.chain._get(), rows, len(held), addresses(held), len(made),
                                 addresses(made), 1)
            for tensor, value in zip(outputs, made):
                tensor.copy_(value)
            return out

        return launch


def route(logits, top):
    weights, ids = torch.topk(torch.softmax(logits, -1), top)
    return ids.int(), weights / weights.sum(-1, keepdim=True)


class HostPlans:
    def __init__(self, model, flags, scales):
        self.plans = {part: HostPlan(getattr(chains, part)(model, "folded" in flags, scales)) for part in variants.parts_of(flags)}

    def __getitem__(self, part):
        return self.plans[part]


@needs_torch
class StepTest(unittest.TestCase):
    def wrong_by(self, model, rows, context, make, scales=None):
        weights = step.Weights(model, "cpu", torch.float32)
        held = [value for layer in weights.layers for value in layer.__dict__.values()]
        held = [tensor for value in held for tensor in (step.halves(value) if isinstance(value, step.Routed) else [value])]
        for tensor in [*held, weights.embedding, weights.norm]:
            tensor.copy_(tensor.bfloat16())
        if scales:
            weights = weights.quantized(scales)
        state = step.State(weights, rows, context)
        state.reset()
        wanted = reference.logits(weights, state)
        contestant = make(weights, state)
        state.poison()
        found = step.run(contestant, weights, state)
        self.assertEqual(int(state.position), context // 2 + 1)
        self.assertEqual(state.tokens.tolist(), found.argmax(1).tolist())
        return measure.relative_error(found, wanted)

    def sinter(self, weights, state, flags=frozenset(), scales=None):
        source = weights.folded() if "folded" in flags else weights
        made = contestants.Sinter(source, state, HostPlans(weights.model, flags, scales), flags)
        made.poison()
        return made

    def test_eager_and_serving_steps_are_the_references(self):
        eager, serving = (lambda w, s: contestants.Torch(w)), (lambda w, s: contestants.Serving(w))
        plain = dataclasses.replace(TINY, qk_norm=False, kv_heads=4)
        # One part of the positions; a part that is not full; sixteen parts.
        for model, rows, context, make in ((TINY, 2, 64, eager), (plain, 3, 200, serving), (TINY, 1, 1024, serving)):
            self.assertLess(self.wrong_by(model, rows, context, make), 1e-5)

    def test_sinters_steps_are_the_references_within_rounding(self):
        for flags in (set(), {"folded", "pdl"}, {"split", "folded"}):
            make = lambda w, s, flags=flags: self.sinter(w, s, flags)
            self.assertLess(self.wrong_by(TINY, 3, 64, make), 0.02, flags)

    def test_steps_of_a_mixture_are_the_references(self):
        eager, serving = (lambda w, s: contestants.Torch(w)), (lambda w, s: contestants.Serving(w))
        self.assertLess(self.wrong_by(TINY_MIXTURE, 3, 64, eager), 1e-5)
        self.assertLess(self.wrong_by(TINY_MIXTURE, 3, 64, serving), 1e-5)
        self.assertLess(self.wrong_by(TINY_MIXTURE, 3, 64, self.sinter), 0.02)

    def test_experts_as_an_operator_are_the_references(self):
        """By torch instead of Triton's kernels, which are the serving form's."""
        def by_torch(x, ids, weights, both, down):
            return contestants._experts(x, step.Routed(None, both, ids.shape[1]), down, (weights, ids.long()))

        def make(weights, state):
            made = contestants.Torch(weights)
            made.experts = contestants._opaque(by_torch)
            return made

        with unittest.mock.patch.object(contestants.triton_experts, "route", route):
            self.assertLess(self.wrong_by(TINY_MIXTURE, 3, 64, make), 1e-5)

    def test_steps_of_8_bit_weights_are_those_of_the_dequantised(self):
        for scales in SCALES.values():
            eager = self.wrong_by(TINY8, 3, 64, lambda w, s: contestants.Torch(w), scales)
            for flags in (set(), {"split"}):
                make = lambda w, s, flags=flags: self.sinter(w, s, flags, scales)
                self.assertLess(self.wrong_by(TINY8, 3, 64, make, scales), eager * 1.3, (scales, flags))
            self.assertLess(eager, 0.12)
            self.assertGreater(eager, 0.005)  # codes have three fraction bits

    def test_steps_of_two_ranks_are_those_of_the_whole(self):
        """A thread a rank; Triton's interpreter runs one at a time."""
        whole, context = step.Weights(TINY, "cpu", torch.float32), 64
        state = step.State(whole, 3, context)
        state.reset()
        wanted = reference.logits(whole, state)
        parts = [split.part_of_weights(whole, rank, 2) for rank in range(2)]
        self.assertEqual([part.model for part in parts], [models.part_of(TINY, 2)] * 2)
        met, running, terms, found = threading.Barrier(2, timeout=60), threading.Lock(), [None, None], [None, None]

        def run(rank):
            def behind(a, w):
                terms[rank] = torch.nn.functional.linear(a, w)
                running.release()
                met.wait()
                total = terms[0] + terms[1]
                met.wait()
                running.acquire()
                return total

            with running, torch.no_grad():
                mine = split.part_of_state(state, parts[rank], rank, 2)
                found[rank] = step.run(contestants.Torch(parts[rank], behind=behind), parts[rank], mine, choose=False)
                self.assertEqual(mine.tokens.tolist(), state.tokens.tolist())

        threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertLess(measure.relative_error(torch.cat(found, 1), wanted), 1e-5)

    def test_a_norm_too_many_would_be_seen(self):
        self.assertGreater(self.wrong_by(TINY, 3, 64, lambda w, s: contestants.Torch(w.folded())), 0.1)

    def test_a_wrong_result_is_not_timed(self):
        self.assertEqual(measure.check(0.012, 0.01, 1.3), 0.012)
        for error in (0.0131, measure.relative_error(torch.full((2,), float("nan")), torch.ones(2))):
            with self.assertRaises(measure.WrongResult):
                measure.check(error, 0.01, 1.3)

    def test_positions_are_split_until_the_chip_is_full(self):
        self.assertEqual([kernels.shape_for(rows * 8, 1024)[0] for rows in (1, 2, 8, 16, 32)], [16, 8, 2, 1, 1])
        self.assertEqual(kernels.shape_for(8, 60), (1, 64, 4))


if __name__ == "__main__":
    program = unittest.main(exit=False, argv=sys.argv[:1])
    sys.exit(0 if program.result.wasSuccessful() else 1)
