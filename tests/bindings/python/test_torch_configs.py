"""The plans that `prepare_config` prepares for a model's config.json, compared with those that the plugins request for the model in a server."""

import types

import pytest

torch = pytest.importorskip("torch", reason="no torch here: plans of a model's config are not tested")

import sinter
import sinter.torch
from sinter.torch import servers
from sinter.torch.runtime import experts as experts_module, store
from sinter.torch.serve import scaled_experts

import test_plugins
from test_plugins import clean, module, sglang, vllm  # noqa: F401  fixtures
from test_server_experts import MoEActivation, runner_config, triton_experts  # noqa: F401  a fixture

DENSE = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5, hidden_act="silu")
DENSE.update(torch_dtype="bfloat16")
MIXED = {**DENSE, "hidden_size": 128, "num_experts_per_tok": 2}
FP8 = dict(quant_method="fp8", activation_scheme="dynamic", weight_block_size=[128, 128])

#: Configs by name, with their facts about a server's model other than its extents: its class, and which of its layers have biases.
LAYERS = {
    "llama": (dict(model_type="llama", attention_bias=False, mlp_bias=False), ""),
    "llama with biases of attention": (dict(model_type="llama", attention_bias=True), "attention"),
    "mistral": (dict(model_type="mistral", head_dim=32), ""),
    "phi3": (dict(model_type="phi3"), ""),
    "qwen2": (dict(model_type="qwen2"), "attention"),
    "qwen3": (dict(model_type="qwen3", head_dim=32, attention_bias=False), ""),
    "one layer": (dict(model_type="llama", num_hidden_layers=1), ""),
    "16-bit floats of the other kind": (dict(model_type="llama", torch_dtype="float16"), ""),
}
EXPERTS = {
    "mixtral": dict(model_type="mixtral", num_local_experts=8),
    "qwen3_moe": dict(model_type="qwen3_moe", num_experts=16, moe_intermediate_size=96, decoder_sparse_step=1, mlp_only_layers=[]),
    "deepseek_v3": dict(model_type="deepseek_v3", n_routed_experts=8, moe_intermediate_size=256, quantization_config=FP8, routed_scaling_factor=2.5),
    "qwen3_moe of e4m3": dict(model_type="qwen3_moe", num_experts=16, moe_intermediate_size=128, quantization_config=FP8),
}
#: Configs of which plugins take nothing, and the words that the error names.
REFUSED = {
    "gpt-oss": (dict(MIXED, model_type="gpt_oss", num_local_experts=32, swiglu_limit=7.0, quantization_config={"quant_method": "mxfp4"}), "model_type is 'gpt_oss': its experts have biases"),
    "llama of fp8": (dict(DENSE, model_type="llama", quantization_config=FP8), "quantization_config has quant_method 'fp8'"),
    "llama by AWQ": (dict(DENSE, model_type="llama", quantization_config={"quant_method": "awq", "bits": 4}), "quantization_config has quant_method 'awq'"),
    "experts by AWQ": (dict(MIXED, model_type="mixtral", num_local_experts=8, quantization_config={"quant_method": "awq"}), "quantization_config has quant_method 'awq'"),
    "experts with a scale a row": (dict(MIXED, model_type="mixtral", num_local_experts=8, quantization_config={"quant_method": "fp8"}), "weight_block_size None"),
    "GELU": (dict(DENSE, model_type="llama", hidden_act="gelu"), "hidden_act is 'gelu', must be 'silu'"),
    "experts with GELU": (dict(MIXED, model_type="mixtral", num_local_experts=8, hidden_act="gelu_pytorch_tanh"), "hidden_act is 'gelu_pytorch_tanh'"),
    "gemma": (dict(DENSE, model_type="gemma2", hidden_activation="gelu_pytorch_tanh"), "model_type is 'gemma2'"),
    "biases of MLPs": (dict(DENSE, model_type="llama", mlp_bias=True), "mlp_bias is True"),
    "bounded experts": (dict(MIXED, model_type="new", num_local_experts=8, swiglu_limit=7.0), "swiglu_limit is 7.0"),
    "widths": (dict(DENSE, model_type="llama", intermediate_size=132), "intermediate_size 132"),
    "widths of blocks": (dict(MIXED, model_type="qwen3_moe", num_experts=8, moe_intermediate_size=192, quantization_config=FP8), "moe_intermediate_size 192"),
    "too many experts": (dict(MIXED, model_type="qwen3_moe", num_experts=2048, moe_intermediate_size=128), "num_experts is 2048, at most 1024"),
}


@pytest.fixture
def prepared(monkeypatch, context):
    """{chain: numbers of rows} that `prepare_config` prepares, without a search, and the lines that it says."""

    def prepare(context, lines, sizes, progress=None, measure=0):
        for i, size in enumerate(sizes):
            progress("ready", (i + 1) / len(sizes))
        made.update({line: tuple(sizes) for line in lines})
        return {(line, size): "digest" for line in lines for size in sizes}

    made, said = {}, []
    monkeypatch.setattr(servers.store, "prepare", prepare)

    def run(config, **options):
        made.clear(), said.clear()
        found = servers.prepare_config(config, context, tell=said.append, **options)
        assert set(found) == {(line, size) for line, sizes in made.items() for size in sizes}
        return dict(made)

    run.said = said
    return run


class Attention(torch.nn.Module):
    """Attention with the columns of a config."""

    def __init__(self, config, bias):
        super().__init__()
        heads, head = config["num_attention_heads"], config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        self.q, dtype = heads * head, getattr(torch, config["torch_dtype"])
        columns = (heads + 2 * config["num_key_value_heads"]) * head
        self.qkv_proj = test_plugins.QKVParallelLinear(config["hidden_size"], columns, bias=bias, dtype=dtype)
        self.o_proj = test_plugins.RowParallelLinear(self.q, config["hidden_size"], dtype=dtype)

    def forward(self, positions, hidden_states):
        return self.o_proj(self.qkv_proj(hidden_states)[0][:, : self.q])[0]


def served(config, biased, kinds):
    """A server's model as it makes it of a config. `kinds`: classes of the model and of its MLPs."""
    dtype = getattr(torch, config["torch_dtype"])
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    method = test_plugins.Fp8LinearMethod if "quantization_config" in config else test_plugins.UnquantizedLinearMethod

    def norm():
        made = test_plugins.RMSNorm(hidden)
        made.weight.data, made.variance_epsilon = made.weight.data.to(dtype), config["rms_norm_eps"]
        return made

    model = kinds[0](lambda **_: kinds[1](hidden, inner, method=method, dtype=dtype, bias=biased == "mlp"), count=config["num_hidden_layers"])
    model.norm = norm()
    for layer in model.layers:
        layer.self_attn = Attention(config, biased == "attention")
        layer.input_layernorm, layer.post_attention_layernorm = norm(), norm()
    return model


@pytest.fixture
def asked(monkeypatch):
    """Chains that the operators and the plugins ask for, as they are called with a server's tensors."""
    found = set()

    def planned(weights, eps, folded, group=""):
        found.add(servers._key(weights, eps, folded))
        return True

    class Calls(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, f, types, given=(), named=None):
            if f is torch.ops.sinter.gated_mlp.default:
                _, gate_up, down = given[:3]
                found.add(servers.chain_line(down.shape[1], gate_up.shape[1], down.shape[0], "silu", down.dtype))
            if f is torch.ops.sinter.between_attentions.default:
                found.add(servers._key(given[2], given[3], bool(given[4:5] and given[4])))
            return f(*given, **(named or {}))

    monkeypatch.setattr(servers, "planned", planned)
    monkeypatch.setattr(servers, "folding_pays", lambda weights, eps: True)
    return types.SimpleNamespace(chains=found, calls=Calls)


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_a_config_are_those_that_vllms_plugin_asks_for(vllm, asked, prepared, name):
    import sinter_vllm

    change, biased = LAYERS[name]
    config = {**DENSE, **change}
    sinter_vllm.register()
    kind = {"qwen2": 1, "qwen3": 2}.get(config["model_type"], 0)
    with asked.calls():
        served(config, biased, vllm.models[kind])(torch.arange(2), torch.randn(2, 64, dtype=getattr(torch, config["torch_dtype"])))
    found = prepared(config)
    assert set(found) == asked.chains and len(found) == (1 if biased or config["num_hidden_layers"] == 1 else 2)
    assert set(found.values()) == {servers.SIZES}


@pytest.mark.parametrize("name", LAYERS)
def test_mlps_of_a_config_are_those_that_sglangs_plugin_asks_for(sglang, asked, prepared, monkeypatch, name):
    import sinter_sglang

    change, _ = LAYERS[name]
    config = {**DENSE, **change}
    monkeypatch.setattr(sinter_sglang, "_is_hopper", lambda x: True)
    sinter_sglang.register()
    target = "sglang.srt.models.qwen2.Qwen2MLP.forward" if "qwen" in config["model_type"] else "sglang.srt.models.llama.LlamaMLP.forward"
    forward = sglang.registry.apply(target, lambda self, x, forward_batch=None: self.own(x))
    dtype = getattr(torch, config["torch_dtype"])
    with asked.calls():
        forward(test_plugins.Mlp(config["hidden_size"], config["intermediate_size"], dtype=dtype), torch.ones(3, 64, dtype=dtype))
    assert len(asked.chains) == 1 and asked.chains <= set(prepared(config))


def test_quantised_and_biased_layers_are_asked_for_by_no_plugin(vllm, asked):
    import sinter_vllm

    sinter_vllm.register()
    for name, biased in (("llama of fp8", ""), ("biases of MLPs", "mlp")):
        with asked.calls():
            served({**REFUSED[name][0]}, biased, vllm.models[0])(torch.arange(2), torch.randn(2, 64).bfloat16())
    assert not asked.chains


def experts_of(config):
    """Rows, ids, weights, matrices and scales of a server's experts."""
    count = next(config[name] for name in ("num_local_experts", "num_experts", "n_routed_experts") if name in config)
    inner, hidden = config.get("moe_intermediate_size", config["intermediate_size"]), config["hidden_size"]
    x, ids = torch.randn(12, hidden).bfloat16(), torch.zeros(12, config["num_experts_per_tok"], dtype=torch.int32)
    w13, w2 = torch.randn(count, 2 * inner, hidden).bfloat16(), torch.randn(count, hidden, inner).bfloat16()
    if "quantization_config" not in config:
        return x, ids, w13, w2, None
    scales = servers.Scales(torch.ones(count, 2 * inner // 128, hidden // 128), torch.ones(count, hidden // 128, inner // 128))
    return x, ids, w13.to(torch.float8_e4m3fn), w2.to(torch.float8_e4m3fn), scales


@pytest.fixture
def found_plans(monkeypatch):
    """{chain: numbers of rows} of experts' plans that are looked for."""
    found = {}

    def find(device, line, rows, within=None):
        found[line] = within

    for made in (experts_module.store, scaled_experts.register_chain and store.store):
        monkeypatch.setattr(made, "find", find)
    monkeypatch.setattr(store.store, "ready", lambda *_: None)
    return found


@pytest.mark.parametrize("name", EXPERTS)
def test_experts_of_a_config_are_those_that_the_plugins_ask_for(triton_experts, sglang, found_plans, prepared, monkeypatch, name):
    import sinter_sglang
    import sinter_vllm

    config = {**MIXED, **EXPERTS[name]}
    x, ids, w13, w2, scales = experts_of(config)
    weights = torch.ones(ids.shape)
    sinter_vllm.register()
    experts = triton_experts()
    given = dict(output=torch.empty_like(x), hidden_states=x, w1=w13, w2=w2, topk_weights=weights, topk_ids=ids, activation=MoEActivation.SILU)
    given.update(global_num_experts=len(w13), expert_map=None, a1q_scale=None, a2_scale=None, workspace13=None, workspace2=None)
    if scales is not None:
        experts = triton_experts(quant_dtype=torch.float8_e4m3fn, w1_scale=scales.w13, w2_scale=scales.w2, quantization_emulation=False)
        vars(experts.quant_config).update(use_fp8_w8a8=True, block_shape=[128, 128])
        given.update(hidden_states=x.to(torch.float8_e4m3fn), a1q_scale=torch.ones(len(x), x.shape[1] // 128))
    experts.apply(**given, expert_tokens_meta=None, apply_router_weight_on_input=False)

    monkeypatch.setattr(sinter_sglang, "_is_hopper", lambda x: True)
    sinter_sglang.register()
    target = "sglang.srt.layers.moe.moe_runner.triton_utils.fused_moe.fused_experts"

    def fused_experts(
        hidden_states, w1, w2, topk_output, moe_runner_config, use_fp8_w8a8=False, w1_scale=None, w2_scale=None, block_shape=None
    ):  # fmt: skip
        return "own"

    codes = {} if scales is None else dict(use_fp8_w8a8=True, w1_scale=scales.w13, w2_scale=scales.w2, block_shape=[128, 128])
    runner = runner_config(num_experts=len(w13), num_local_experts=len(w13), routed_scaling_factor=config.get("routed_scaling_factor"))
    assert sglang.registry.apply(target, fused_experts)(x, w13, w2, (weights, ids, None), runner, **codes) == "own"
    made = prepared(config)
    assert made == found_plans and set(made.values()) == {servers.EXPERTS_ROWS}
    assert any("a mixture of experts" in line for line in prepared.said)


@pytest.mark.parametrize("name", REFUSED)
def test_a_config_of_which_plugins_take_nothing_is_refused_by_its_field(prepared, name):
    config, said = REFUSED[name]
    with pytest.raises(sinter.Error) as caught:
        prepared(config)
    assert caught.value.code == sinter.Status.INVALID_ARGUMENT and said in caught.value.message, caught.value.message


def test_what_is_left_out_is_said_with_its_field_and_how_far_a_prepare_is(prepared, capsys, context):
    prepared({**DENSE, "model_type": "qwen2"}, sizes=range(1, 21))
    assert prepared.said == [
        "sinter: left to the server: what lies between two attentions: model_type is 'qwen2', whose projections of attention have biases",
        "sinter: qwen2's gated MLPs: 20 numbers of rows, 1 to 20",
        *(f"sinter: {done} of 20 plans are there" for done in range(2, 21, 2)),
    ]
    servers.prepare_config(DENSE, context, [8])
    told = capsys.readouterr().err
    assert "sinter: llama's layers from attention to attention: 1 numbers of rows" in told and "sinter: 2 of 2 plans are there" in told


def test_a_model_that_sees_has_its_decoder_prepared(prepared):
    text = {name: value for name, value in {**DENSE, "model_type": "mistral"}.items() if name != "torch_dtype"}
    seeing = dict(model_type="mistral3", text_config=text, torch_dtype="bfloat16", vision_config={})
    assert prepared(seeing, sizes=[8]) == prepared({**text, "torch_dtype": "bfloat16"}, sizes=[8])


def test_experts_over_several_gpus_are_split_by_their_width(prepared):
    (line,) = prepared({**MIXED, **EXPERTS["mixtral"]}, ranks=2)
    assert " n=64 k=128 " in line
    with pytest.raises(sinter.Error, match="ranks is 3: intermediate_size is 128"):
        prepared({**MIXED, **EXPERTS["mixtral"]}, ranks=3)
