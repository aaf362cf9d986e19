"""Mixtures of experts: the operator on the CPU and on the fake driver, and transformers' experts."""

import logging
import subprocess
import sys
import types

import pytest

torch = pytest.importorskip("torch")

import sinter
import sinter.torch
from sinter.torch import prepare_model
from sinter.torch.runtime import experts as experts_module, gated_mlp, launch, run_chain, store as store_module
from sinter.torch.serve import transformers as transformers_module


def operands(rows=7, experts=6, top=3, k=64, n=24, l=40, dtype=torch.bfloat16):
    torch.manual_seed(2)
    make = lambda *shape: (torch.randn(shape) / shape[-1] ** 0.5).to(dtype)
    ids = torch.stack([torch.randperm(experts)[:top] for _ in range(rows)]).int() if rows else torch.zeros(0, top, dtype=torch.int32)
    return (torch.randn(rows, k) / 2).to(dtype), ids, torch.rand(rows, top), make(experts, 2 * n, k), make(experts, l, n)


def exact(x, ids, weights, w1, w2, act="silu"):
    y = torch.zeros(len(x), w2.shape[1]).double()
    for m in range(len(x)):
        for e, weight in zip(ids[m].tolist(), weights[m].double()):
            if 0 <= e < len(w1):
                gate, up = (w1[e].double() @ x[m].double()).chunk(2)
                y[m] += weight * (w2[e].double() @ (gated_mlp.ACTIVATIONS[act](gate) * up))
    return y


def near(found, wanted):
    return (found.double() - wanted).norm() / wanted.norm() < 1e-2


@pytest.mark.parametrize("act", ["silu", "relu", "gelu_tanh", "gelu_erf"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_operator_computes(act, dtype):
    given = operands(dtype=dtype)
    y = sinter.torch.experts(*given, act)
    assert y.shape == (7, 40) and y.dtype == dtype and near(y, exact(*given, act))
    x, ids, weights, w1, w2 = given
    turned = [w.transpose(1, 2).contiguous() for w in (w1, w2)]
    assert near(sinter.torch.experts(x, ids.long(), weights.to(dtype), *turned, act, "io"), exact(*given, act))


def test_ids_of_no_expert_add_nothing_and_equal_ids_count_twice():
    x, ids, weights, w1, w2 = operands()
    ids[0] = torch.tensor([6, -1, 2**31 - 1])
    ids[1] = torch.tensor([4, 4, -7])
    y = sinter.torch.experts(x, ids, weights, w1, w2)
    assert near(y, exact(x, ids, weights, w1, w2)) and (y[0] == 0).all()


def test_torch_rounds_each_term_as_plans_do():
    x, ids, weights, w1, w2 = operands(rows=32)
    terms = [experts_module._by_torch(experts_module.Call(x, ids[:, t : t + 1], weights[:, t : t + 1], w1, w2)) for t in range(3)]
    assert torch.equal(experts_module._by_torch(experts_module.Call(x, ids, weights, w1, w2)), torch.stack(terms, 1).float().sum(1).bfloat16())


def test_no_rows():
    assert sinter.torch.experts(*operands(rows=0)).shape == (0, 40)


def test_the_operator_passes_torchs_checks():
    torch.library.opcheck(torch.ops.sinter.experts.default, operands())


@pytest.mark.parametrize(
    "message, change",
    [
        ("act is 'tanh'", lambda *g: (*g, "tanh")),
        ("layout is 'ii'", lambda *g: (*g, "silu", "ii")),
        (r"x is torch.bfloat16 \(7, 56\), not torch.bfloat16 \(rows, 64\)", lambda x, *g: (x[:, :56], *g)),
        (r"ids has shape \(6, 3\), not \(7, 1 to 32\)", lambda x, ids, *g: (x, ids[1:], *g)),
        ("ids is torch.float32", lambda x, ids, *g: (x, ids.float(), *g)),
        (r"weights is torch.float32 \(7, 2\)", lambda x, ids, w, *g: (x, ids, w[:, :2], *g)),
        ("gate and up are not twice what down takes", lambda x, ids, w, w1, w2: (x, ids, w, w1[:, :40], w2)),
        ("not contiguous", lambda x, ids, w, w1, w2: (x, ids, w, w1, w2.transpose(1, 2).contiguous().transpose(1, 2))),
        ("is not a multiple of 8", lambda x, ids, w, w1, w2: (x, ids, w, w1, w2[:, :30].contiguous())),
        ("not both bfloat16", lambda x, ids, w, w1, w2: (x, ids, w, w1, w2.float())),
    ],
)
def test_the_operator_names_what_does_not_fit(message, change):
    with pytest.raises(sinter.Error, match=message):
        sinter.torch.experts(*change(*operands()))


def test_its_chain_is_one_that_the_library_takes():
    x, ids, weights, w1, w2 = operands()
    line = experts_module.experts_line(*(6, 3, 24, 64, 40), "silu", torch.bfloat16)
    shapes = [info.shape for info in sinter.Chain.from_text(line).buffers(7)]
    assert shapes == [tuple(t.shape) for t in (x, ids, weights, w1, w2)] + [(7, 40)]


@pytest.fixture
def on_fake_gpu(gpu, monkeypatch):
    """The CUDA implementation on host memory: the fake driver's kernels read nothing."""
    store = store_module.Store()
    store.use(gpu)
    monkeypatch.setattr(experts_module, "store", store)
    monkeypatch.setattr(run_chain, "store", store)
    monkeypatch.setattr(experts_module, "_places", {})
    monkeypatch.setattr(launch, "current_of_torch", lambda device: 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch.Tensor, "device", property(lambda self: torch.device("cuda", 0)))
    monkeypatch.setattr(torch.Tensor, "new_empty", lambda self, shape: torch.empty(shape, dtype=self.dtype))
    return store


def test_the_operator_launches_a_plan_of_the_bucket(on_fake_gpu, gpu):
    before = gpu.stats().launches
    for rows in (7, 3, 8, 0):
        assert experts_module._on_gpu(*operands(rows)).shape == (rows, 40)
    launched = gpu.stats().launches - before
    assert launched > 0 and launched % 3 == 0 and on_fake_gpu.counts().prepared == 1
    experts_module._on_gpu(*operands(9))
    assert on_fake_gpu.counts().prepared == 2


def test_a_size_that_was_prepared_serves_fewer_rows(on_fake_gpu, gpu):
    line = experts_module.experts_line(6, 3, 24, 64, 40, "silu", torch.bfloat16)
    on_fake_gpu.prepare(gpu, [line], [13])
    for rows in (13, 9):
        experts_module._on_gpu(*operands(rows))
    assert on_fake_gpu.counts().prepared == 1


def test_more_rows_than_the_last_bucket_have_one_plan(on_fake_gpu):
    for rows in (8200, 9000):
        assert experts_module._on_gpu(*operands(rows)).shape == (rows, 40)
    assert on_fake_gpu.counts().prepared == 1


def misaligned(value):
    """Equal, and 4 bytes past an aligned address."""
    room = torch.zeros(value.numel() + 4, dtype=value.dtype)
    at = next(i for i in range(4) if room[i:].data_ptr() % 16)
    return room[at : at + value.numel()].view(value.shape).copy_(value)


def test_ids_and_weights_that_are_not_aligned_are_copied(on_fake_gpu):
    x, ids, weights, w1, w2 = operands()
    ids, weights = misaligned(ids), misaligned(weights)
    assert ids.data_ptr() % 16 and weights.data_ptr() % 16
    assert experts_module._on_gpu(x, ids, weights, w1, w2).shape == (7, 40)


@pytest.fixture
def torchs(monkeypatch):
    """The computations of torch, by rows."""
    calls = []
    monkeypatch.setattr(experts_module, "_by_torch", lambda of: calls.append(len(of.x)) or of.x)
    return calls


def in_a_graph(*given):
    return experts_module._on_gpu(*given, "silu", "oi", False)


def test_no_call_of_a_compiled_graph_waits_for_a_build(on_fake_gpu, torchs, monkeypatch):
    place = types.SimpleNamespace(plan=None, asked=[])
    place.look = lambda seconds: place.asked.append(seconds)
    made = []
    monkeypatch.setattr(experts_module, "Place", lambda device, chain, rows, limit_us: made.append(rows) or place)
    for rows in (7, 5, 8, 9, 8193, 9000):
        in_a_graph(*operands(rows)) if rows < 1024 else experts_module._built_behind(0, experts_module.experts_line(*LINE), rows)
    assert torchs == [7, 5, 8, 9] and place.asked == [None] * 6 and made == [7, 9, 8193]
    assert on_fake_gpu.counts().prepared == 0


LINE = (6, 3, 24, 64, 40, "silu", torch.bfloat16)


def test_a_plan_that_was_built_behind_calls_is_launched(on_fake_gpu, torchs, gpu):
    before = gpu.stats().launches
    given = operands()
    in_a_graph(*given)
    place = next(iter(experts_module._places.values()))
    place.look(-1)
    torchs.clear()
    assert in_a_graph(*given).shape == (7, 40) and torchs == [] and gpu.stats().launches > before


def test_builds_that_fail_end(on_fake_gpu, torchs, monkeypatch):
    tried = []

    def slot(chain, rows):
        tried.append(rows)
        raise sinter.Error(sinter.Status.RESOURCE_EXHAUSTED, "no memory")

    monkeypatch.setattr(on_fake_gpu, "context", lambda device: types.SimpleNamespace(slot=slot))
    monkeypatch.setattr(run_chain, "_RETRY_SECONDS", 0.0)
    given = operands()
    for _ in range(9):
        in_a_graph(*given)
    assert len(tried) == 5 and torchs == [7] * 9


def test_what_does_not_fit_is_torchs_in_a_compiled_graph(on_fake_gpu, torchs):
    x, ids, weights, w1, w2 = operands()
    turned = w2.transpose(1, 2).contiguous().transpose(1, 2)
    in_a_graph(x, ids, weights, w1, turned)
    assert torchs == [7]


# ---------------------------------------------------------------- transformers


def test_importing_sinter_imports_no_transformers_and_adds_the_name_later():
    pytest.importorskip("transformers.integrations.moe")
    code = """if True:
        import sys, sinter.torch
        assert "transformers" not in sys.modules
        from transformers.integrations import moe
        assert moe.ALL_EXPERTS_FUNCTIONS["sinter"] is sinter.torch.serve.transformers.experts_forward
        ours = lambda: [finder.registry for finder in sys.meta_path if type(finder) is sinter.torch.serve.transformers._Finder]
        assert ours() == ["transformers.integrations.finegrained_fp8"]
        from transformers.integrations import finegrained_fp8
        assert finegrained_fp8.ALL_FP8_EXPERTS_FUNCTIONS["sinter"] is sinter.torch.serve.transformers.codes_forward and ours() == []
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=240)


@pytest.fixture(scope="module")
def qwen3_moe():
    transformers = pytest.importorskip("transformers", minversion="5.0")
    config = transformers.Qwen3MoeConfig(
        hidden_size=64, moe_intermediate_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
        head_dim=32, vocab_size=128, num_experts=16, num_experts_per_tok=4, decoder_sparse_step=1, norm_topk_prob=True,
    )  # fmt: skip
    torch.manual_seed(0)
    return transformers.Qwen3MoeForCausalLM(config).bfloat16().eval()


def own_and_ours(model, tokens):
    with torch.no_grad():
        model.set_experts_implementation("eager")
        own = model(tokens).logits.double()
        model.set_experts_implementation("sinter")
        return own, model(tokens).logits


def test_transformers_experts_are_taken(qwen3_moe, monkeypatch):
    calls = []
    kernel = experts_module._by_torch
    monkeypatch.setattr(experts_module, "_by_torch", lambda of: calls.append(tuple(of.x.shape)) or kernel(of))
    own, ours = own_and_ours(qwen3_moe, torch.arange(14).view(2, 7))
    assert near(ours, own) and calls == [(14, 64)] * 2


def test_transformers_experts_are_compiled_in_one_graph(qwen3_moe):
    tokens = torch.arange(14).view(2, 7)
    _, ours = own_and_ours(qwen3_moe, tokens)
    with torch.no_grad():
        compiled = torch.compile(qwen3_moe, backend="aot_eager", fullgraph=True)
        assert near(compiled(tokens).logits, ours.double())


def test_models_with_experts_are_prepared(qwen3_moe, context, need_compiler):
    qwen3_moe.set_experts_implementation("sinter")
    made = prepare_model(qwen3_moe, [1, 8], context=context)
    line = "grouped_gated_ffn m=M experts=16 top=4 n=32 k=64 l=64 act=silu order=gate_up layout=oi dtype=bf16"
    assert set(made) == {(line, 1), (line, 8)}
    qwen3_moe.set_experts_implementation("grouped_mm")
    with pytest.raises(sinter.Error, match="no experts with"):
        prepare_model(qwen3_moe, [1], context=context)


@pytest.fixture
def codes_module():
    """transformers' experts of e4m3, as it makes them of a checkpoint with blocks of 128 x 128; registered under Sinter's name."""
    pytest.importorskip("transformers", minversion="5.0")
    of_codes = pytest.importorskip("transformers.integrations.finegrained_fp8")
    from transformers.integrations import moe

    assert of_codes.ALL_FP8_EXPERTS_FUNCTIONS["sinter"] is transformers_module.codes_forward
    kind = moe.use_experts_implementation(
        experts_class=type("Codes", (of_codes.FP8Experts,), {}), experts_interface=of_codes.ALL_FP8_EXPERTS_FUNCTIONS
    )
    config = types.SimpleNamespace(
        hidden_size=256, num_experts=6, moe_intermediate_size=128, hidden_act="silu", num_experts_per_tok=3, _experts_implementation="sinter",
        dtype=torch.bfloat16,
    )  # fmt: skip
    return kind(config, block_size=(128, 128)).requires_grad_(False)


def test_transformers_experts_of_codes_are_taken(codes_module, monkeypatch):
    launched = []

    def launch(x, ids, weights, w13, w2, scales, out, within):
        launched.append((tuple(scales.w13.shape), tuple(scales.w2.shape), scales.x, within))
        return out.fill_(3)

    monkeypatch.setattr(transformers_module, "launch_scaled_experts", launch)
    given = torch.ones(2, 256).bfloat16(), torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3)
    monkeypatch.setattr(torch.Tensor, "device", property(lambda self: torch.device("cuda", 0)))
    y = codes_module(*given)
    assert y.shape == (2, 256) and (y == 3).all() and launched == [((6, 2, 2), (6, 2, 1), None, None)]


def test_models_with_experts_of_codes_are_prepared(codes_module, context, need_compiler):
    from sinter.torch.serve.scaled_experts import scaled_experts_key

    key = scaled_experts_key(6, 3, 128, 256, 256, torch.bfloat16, False)
    assert transformers_module.line_of(codes_module)[0] == key
    assert set(prepare_model(torch.nn.Sequential(codes_module), [8], context=context)) == {(key, 8)}


CODES_REFUSED = {
    "not 'dynamic'": dict(activation_scheme="static"),
    r"their block_size is None, not \(128, 128\)": dict(block_size=None),
    "their gate is bounded or scaled": dict(limit=7.0),
    "their activation is Tanh": dict(act_fn=torch.nn.Tanh()),
    "scales of w2 are torch.float32": dict(down_proj_scale_inv=torch.nn.Parameter(torch.ones(6, 1, 1), requires_grad=False)),
    "rows are on cpu": {},
}


@pytest.mark.parametrize("reason", CODES_REFUSED)
def test_codes_that_do_not_fit_are_transformers(codes_module, caplog, monkeypatch, reason):
    import re

    from transformers.integrations import finegrained_fp8

    own = []
    for name, value in CODES_REFUSED[reason].items():
        setattr(codes_module, name, value)
    monkeypatch.setattr(transformers_module, "_told", set())
    monkeypatch.setitem(finegrained_fp8.FP8ExpertsInterface._global_mapping, "grouped_mm", lambda self, *given: own.append(self))
    given = torch.ones(2, 256).bfloat16(), torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3)
    with caplog.at_level(logging.WARNING, "sinter"):
        for _ in range(2):
            codes_module(*given)
    assert own == [codes_module] * 2 and len(caplog.records) == 1 and re.search(reason, caplog.text)


REFUSED = {
    "they have no gate": dict(has_gate=False),
    "they have biases": dict(has_bias=True),
    "a norm follows each expert": dict(has_post_expert_norm=True),
    "gate and up are interleaved": dict(is_concatenated=False),
    "their activation is Tanh": dict(act_fn=torch.nn.Tanh()),
    "not both bfloat16": dict(down_proj=torch.nn.Parameter(torch.zeros(16, 64, 32))),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_experts_that_do_not_fit_are_told_of_once(qwen3_moe, caplog, monkeypatch, reason):
    from transformers.integrations import moe

    experts, own = qwen3_moe.model.layers[0].mlp.experts, []
    for name, value in REFUSED[reason].items():
        if name == "act_fn":
            monkeypatch.setitem(experts._modules, name, value)
        elif name == "down_proj":
            monkeypatch.setitem(experts._parameters, name, value)
        else:
            monkeypatch.setattr(experts, name, value, raising=False)  # older versions of transformers have fewer
    monkeypatch.setattr(transformers_module, "_told", set())
    monkeypatch.setitem(moe.ExpertsInterface._global_mapping, "grouped_mm", lambda self, *given: own.append(self))
    given = torch.ones(2, 64).bfloat16(), torch.zeros(2, 4, dtype=torch.int64), torch.ones(2, 4)
    with torch.no_grad(), caplog.at_level(logging.WARNING, "sinter"):
        for _ in range(2):
            transformers_module.experts_forward(experts, *given)
    assert own == [experts] * 2 and len(caplog.records) == 1 and reason in caplog.text and "Qwen3MoeExperts" in caplog.text


def test_gradients_and_a_gate_of_ones_own_are_transformers(qwen3_moe):
    experts = qwen3_moe.model.layers[0].mlp.experts
    given = torch.ones(2, 64).bfloat16(), torch.zeros(2, 4, dtype=torch.int64), torch.ones(2, 4)
    assert transformers_module._reason_against(experts, *given) == "gradients are wanted"
    with torch.no_grad():
        assert transformers_module._reason_against(experts, *given) == ""
        special = type("Special", (type(experts),), {"_apply_gate": lambda self, both: both})
        try:
            experts.__class__ = special
            assert transformers_module._reason_against(experts, *given) == "their gate is one of their own"
        finally:
            experts.__class__ = special.__bases__[0]


def test_an_error_of_a_plan_is_told_of_and_transformers_computes(qwen3_moe, caplog, monkeypatch):
    def refuse(*given):
        raise sinter.Error(sinter.Status.NO_LEGAL_PLAN, "no family")

    monkeypatch.setattr(transformers_module, "_told", set())
    monkeypatch.setattr(experts_module, "_by_torch", refuse)
    with caplog.at_level(logging.WARNING, "sinter"):
        own, ours = own_and_ours(qwen3_moe, torch.arange(6).view(2, 3))
    assert near(ours, own) and "no family" in caplog.text and len(caplog.records) == 1
