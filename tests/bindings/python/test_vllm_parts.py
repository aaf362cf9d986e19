"""`python -m sinter_vllm`: the parts of a model that the plugin takes in vLLM, by its config.json."""

import json
import sys

import pytest

torch = pytest.importorskip("torch", reason="no torch here: plugins are not tested")

import test_plugins  # noqa: F401  skips where the plugins are not here

sys.path.insert(0, str(test_plugins.PLUGINS / "sinter-vllm"))

from sinter_vllm import __main__ as command, _formats

LAYERS, MLPS = "layers from attention to attention", "gated MLPs"
DENSE = dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
             num_key_value_heads=8, rms_norm_eps=1e-5, hidden_act="silu", torch_dtype="bfloat16")  # fmt: skip
MIXED = {**DENSE, "model_type": "qwen3_moe", "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}


def compressed(weights, rows, dynamic, **more):
    side = {"num_bits": 8, "type": "float", "symmetric": True}
    group = {"weights": {**side, "strategy": weights, "dynamic": False, **more.pop("blocks", {})},
             "input_activations": {**side, "strategy": rows, "dynamic": dynamic, **more.pop("groups", {})}, "targets": ["Linear"]}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"], **more}


BLOCKS = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
def four_bits(**more):
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": 32, **more}
    return {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"a": {"weights": weights}}, "ignore": ["lm_head"]}


AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}
GPTQ = {"quant_method": "gptq", "bits": 4, "group_size": 64, "sym": True, "desc_act": False}

#: Checkpoints whose layers are taken: the quantizer that ``_codes`` finds once vLLM has loaded them.
TAKEN = {
    "rows": (compressed("channel", "token", True), "row"),
    "static": (compressed("tensor", "tensor", False), "static"),
    "blocks": (BLOCKS, "group"),
    "blocks by compressed-tensors": (compressed("block", "group", True, blocks={"block_structure": [128, 128]}, groups={"group_size": 128}), "group"),
    "vLLM's own static": ({"quant_method": "fp8", "activation_scheme": "static"}, "static"),
    "ModelOpt": ({"quant_method": "modelopt", "quant_algo": "FP8"}, "static"),
    "ModelOpt, nested": ({"quant_method": "modelopt", "quantization": {"quant_algo": "FP8_PER_CHANNEL_PER_TOKEN"}}, "row"),
    "int4": (four_bits(), "u4_g32"),
    "int4 with zeros": (four_bits(symmetric=False, actorder="weight"), "u4_g32_zeros"),
    "AWQ": (AWQ, "u4_g128_zeros"),
    "AWQ, other names": ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64, "zero_point": True}, "u4_g64_zeros"),
    "GPTQ": (GPTQ, "u4_g64"),
    "GPTQ in a sorted order": ({**GPTQ, "desc_act": True, "static_groups": True}, "u4_g64"),
    "experts left out": ({**BLOCKS, "modules_to_not_convert": ["model.layers.0.mlp.experts", "lm_head"]}, "group"),
}
#: Checkpoints whose layers are left, with words of the reason.
LEFT = {
    "bits and bytes": ({"quant_method": "bitsandbytes"}, "quant_method 'bitsandbytes': the plugin takes fp8, compressed-tensors, modelopt, awq, gptq"),
    "AWQ without zeros": ({**AWQ, "zero_point": False}, "bits 4 and zero_point False"),
    "AWQ of 8 bits": ({**AWQ, "bits": 8}, "bits 8 and zero_point True"),
    "groups of 16": ({**AWQ, "group_size": 16}, "group_size 16, must be one of 32 64 128"),
    "GPTQ of 8 bits": ({**GPTQ, "bits": 8}, "bits 8 and sym True"),
    "asymmetric GPTQ": ({**GPTQ, "sym": False}, "bits 4 and sym False"),
    "the order of activations": ({**GPTQ, "desc_act": True}, "desc_act without static_groups"),
    "layers of their own": ({**GPTQ, "dynamic": {"+:.*": {"bits": 8}}}, "dynamic: layers must all be quantised alike"),
    "a scale a column": ({**GPTQ, "group_size": -1}, "group_size -1"),
    "int4 a column": (four_bits(strategy="channel"), "strategy 'channel' of weights of four bits, must be 'group'"),
    "int4 in the order of activations": (four_bits(actorder="group"), "actorder 'group'"),
    "int4 in another form": ({**four_bits(), "format": "int-quantized"}, "format 'int-quantized' of weights of four bits"),
    "rows without a given scale": ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "activation_scheme 'dynamic' without weight_block_size"),
    "other blocks": ({**BLOCKS, "weight_block_size": [64, 128]}, "weight_block_size [64, 128], must be [128, 128]"),
    "static rows with blocks": ({**BLOCKS, "activation_scheme": "static"}, "activation_scheme 'static' with blocks"),
    "a scale a tensor, rows computed": (compressed("tensor", "token", True), "strategy 'tensor' of weights and 'token', dynamic, of rows"),
    "int4 with codes of rows": ({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 4, "type": "int"}, "input_activations": {
        "num_bits": 8, "type": "float"}}}}, "type 'int' with num_bits 4"),
    "rows of 16 bits": ({"quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 8, "type": "float"}}}}, "no input_activations"),
    "two groups": ({"quant_method": "compressed-tensors", "config_groups": {"a": {}, "b": {}}}, "2 config_groups"),
    "a projection of 16 bits": (compressed("channel", "token", True, ignore=["model.layers.0.mlp.down_proj"]), "leaves model.layers.0.mlp.down_proj in 16 bits"),
    "NVFP4": ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "quant_algo 'NVFP4'"),
}


@pytest.fixture(autouse=True)
def unasked(monkeypatch):
    monkeypatch.delenv("SINTER_VLLM_GRAPHS", raising=False)
    monkeypatch.setenv("VLLM_DISABLED_KERNELS", "MacheteLinearKernel")


def parts(config, ranks=1):
    return {part.name: part for part in command.parts_of(config, ranks)}


def test_plain_layers_are_taken():
    found = parts(DENSE)
    assert found[LAYERS].taken and "bfloat16" in found[LAYERS].why
    assert not found[MLPS].taken and found[MLPS].why == "the layers that hold them are taken"


@pytest.mark.parametrize("name", TAKEN)
def test_codes_of_a_format_are_taken(name):
    given, quantizer = TAKEN[name]
    assert _formats.quantizer_of({"quantization_config": given}) == (quantizer, "")
    found = parts({**DENSE, "quantization_config": given})
    assert found[LAYERS].taken and f"{'four bits' if quantizer.startswith('u4') else 'e4m3'} by {quantizer}" in found[LAYERS].why
    assert not found[MLPS].taken


@pytest.mark.parametrize("name", LEFT)
def test_codes_of_another_format_are_left(name):
    given, words = LEFT[name]
    found = parts({**DENSE, "quantization_config": given})
    assert not found[LAYERS].taken and words in found[LAYERS].why
    assert not found[MLPS].taken and "quantised" in found[MLPS].why


def test_codes_on_several_gpus_are_left():
    found = parts({**DENSE, "quantization_config": BLOCKS}, ranks=2)
    assert not found[LAYERS].taken and "on 2 GPUs" in found[LAYERS].why


@pytest.mark.parametrize("given", [AWQ, GPTQ])
def test_machete_is_named_unless_it_is_disabled(monkeypatch, given):
    for disabled in ("", "AllSparkLinearKernel"):
        monkeypatch.setenv("VLLM_DISABLED_KERNELS", disabled)
        found = parts({**DENSE, "quantization_config": given})
        assert not found[LAYERS].taken and found[LAYERS].why.endswith("start vLLM with VLLM_DISABLED_KERNELS=MacheteLinearKernel, or with --linear-backend marlin")
        assert parts({**DENSE, "quantization_config": four_bits()})[LAYERS].taken  # Machete has no groups of 32


def test_one_group_is_named():
    found = parts({**DENSE, "hidden_size": 128, "quantization_config": AWQ})
    assert not found[LAYERS].taken and found[LAYERS].why.startswith("hidden_size is 128, one group")


@pytest.mark.parametrize("given, unit", [(BLOCKS, 128), (compressed("channel", "token", True), 16), (AWQ, 128), (four_bits(), 64)])
def test_extents_that_no_plan_takes_are_named(given, unit):
    found = parts({**DENSE, "intermediate_size": 14336 + 8, "quantization_config": given})
    assert not found[LAYERS].taken and found[LAYERS].why == f"intermediate_size is 14344, must be a multiple of {unit}"


def test_mlps_of_biased_layers_are_in_parts_of_graphs_or_plans_of_their_own(monkeypatch):
    biased = {**DENSE, "model_type": "qwen2"}
    found = parts(biased)
    assert not found[LAYERS].taken and "'qwen2'" in found[LAYERS].why
    assert not found[MLPS].taken and found[MLPS].why == "they are in the parts of graphs"
    assert parts(biased, ranks=2)[MLPS].taken
    monkeypatch.setenv("SINTER_VLLM_GRAPHS", "0")
    assert parts(biased)[MLPS].taken


def test_experts_are_named():
    found = parts(MIXED)
    assert found["experts"].taken and not found[LAYERS].taken
    found = parts({**MIXED, "model_type": "gpt_oss"})
    assert not found["experts"].taken and "biases" in found["experts"].why


def test_graphs_are_taken_unless_switched_off(monkeypatch):
    gemma = {**DENSE, "model_type": "gemma3_text"}
    assert [part.name for part in command.parts_of(gemma) if part.taken] == ["other ops between attentions"]
    assert not any(part.taken for part in command.parts_of(gemma, ranks=2))
    monkeypatch.setenv("SINTER_VLLM_GRAPHS", "0")
    assert not any(part.taken for part in command.parts_of(gemma))


def test_a_multimodal_model_is_its_decoder():
    assert parts({"model_type": "both", "text_config": DENSE})[LAYERS].taken


@pytest.mark.parametrize("as_folder", [True, False])
def test_the_command_prints_parts(tmp_path, capsys, as_folder):
    (tmp_path / "config.json").write_text(json.dumps(DENSE))
    assert command.main([str(tmp_path if as_folder else tmp_path / "config.json")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert "vLLM" in printed[0] and printed[1] == "LlamaForCausalLM, model_type llama, 1 GPU a layer"
    assert printed[2].startswith(f"  taken {LAYERS}: ")


def test_the_command_prints_json(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SINTER_VLLM_GRAPHS", "0")
    (tmp_path / "config.json").write_text(json.dumps({**DENSE, "hidden_act": "gelu"}))
    assert command.main([str(tmp_path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert told["parts"][0] == {"name": LAYERS, "taken": False, "why": "hidden_act is 'gelu', must be 'silu'"}


@pytest.mark.parametrize("text, words", [(None, "No such file"), ("{", "is not JSON"), ("[]", "has list, not an object"), ("{}", "config has no hidden_size")])
def test_the_command_refuses_what_is_no_config(tmp_path, capsys, text, words):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    assert command.main([str(tmp_path)]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("found, words", [("0.24.0", "vLLM 0.24.0: the plugin takes 0.24 to 0.33"), ("0.40.1", "leaves everything to this one"), (None, "not installed")])
def test_versions_are_named(monkeypatch, found, words):
    def version(name):
        if found is None:
            raise command.importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(command.importlib.metadata, "version", version)
    assert words in command.versions()
    assert found != "0.24.0" or command.versions().endswith("0.33")
