"""Servers' mixtures of experts: the plugins against stand-ins of vLLM 0.24's TritonExperts and SGLang 0.5.23's fused_experts."""

import ctypes
import enum
import logging
import sys
import types

import pytest

torch = pytest.importorskip("torch")

import sinter
import sinter.torch
from sinter.torch import servers
from sinter.torch.runtime import experts as experts_module, store as store_module, warn
from sinter.torch.serve import scaled_experts

from test_experts import exact, near, operands
from test_plugins import clean, module, sglang, vllm  # noqa: F401  fixtures
from test_torch import store  # noqa: F401  a fixture


class MoEActivation(enum.Enum):
    SILU, GELU = "silu", "gelu"


@pytest.fixture
def plans(monkeypatch):
    """The calls to plans, which torch replaces; `there` says whether there is a plan."""
    asked = types.SimpleNamespace(calls=[], there=True)

    def launch(of, out=None, within=None, pdl=False):
        assert pdl
        asked.calls.append((tuple(of.x.shape), within))
        if not asked.there:
            return None
        y = experts_module._by_torch(of)
        return y if out is None else out.copy_(y)

    def launch_codes(x, ids, weights, w13, w2, scales, out, within):
        asked.calls.append((tuple(x.shape), within))
        if not asked.there:
            return None
        return out.copy_(exact_codes(x, ids, weights, w13, w2, scales))

    monkeypatch.setattr(servers, "launch_experts", launch)
    monkeypatch.setattr(servers, "launch_scaled_experts", launch_codes)
    return asked


# ---------------------------------------------------------------- Codes with scales of blocks


def of_rows(x):
    """Codes and scales of 128 of each row, as both servers' `per_token_group_quant_fp8` makes them: row by row."""
    groups = x.float().unflatten(-1, (-1, 128))
    scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-10) / 448
    return (groups / scale).to(torch.float8_e4m3fn).flatten(-2), scale.squeeze(-1)


def of_blocks(w):
    """Codes and scales of blocks of 128 x 128 of each matrix, the last rows of a block shorter: a checkpoint's weight_scale_inv."""
    experts, n, k = w.shape
    padded = torch.zeros(experts, -(-n // 128) * 128, k)
    padded[:, :n] = w.float()
    blocks = padded.view(experts, -1, 128, k // 128, 128)
    scale = blocks.abs().amax((2, 4), keepdim=True).clamp(min=1e-10) / 448
    codes = (blocks / scale).view(padded.shape)[:, :n].to(torch.float8_e4m3fn).contiguous()
    return codes, scale[:, :, 0, :, 0].contiguous()


def whole(codes, scale):
    """Codes times scales: of rows, or of matrices."""
    if codes.dim() == 2:
        return codes.double() * scale.double().repeat_interleave(128, 1)
    grown = scale.double().repeat_interleave(128, 1).repeat_interleave(128, 2)
    return codes.double() * grown[:, : codes.shape[1], : codes.shape[2]]


def exact_codes(x, ids, weights, w13, w2, scales):
    """The values between the GEMMs are quantized too."""
    rows = whole(x, scales.x) if scales.x is not None else whole(*of_rows(x))
    first, second = whole(w13, scales.w13), whole(w2, scales.w2)
    y = torch.zeros(len(x), w2.shape[1]).double()
    for m in range(len(x)):
        for e, weight in zip(ids[m].tolist(), weights[m].double()):
            if 0 <= e < len(w13):
                gate, up = (first[e] @ rows[m]).chunk(2)
                y[m] += weight * (second[e] @ whole(*of_rows((torch.nn.functional.silu(gate) * up)[None]))[0])
    return y


def codes(rows=12, experts=6, top=3, k=256, n=128, l=136):
    """x of 16 bits and in codes, ids, weights, w13, w2 in codes, and scales of both."""
    x, ids, weights, w13, w2 = operands(rows, experts, top, k, n, l)
    (w13, scale13), (w2, scale2) = of_blocks(w13), of_blocks(w2)
    coded, scale = of_rows(x)
    return x, coded, ids, weights, w13, w2, servers.Scales(scale13, scale2, scale)


@pytest.mark.parametrize("coded", [True, False])
def test_the_chain_of_codes_computes_what_servers_tensors_say(coded):
    """The reference computes, from buffers in the servers' form."""
    x, rows, ids, weights, w13, w2, scales = codes()
    key = scaled_experts.scaled_experts_key(6, 3, 128, 256, 136, torch.bfloat16, coded)
    chain = store_module.chains[key]
    given = [*((rows, scales.x) if coded else (x,)), ids, weights, w13, scales.w13, w2, scales.w2]
    y = torch.empty(12, 136, dtype=torch.bfloat16)
    assert [info.shape for info in chain.buffers(12)] == [tuple(t.shape) for t in (*given, y)]
    addresses = lambda tensors: (ctypes.c_void_p * len(tensors))(*[t.data_ptr() for t in tensors])
    sinter._library.call("sinter_x_reference_run", chain._get(), 12, len(given), addresses(given), 1, addresses([y]), 1)
    wanted = exact_codes(rows if coded else x, ids, weights, w13, w2, scales if coded else scales._replace(x=None))
    assert near(y, wanted)
    swapped = torch.cat([w13[:, 128:], w13[:, :128]], 1).contiguous()
    assert not near(y, exact_codes(rows, ids, weights, swapped, w2, scales))


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda w13, w2, s: (w13.view(torch.int8), w2, s), "not both float8_e4m3fn"),
        (lambda w13, w2, s: (w13[:, :192], w2[:, :, :96], s), "n is 96 and k 256: blocks of 128 x 128"),
        (lambda w13, w2, s: (w13, w2[:, :, :64], s), "gate and up are not twice what down takes"),
        (lambda w13, w2, s: (w13, w2[:, :12].contiguous(), s), "l is 12, no multiple of 8"),
        (lambda w13, w2, s: (w13, w2, s._replace(w13=s.w13[:, :1])), r"scales of w13 are torch.float32 \(6, 1, 2\), not torch.float32 \(6, 2, 2\)"),
        (lambda w13, w2, s: (w13, w2, s._replace(w2=s.w2.int())), r"scales of w2 are torch.int32"),
        (lambda w13, w2, s: (w13, w2, s._replace(w13=s.w13.transpose(1, 2).contiguous().transpose(1, 2))), "not contiguous"),
        (lambda w13, w2, s: (w13[0], w2, s), "have shapes"),
    ],
)
def test_codes_that_no_plan_takes_are_named(change, said):
    import re

    *_, w13, w2, scales = codes()
    assert re.search(said, scaled_experts.reason_against_scaled_experts(*change(w13, w2, scales)))
    assert scaled_experts.reason_against_scaled_experts(w13, w2, scales) == ""


def test_codes_are_launched_as_their_chain_has_them(monkeypatch):
    """Rows that have gaps are copied, matrices never."""
    x, rows, ids, weights, w13, w2, scales = codes()
    asked, launched = [], []
    monkeypatch.setattr(experts_module.store, "ready", lambda device, line, rows: None)
    monkeypatch.setattr(experts_module.store, "find", lambda device, line, rows, within: asked.append((line, rows, within)) or "plan")
    monkeypatch.setattr(experts_module, "launch", lambda plan, addresses, rows, device, pdl: launched.append(addresses))
    out = torch.empty(12, 136, dtype=torch.bfloat16)
    wide = torch.zeros(12, 6)
    wide[:, ::2] = weights
    across = scales._replace(x=scales.x.t().contiguous().t())
    assert servers.experts(rows, ids.long(), wide[:, ::2], w13, w2, out, across) is out
    key = scaled_experts.scaled_experts_key(6, 3, 128, 256, 136, torch.bfloat16, True)
    assert asked == [(key, 16, servers.EXPERTS_ROWS)]
    ((_, scale, _, weighted, *rest),) = launched
    assert rest == [t.data_ptr() for t in (w13, scales.w13, w2, scales.w2, out)] and scale != across.x.data_ptr() and weighted % 16 == 0
    made = servers.experts(x, ids, weights, w13, w2, scales=scales._replace(x=None))
    assert made.shape == (12, 136) and made.dtype == torch.bfloat16 and len(launched[1]) == 8
    assert servers.experts(rows, ids, weights, w13, w2, scales=scales) is None  # of which type?
    assert servers.experts(rows[:, :128], ids, weights, w13, w2, out, scales) is None
    assert servers.experts(rows, ids, weights, w13, w2, out.float(), scales) is None
    assert servers.experts(x, ids, weights, w13, w2, out, scales) is None and len(asked) == 2


# ---------------------------------------------------------------- vLLM


@pytest.fixture
def triton_experts(vllm, monkeypatch):
    class TritonExperts:
        quant_dtype = w1_bias = w2_bias = _lora_context = None

        def __init__(self, **changed):
            self.own_calls, self.quant_config = 0, types.SimpleNamespace(gemm1_alpha=None, gemm1_beta=None, gemm1_clamp_limit=None)
            for name, value in changed.items():
                setattr(self.quant_config if name.startswith("gemm1") else self, name, value)

        def apply(
            self, output, hidden_states, w1, w2, topk_weights, topk_ids, activation, global_num_experts, expert_map, a1q_scale, a2_scale,
            workspace13, workspace2, expert_tokens_meta, apply_router_weight_on_input,
        ):  # fmt: skip
            self.own_calls += 1

    module(monkeypatch, "vllm.model_executor.layers.fused_moe", TritonExperts=TritonExperts)
    return TritonExperts


def applied(experts, positional=False, **changed):
    x, ids, weights, w1, w2 = operands(12)
    given = dict(
        output=torch.full((12, 40), 9.0).bfloat16(), hidden_states=x, w1=w1, w2=w2, topk_weights=weights, topk_ids=ids,
        activation=MoEActivation.SILU, global_num_experts=6, expert_map=None, a1q_scale=None, a2_scale=None, workspace13=None, workspace2=None,
        expert_tokens_meta=None, apply_router_weight_on_input=False,
    )  # fmt: skip
    given.update(changed)
    experts.apply(*given.values()) if positional else experts.apply(**given)
    return given["output"], exact(x, ids, weights, w1, w2)


def test_vllms_experts_are_taken_into_its_output(triton_experts, plans, caplog):
    import sinter_vllm

    sinter.torch.reset()
    sinter_vllm.register()
    sinter_vllm.register()
    with caplog.at_level(logging.INFO, sinter_vllm.LOGGER):
        plain = types.SimpleNamespace(clamp_limit=None, alpha=1.0, beta=0.0)
        newer = triton_experts(activation_config=plain, moe_config=types.SimpleNamespace(swiglu_limit=None))
        for experts in (triton_experts(), newer):
            for positional in (False, True):
                found, wanted = applied(experts, positional)
                assert near(found, wanted) and experts.own_calls == 0
    lines = [record.getMessage() for record in caplog.records if record.name == sinter_vllm.LOGGER]
    assert len(lines) == 1 and "vLLM's experts, 6 of 24 x 64, for up to 64 rows" in lines[0] and sinter.torch.counts().layers == 2
    assert plans.calls == [((12, 64), servers.EXPERTS_ROWS)] * 4


def test_vllm_computes_experts_for_good_once_a_plan_fails(triton_experts, plans, monkeypatch, caplog):
    import sinter_vllm

    def fails(*arguments, **named):
        raise TypeError("takes other experts")

    sinter_vllm.register()
    monkeypatch.setattr(servers, "experts", fails)
    experts = triton_experts()
    for _ in range(2):
        applied(experts)
    assert experts.own_calls == 2 and caplog.text.count("vLLM's experts keeps its own path: TypeError: takes other experts") == 1


VLLM_KEEPS = {
    "quantised": (dict(quant_dtype=torch.int8), {}),
    "scales": ({}, dict(a1q_scale=torch.ones(1))),
    "bias": (dict(w1_bias=torch.ones(6, 48)), {}),
    "activation": ({}, dict(activation=MoEActivation.GELU)),
    "bounded": (dict(gemm1_clamp_limit=7.0), {}),
    "bounded by the model": (dict(activation_config=types.SimpleNamespace(clamp_limit=7.0, alpha=1.0, beta=0.0)), {}),
    "scaled gate": (dict(activation_config=types.SimpleNamespace(clamp_limit=None, alpha=1.702, beta=0.0)), {}),
    "shifted": (dict(activation_config=types.SimpleNamespace(clamp_limit=None, alpha=1.0, beta=1.0)), {}),
    "bounded, before there was a configuration": (dict(moe_config=types.SimpleNamespace(swiglu_limit=7.0)), {}),
    "an activation around theirs": (dict(activation=lambda *given: None), {}),
    "a sum around theirs": (dict(moe_sum=lambda *given: None), {}),
    "weights on rows": ({}, dict(apply_router_weight_on_input=True)),
    "expert parallel": ({}, dict(expert_map=torch.arange(6, dtype=torch.int32))),
    "lora": (dict(_lora_context=object()), {}),
    "float32": ({}, {name: t.float() for name, t in zip(("hidden_states", "w1", "w2"), operands(12)[0:1] + operands(12)[3:])}),
    "strided output": ({}, dict(output=torch.zeros(12, 80).bfloat16()[:, :40])),
}


def block_experts(triton_experts, **changed):
    """vLLM's experts of a checkpoint with blocks of 128 x 128: both versions have all of this."""
    *_, scales = codes()
    made = triton_experts(quant_dtype=torch.float8_e4m3fn, w1_scale=scales.w13, w2_scale=scales.w2, quantization_emulation=False)
    vars(made.quant_config).update(use_fp8_w8a8=True, block_shape=[128, 128])
    for name, value in changed.items():
        vars(made.quant_config if name in ("use_fp8_w8a8", "block_shape") else made)[name] = value
    return made


def applied_codes(experts, **changed):
    _, rows, ids, weights, w13, w2, scales = codes()
    given = dict(hidden_states=rows, w1=w13, w2=w2, topk_weights=weights, topk_ids=ids, a1q_scale=scales.x, output=torch.full((12, 136), 9.0).bfloat16())
    given.update(changed)
    return applied(experts, **given)[0], exact_codes(rows, ids, weights, w13, w2, scales)


def test_vllms_experts_of_blocks_are_taken(triton_experts, plans, caplog):
    import sinter_vllm

    sinter_vllm.register()
    experts = block_experts(triton_experts)
    with caplog.at_level(logging.INFO, sinter_vllm.LOGGER):
        found, wanted = applied_codes(experts)
    assert near(found, wanted) and experts.own_calls == 0 and "vLLM's experts, 6 of 128 x 256 of e4m3, for up to" in caplog.text


CODES_KEPT = {
    "rows": (dict(block_shape=None), {}, "rows or whole matrices"),
    "refined": (dict(block_shape=[64, 128]), {}, r"blocks [64, 128], not of blocks [128, 128]"),
    "int8": (dict(use_fp8_w8a8=False), {}, "something else than e4m3"),
    "no scales": (dict(w1_scale=None), {}, "without scales"),
    "rows without scales": ({}, dict(a1q_scale=None), "without scales"),
    "a scale between": ({}, dict(a2_scale=torch.ones(1)), "has a scale given"),
    "emulated": (dict(quantization_emulation=True), {}, "emulated"),
    "bounded": (dict(activation_config=types.SimpleNamespace(clamp_limit=7.0, alpha=1.0, beta=0.0)), {}, "bounded or scaled"),
    "expert parallel": ({}, dict(expert_map=torch.arange(6, dtype=torch.int32)), "on several GPUs"),
}


@pytest.mark.parametrize("why", CODES_KEPT)
def test_codes_that_do_not_fit_are_vllms(triton_experts, plans, why):
    import sinter_vllm
    from sinter_vllm import _experts as of_vllm

    sinter_vllm.register()
    of_experts, of_call, said = CODES_KEPT[why]
    experts = block_experts(triton_experts, **of_experts)
    applied_codes(experts, **of_call)
    assert experts.own_calls == 1 and plans.calls == []
    given = dict(a1q_scale=torch.ones(12, 2), a2_scale=None, activation=MoEActivation.SILU, expert_map=None, apply_router_weight_on_input=False)
    assert said in of_vllm.reason_against(experts, {**given, **of_call})


@pytest.mark.parametrize("why", VLLM_KEEPS)
def test_experts_that_do_not_fit_are_vllms(triton_experts, plans, why):
    import sinter_vllm

    sinter_vllm.register()
    of_experts, of_call = VLLM_KEEPS[why]
    experts = triton_experts(**of_experts)
    applied(experts, **of_call)
    assert experts.own_calls == 1 and plans.calls == []


def test_vllm_computes_what_no_plan_is_for_and_what_is_derived_from_its_experts(triton_experts, plans):
    import sinter_vllm

    sinter_vllm.register()
    plans.there = False
    experts = triton_experts()
    applied(experts)
    assert experts.own_calls == 1 and len(plans.calls) == 1
    derived = type("TritonWNA16Experts", (triton_experts,), {})()
    applied(derived)
    assert derived.own_calls == 1 and len(plans.calls) == 1


def test_another_apply_of_vllm_is_left_alone(triton_experts, caplog):
    import sinter_vllm

    def apply(self, output, hidden_states):
        return "own"

    triton_experts.apply = apply
    with caplog.at_level(logging.WARNING, "sinter"):
        sinter_vllm.register()
    assert triton_experts.apply is apply and "their apply takes other arguments" in caplog.text


# ---------------------------------------------------------------- SGLang

TARGET = "sglang.srt.layers.moe.moe_runner.triton_utils.fused_moe.fused_experts"


def runner_config(**changed):
    given = dict(
        activation="silu", is_gated=True, gemm1_alpha=None, gemm1_beta=None, gemm1_clamp_limit=None, swiglu_limit=None, no_combine=False,
        apply_router_weight_on_input=False, routed_scaling_factor=None, num_experts=6, num_local_experts=6, layer_id=1, inplace=True,
    )  # fmt: skip
    return types.SimpleNamespace(**{**given, **changed})


@pytest.fixture
def fused_experts(sglang, monkeypatch):
    """SGLang's function with the plugin around it."""
    import sinter_sglang

    monkeypatch.setattr(sinter_sglang, "_is_hopper", lambda x: True)
    sinter.torch.reset()
    sinter_sglang.register()

    def own(
        hidden_states, w1, w2, topk_output, moe_runner_config, b1=None, b2=None, use_fp8_w8a8=False, w1_scale=None, w2_scale=None,
        a1_scale=None, block_shape=None, a1_q=None,
    ):  # fmt: skip
        return "own"

    return sglang.registry.apply(TARGET, own)


def test_sglangs_experts_are_taken(fused_experts, plans, caplog):
    x, ids, weights, w1, w2 = operands(12)
    routed = (weights, ids, None)
    with caplog.at_level(logging.INFO, "sinter"):
        for layer in (1, 1, 2):
            before = x.clone()
            y = fused_experts(hidden_states=x, w1=w1, w2=w2, topk_output=routed, moe_runner_config=runner_config(layer_id=layer), b1=None)
            assert near(y, exact(x, ids, weights, w1, w2)) and torch.equal(x, before)
    assert near(fused_experts(x, w1, w2, routed, runner_config()), exact(x, ids, weights, w1, w2))
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1 and "SGLang's experts, 6 of 24 x 64" in lines[0] and sinter.torch.counts().layers == 2


@pytest.mark.parametrize(
    "config, more",
    [
        (dict(activation="gelu"), {}),
        (dict(is_gated=False), {}),
        (dict(gemm1_alpha=1.702), {}),
        (dict(swiglu_limit=7.0), {}),
        (dict(apply_router_weight_on_input=True), {}),
        (dict(no_combine=True), {}),
        (dict(routed_scaling_factor=2.5), {}),
        (dict(num_local_experts=3), {}),
        (dict(num_experts=None), {}),
        ({}, dict(b1=torch.ones(6, 48))),
        ({}, dict(use_fp8_w8a8=True)),
        ({}, dict(a1_q=torch.ones(1))),
    ],
)
def test_experts_that_do_not_fit_are_sglangs(fused_experts, plans, config, more):
    x, ids, weights, w1, w2 = operands(12)
    assert fused_experts(x, w1, w2, (weights, ids, None), runner_config(**config), **more) == "own" and plans.calls == []


def test_sglangs_experts_of_blocks_are_taken(fused_experts, plans, caplog):
    """Its rows are of 16 bits: the plan quantises them."""
    x, _, ids, weights, w13, w2, scales = codes()
    given = dict(use_fp8_w8a8=True, w1_scale=scales.w13, w2_scale=scales.w2, block_shape=[128, 128])
    with caplog.at_level(logging.INFO, "sinter"):
        y = fused_experts(x, w13, w2, (weights, ids, None), runner_config(), **given)
    assert near(y, exact_codes(x, ids, weights, w13, w2, scales._replace(x=None))) and "6 of 128 x 256 of e4m3" in caplog.text
    assert plans.calls == [((12, 256), servers.EXPERTS_ROWS)]
    for change in (dict(block_shape=None), dict(block_shape=[64, 128]), dict(w2_scale=None), dict(a1_scale=torch.ones(1)), dict(use_fp8_w8a8=False)):
        assert fused_experts(x, w13, w2, (weights, ids, None), runner_config(), **{**given, **change}) == "own" and len(plans.calls) == 1


def test_sglang_computes_what_no_plan_is_for(fused_experts, plans):
    x, ids, weights, w1, w2 = operands(12)
    plans.there = False
    assert fused_experts(x, w1, w2, (weights, ids, None), runner_config()) == "own" and len(plans.calls) == 1


def test_an_error_of_a_plan_is_told_of_and_the_server_computes(fused_experts, triton_experts, monkeypatch, caplog):
    import sinter_vllm

    def refuse(*given, **named):
        raise sinter.Error(sinter.Status.INVALID_ARGUMENT, "buffer 3 is not aligned")

    sinter_vllm.register()
    monkeypatch.setattr(servers, "launch_experts", refuse)
    monkeypatch.setattr(warn, "_told", set())
    x, ids, weights, w1, w2 = operands(12)
    experts = triton_experts()
    with caplog.at_level(logging.WARNING, "sinter"):
        for _ in range(2):
            assert fused_experts(x, w1, w2, (weights, ids, None), runner_config()) == "own"
            applied(experts)
    told = [record for record in caplog.records if "buffer 3 is not aligned" in record.getMessage()]
    assert experts.own_calls == 2 and len(told) == 1


# ---------------------------------------------------------------- Plans in the background


def test_plans_of_experts_are_made_for_no_other_rows_than_they_win_at(store, monkeypatch):
    built = []
    monkeypatch.setattr(store_module, "Later", lambda make, sizes, counters, log: built.append(sizes) or types.SimpleNamespace(find=lambda rows: None))
    store.settings = store_module.Settings((8, 32, 64), "torch", later=(512, 1024, 2048))
    line = experts_module.experts_line(6, 3, 24, 64, 40, "silu", torch.bfloat16)
    assert store.find(0, line, 8192, (32, 64, 512)) is None and store.find(0, line, 9, (32, 64, 512)).digest == "32"
    assert store.fake.prepared == [32, 64] and store.find(0, line.replace("n=24", "n=32"), 8192) is None
    assert built == [(512,), (512, 1024, 2048)]


@pytest.mark.parametrize("rows, asked", {0: 0, 1: 1, 2: 0, 8: 0, 9: 1, 64: 1, 65: 0}.items())
def test_a_plan_is_asked_for_one_row_of_experts_and_for_9_to_64(plans, rows, asked):
    x, ids, weights, w1, w2 = operands(rows)
    assert (servers.experts(x, ids, weights, w1, w2) is not None) == bool(asked) and len(plans.calls) == asked
