#!/usr/bin/env python3
"""What throughput.py does with engines, stood in for by a program that makes tokens of nothing; and how engine.py asks a model."""

import contextlib
import io
import json
import os
import sys
import tempfile
import types
import unittest
import unittest.mock

import engine
import formats
import scores
import throughput

try:
    import torch
except ImportError:
    torch = None

ENGINE = """
import json, os, sys
with open(sys.argv[1]) as file:
    options = json.load(file)
import time
place = os.path.dirname(sys.argv[1])
with_plugin = os.environ["VLLM_PLUGINS"] == "sinter"
folded = os.environ["SINTER_VLLM_FOLD"] == "1"
assert folded in (False, with_plugin) and os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] == "1"
assert place in os.environ["VLLM_CACHE_ROOT"]
with open(os.path.join(options["folder"], "config.json")) as file:
    config = json.load(file)
assert config["num_hidden_layers"] == (12 if "12L" in place else 32)
assert options["ranks"] == options["engine"].get("ranks", 1)
plain = place.endswith("-bf16")
coded = "quantization_config" in config
assert coded == (options["format"] != "" and not plain)
assert (config["architectures"] == ["Qwen3MoeForCausalLM"]) == ("A3B" in place) == (config.get("num_experts") == 128)
if options["engine"].get("fails") == with_plugin:
    sys.exit("no driver")
time.sleep(0 if with_plugin else options["engine"].get("late", 0))
print("something else")
print("RESULT", json.dumps({"ready_s": 1.0, "machine": {"gpu": "none"}, "folded": folded, "layers": 32 * with_plugin}), flush=True)
for line in sys.stdin:
    if line.startswith("score "):
        rows, length = map(int, line.split()[1:])
        assert length in options["scores"]
        first = {"7": -1.0 - 0.1 * coded - 0.1 * with_plugin, "8": -1.15}
        print("RESULT", json.dumps({"scores": [{**first, "9" if coded else "10": -2.0}] * rows}), flush=True)
        continue
    rows, *length = map(int, line.split())
    if length:
        assert length[0] in options["prompts"]
        print("RESULT", json.dumps({"seconds": rows * length[0] * (1e-6 if with_plugin else 2e-6)}), flush=True)
        continue
    if options["engine"].get("dies") == rows and folded:
        sys.exit("out of memory")
    tokens = [[1, 2, 3, 4 + with_plugin] for _ in range(rows)]
    disabled = options["engine"].get("disabled", 0) * (os.environ.get("VLLM_DISABLED_KERNELS") == "MacheteLinearKernel")
    print("RESULT", json.dumps({"one_s": 0.5, "seconds": 1.5 - 0.2 * with_plugin - 0.1 * folded - disabled, "tokens": tokens}), flush=True)
if with_plugin and not options["engine"].get("idle"):
    with open(os.environ["SINTER_METRICS_FILE"].replace("%p", "1"), "w") as file:
        file.write("# HELP\\nsinter_launches_total 12\\n")
"""


class ThroughputTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder, here = folder.name, throughput.HERE
        with open(os.path.join(folder.name, "engine.py"), "w", encoding="utf-8") as file:
            file.write(ENGINE)
        throughput.HERE = folder.name
        self.addCleanup(setattr, throughput, "HERE", here)

    def run_it(self, engine, *more):
        out, said = os.path.join(self.folder, "out.json"), io.StringIO()
        with contextlib.redirect_stdout(said):
            status = throughput.main(["--out", out, "--models", "Llama-3-8B", "--rows", "1,8", "--new", "4", "--engine", json.dumps(engine), *more])
        with open(out, encoding="utf-8") as file:
            return status, json.load(file), said.getvalue()

    def test_prompts_are_prefilled_alone_and_together(self):
        status, result, said = self.run_it({}, "--prompts", "512,2048", "--contestants", "vllm,sinter")
        self.assertEqual((status, result["failures"]), (0, []))
        self.assertEqual([(one["contestant"], one["prompt"]) for one in result["rows"]],
                         [(name, length) for length in (512, 2048) for name in ("vllm", "sinter")])
        own, taken = result["rows"][2:]
        self.assertAlmostEqual(own["first_token_ms"], 2048 * 2e-3)
        self.assertAlmostEqual(taken["prefill_tokens_per_s"], 1e6)
        self.assertAlmostEqual(taken["first_token_ratio"], 2)
        self.assertAlmostEqual(taken["prefill_ratio"], 2)
        self.assertNotIn("prefill_ratio", own)
        self.assertIn("with / without 2.000 (tokens 2.000)", said)

    def test_engines_are_compared(self):
        status, result, said = self.run_it({})
        self.assertEqual((status, result["failures"]), (0, []))
        self.assertEqual([(one["contestant"], one["rows"]) for one in result["rows"]],
                         [(name, rows) for rows in (1, 8) for name in ("vllm", "sinter", "sinter-folded")])
        own, taken, folded = result["rows"][3:]
        self.assertAlmostEqual(own["output_tokens_per_s"], 32 / 1.5)
        self.assertAlmostEqual(own["step_us"], 1e6 / 3)
        self.assertAlmostEqual(taken["ratio"], 1.5 / 1.3)
        self.assertAlmostEqual(taken["decode_ratio"], 1.0 / 0.8)
        self.assertAlmostEqual(taken["agreement"], 0.75)
        self.assertAlmostEqual(folded["ratio"], 1.5 / 1.2)
        self.assertEqual([one["folded"] for one in (own, taken, folded)], [False, False, True])
        self.assertNotIn("tokens", taken)
        self.assertEqual((result["machine"], result["ready_s"]["Llama-3-8B vllm"]), ({"gpu": "none"}, 1.0))
        self.assertEqual(result["launches"], {"Llama-3-8B vllm": 0, "Llama-3-8B sinter": 12, "Llama-3-8B sinter-folded": 12})
        self.assertIn("with / without 1.154", said)
        self.assertRegex(said, "sinter +norms not folded ")
        self.assertRegex(said, "sinter-folded +norms folded ")

    def test_a_mixture_and_a_model_over_several_gpus_are_measured(self):
        status, result, _ = self.run_it({}, "--models", "Qwen3-30B-A3B-12L", "--contestants", "vllm,sinter")
        self.assertEqual((status, {(one["model"], one["ranks"]) for one in result["rows"]}), (0, {("Qwen3-30B-A3B-12L", 1)}))
        status, result, _ = self.run_it({"ranks": 2}, "--models", "Qwen3-32B-12L", "--ranks", "2")
        self.assertEqual((status, {(one["model"], one["ranks"]) for one in result["rows"]}), (0, {("Qwen3-32B-12L", 2)}))

    def test_formats_are_compared_with_their_own_and_with_16_bits(self):
        status, result, said = self.run_it({}, "--format", "rows", "--contestants", "vllm,sinter,vllm-bf16,sinter-bf16", "--scores", "1,8",
                                           "--scored", "4")
        self.assertEqual((status, result["failures"]), (0, []))
        self.assertEqual([(one.get("format"), one["layers"], "ratio" in one) for one in result["rows"][:4]],
                         [("rows", 0, False), ("rows", 32, True), (None, 0, False), (None, 32, True)])
        self.assertAlmostEqual(result["rows"][0]["first_token_ms"], 500)
        pairs = [(one["contestant"], one["against"]) for one in result["scores"]]
        self.assertEqual(len(pairs), 2 * 6)
        found = {pair: one for pair, one in zip(pairs, result["scores"]) if one["prompt"] == 8}
        own, taken = found["vllm", "vllm-bf16"], found["sinter", "vllm-bf16"]
        self.assertEqual((own["prompts"], own["format"], own["same_first"], taken["same_first"]), (4, "rows", 1, 0))
        self.assertAlmostEqual(own["common"], 2 / 3)
        self.assertAlmostEqual(own["rms"], 0.1 / 2 ** 0.5)
        self.assertIn("sinter        against vllm-bf16      log probabilities 0.1414 apart, first token the same 0.00", said)

    def test_the_plugin_is_compared_with_the_fastest_kernel_of_vllm(self):
        _, result, _ = self.run_it({"disabled": 0.3}, "--format", "int4", "--contestants", "vllm,vllm-marlin,sinter-marlin,vllm-bf16")
        decode = {one["contestant"]: one["decode_tokens_per_s"] for one in result["rows"][:4]}
        ratios = {one["contestant"]: one.get("decode_ratio") for one in result["rows"][:4]}
        self.assertGreater(decode["vllm-marlin"], decode["vllm"])
        self.assertIsNone(ratios["vllm-marlin"])
        self.assertAlmostEqual(ratios["sinter-marlin"], decode["sinter-marlin"] / decode["vllm-marlin"])
        self.assertLess(ratios["vllm"], 1)

    def test_lists_without_a_common_token_have_no_distance(self):
        self.assertEqual(scores.distance([{"1": -1.0}], [{"2": -1.0}]), {"common": 0, "rms": None, "same_first": 0})

    def test_contestants_are_named(self):
        _, result, _ = self.run_it({}, "--contestants", "sinter-folded")
        self.assertEqual([one["contestant"] for one in result["rows"]], ["sinter-folded"] * 2)
        for wrong in ("--contestants=sinter,other", "--models=GPT"):
            with self.assertRaises(SystemExit) as caught, contextlib.redirect_stderr(io.StringIO()):
                throughput.main(["--out", "x.json", wrong])
            self.assertEqual(caught.exception.code, 2)

    def test_the_environment_does_not_fold(self):
        os.environ["SINTER_VLLM_FOLD"] = "1"
        self.addCleanup(os.environ.pop, "SINTER_VLLM_FOLD")
        _, result, _ = self.run_it({}, "--contestants", "vllm,sinter")
        self.assertEqual({one["folded"] for one in result["rows"]}, {False})

    def test_an_engine_that_ends_is_a_failure(self):
        status, result, said = self.run_it({"dies": 8})
        self.assertEqual((status, {one["rows"] for one in result["rows"]}), (1, {1}))  # what was measured before stays
        self.assertIn("Llama-3-8B sinter-folded ended with 1", said)

    def test_the_order_of_engines_is_not_that_of_their_first_answers(self):
        _, result, _ = self.run_it({"late": 0.3})
        self.assertEqual([one["contestant"] for one in result["rows"]], ["vllm", "sinter", "sinter-folded"] * 2)

    def test_an_engine_that_does_not_start_is_a_failure_and_the_other_goes_on(self):
        status, result, said = self.run_it({"fails": True})
        self.assertEqual(status, 1)
        self.assertEqual([one["contestant"] for one in result["rows"]], ["vllm", "vllm"])
        self.assertIn("Llama-3-8B sinter ended with 1", said)

    def test_an_engine_that_has_ended_says_so(self):
        one = throughput.Engine.__new__(throughput.Engine)
        one.name, one.contestant, one.log = "Llama-3-8B", "vllm", "the log"
        pipe = throughput.subprocess.PIPE
        one.process = throughput.subprocess.Popen([sys.executable, "-c", ""], stdin=pipe, stdout=pipe, text=True)
        one.process.wait()
        with self.assertRaisesRegex(RuntimeError, "Llama-3-8B vllm ended with 0: see the log"):
            one.measure(8)

    def test_a_plugin_that_does_nothing_is_a_failure(self):
        status, result, _ = self.run_it({"idle": True})
        self.assertEqual((status, result["failures"]), (1, [f"Llama-3-8B {name}: no plan of Sinter was launched" for name in ("sinter", "sinter-folded")]))


class EngineTest(unittest.TestCase):
    def test_arguments_of_the_engine_take_the_place_of_its_own(self):
        vllm = types.SimpleNamespace(LLM=lambda **named: named)
        with unittest.mock.patch.dict(sys.modules, vllm=vllm):
            made = engine.make({"folder": "f", "rows": [8, 1], "context": 64, "new": 4, "prompts": [], "scores": [], "ranks": 2,
                                "engine": {"kv_cache_memory_bytes": 1, "attention_backend": "TRITON_ATTN"}})
        found = tuple(made[name] for name in ("model", "tensor_parallel_size", "kv_cache_memory_bytes", "attention_backend", "max_model_len"))
        self.assertEqual((*found, made["compilation_config"]), ("f", 2, 1, "TRITON_ATTN", 68, {"cudagraph_capture_sizes": [1, 8]}))

    def test_a_model_is_asked_whether_norms_are_folded(self):
        inner = types.SimpleNamespace()
        model = types.SimpleNamespace(modules=lambda: [types.SimpleNamespace(), inner])
        llm = types.SimpleNamespace(apply_model=lambda function: [function(model)])
        self.assertIs(engine.ask(llm, engine.is_folded), False)
        inner.sinter_folded = True
        self.assertIs(engine.ask(llm, engine.is_folded), True)

    def test_one_that_cannot_be_asked_is_unknown(self):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertIsNone(engine.ask(None, engine.is_folded))
        self.assertIn("cannot ask the model by is_folded", said.getvalue())


@unittest.skipUnless(torch, "needs torch")
class FormatsTest(unittest.TestCase):
    def linear(self, form, coded):
        """A layer as vLLM leaves it after loading: without blocks the weight is transposed."""
        made = torch.nn.Module()
        keep = lambda tensor: torch.nn.Parameter(tensor, requires_grad=False)
        if not coded:
            made.weight = keep(torch.zeros(256, 384, dtype=torch.bfloat16))
            return made
        codes = torch.zeros(256, 384).to(torch.float8_e4m3fn)
        made.weight = keep(codes if form == "blocks" else codes.t())
        shape = {"rows": (256, 1), "blocks": (2, 3), "static": ()}[form]
        setattr(made, "weight_scale_inv" if form == "blocks" else "weight_scale", keep(torch.zeros(shape)))
        made.input_scale = keep(torch.zeros(())) if form == "static" else None
        return made

    def model(self, form, coded):
        made = torch.nn.Module()
        made.qkv_proj, made.norm = self.linear(form, coded), torch.nn.LayerNorm(8, bias=False)
        made.lm_head = torch.nn.Linear(64, 512, bias=False)
        return made

    def test_16_bits_are_the_values_of_the_codes(self):
        for form in set(formats.FORMATS) - {"int4"}:
            coded, plain = self.model(form, True), self.model(form, False)
            self.assertEqual((formats.fill(coded, form), formats.fill(plain, form)), (1, 0))
            layer = coded.qkv_proj
            codes = layer.weight if form == "blocks" else layer.weight.t()
            scale = layer.weight_scale_inv if form == "blocks" else layer.weight_scale
            values = codes.float() * formats.spread(scale, 256, 384)
            self.assertTrue(torch.equal(plain.qkv_proj.weight, values.bfloat16()))
            self.assertTrue(0.6 < values.std().item() * 384 ** 0.5 < 1.4, form)
            self.assertEqual(len(scale.unique()) > 1, form != "static")
            if form == "static":
                self.assertEqual(layer.input_scale.item(), formats.INPUT)
            self.assertTrue(torch.equal(coded.lm_head.weight, plain.lm_head.weight) and torch.equal(coded.norm.weight, plain.norm.weight))

    def test_four_bits_are_repacked_as_the_kernel_does(self):
        class Packed(torch.nn.Parameter):
            def __new__(cls, data, **named):
                return super().__new__(cls, data, requires_grad=False)

            def __init__(self, data, **named):
                self.named = named

        class Kernel:
            """It turns the words of a checkpoint around."""

            w_q_name, w_s_name, workspace = "weight_packed", "weight_scale", None
            config = types.SimpleNamespace(partition_weight_shape=(384, 256))

            def process_weights_after_loading(self, layer):
                assert (layer.weight_packed.named["input_dim"], layer.weight_packed.named["packed_dim"]) == (0, 0)
                for name in ("weight_packed", "weight_scale"):
                    setattr(layer, name, torch.nn.Parameter(getattr(layer, name).data.flip(0), requires_grad=False))
                self.workspace = "new"

        keep = lambda tensor: torch.nn.Parameter(tensor, requires_grad=False)
        kernel, coded, plain, linear = Kernel(), torch.nn.Module(), torch.nn.Module(), torch.nn.Module()
        linear.weight_packed, linear.weight_scale = keep(torch.zeros(48, 256, dtype=torch.int32)), keep(torch.zeros(3, 256).bfloat16())
        linear.scheme = types.SimpleNamespace(kernel=kernel)
        plain.o_proj = torch.nn.Module()
        plain.o_proj.weight = keep(torch.zeros(256, 384).bfloat16())
        parameter = types.SimpleNamespace(PackedvLLMParameter=Packed, GroupQuantScaleParameter=Packed)
        for replaced in (False, True):
            for tensor in linear.parameters():
                tensor.zero_()
            coded.o_proj = linear
            if replaced:  # by the plugin
                coded.o_proj, coded.sinter_own = torch.nn.Module(), (linear,)
                coded.o_proj.weight_packed, coded.o_proj.weight_scale = linear.weight_packed, linear.weight_scale
            with unittest.mock.patch.dict(sys.modules, {"vllm": types.SimpleNamespace(), "vllm.model_executor": types.SimpleNamespace(),
                                                        "vllm.model_executor.parameter": parameter}):
                self.assertEqual((formats.fill(coded, "int4"), formats.fill(plain, "int4")), (1, 0))
            self.assertIsNone(kernel.workspace)
            found, scale = linear.weight_packed.flip(0), linear.weight_scale.flip(0).float().repeat_interleave(128, 0)
            codes = torch.stack([found >> 4 * i & 15 for i in range(8)], 1).reshape(384, 256)
            values = ((codes - 8) * scale).t()
            self.assertTrue(torch.equal(plain.o_proj.weight, values.bfloat16()))
            self.assertEqual(sorted(codes.unique().tolist()), list(range(16)))
            self.assertTrue(0.6 < values.std().item() * 384 ** 0.5 < 1.4)


if __name__ == "__main__":
    program = unittest.main(exit=False, argv=sys.argv[:1])
    sys.exit(0 if program.result.wasSuccessful() else 1)
