"""Servers' mixtures of experts: the plugins against stand-ins of vLLM 0.24's TritonExperts and SGLang 0.5.23's fused_experts."""

import enum
import logging
import sys
import types

import pytest

torch = pytest.importorskip("torch")

import sinter
import sinter.torch
from sinter.torch import _experts, _store, _warn, servers

from test_experts import exact, near, operands
from test_plugins import clean, module, sglang, vllm  # noqa: F401  fixtures
from test_torch import store  # noqa: F401  a fixture


class MoEActivation(enum.Enum):
    SILU, GELU = "silu", "gelu"


@pytest.fixture
def plans(monkeypatch):
    """What is asked of plans, which torch stands for; `there` says whether there is one."""
    asked = types.SimpleNamespace(calls=[], there=True)

    def launch(x, ids, weights, w1, w2, act="silu", layout="oi", out=None, within=None):
        asked.calls.append((tuple(x.shape), within))
        if not asked.there:
            return None
        y = _experts._by_torch(x, ids, weights, w1, w2, act, layout)
        return y if out is None else out.copy_(y)

    monkeypatch.setattr(servers, "launch_experts", launch)
    return asked


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
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 1 and "vLLM's experts, 6 of 24 x 64, for up to 64 rows" in lines[0] and sinter.torch.counts().layers == 2
    assert plans.calls == [((12, 64), servers.EXPERTS_ROWS)] * 4


VLLM_KEEPS = {
    "quantised": (dict(quant_dtype=torch.float8_e4m3fn), {}),
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

    def own(hidden_states, w1, w2, topk_output, moe_runner_config, b1=None, b2=None, use_fp8_w8a8=False, a1_q=None):
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
    monkeypatch.setattr(_warn, "_warned", False)
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
    monkeypatch.setattr(_store, "Later", lambda make, sizes, counters, log: built.append(sizes) or types.SimpleNamespace(find=lambda rows: None))
    store.settings = _store.Settings((8, 32, 64), "torch", later=(512, 1024, 2048))
    line = _experts.experts_line(6, 3, 24, 64, 40, "silu", torch.bfloat16)
    assert store.find(0, line, 8192, (16, 512)) is None and store.find(0, line, 9, (16, 512)).digest == "32"
    assert store.fake.prepared == [32, 64] and store.find(0, line.replace("n=24", "n=32"), 8192) is None
    assert built == [(512,), (512, 1024, 2048)]


def test_few_rows_of_experts_ask_for_no_plan(plans):
    x, ids, weights, w1, w2 = operands(8)
    assert servers.experts(x, ids, weights, w1, w2) is None and plans.calls == []
