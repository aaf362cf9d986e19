"""vLLM's plugin on layers of e4m3, against stand-ins of vLLM 0.24's classes."""

import logging
import sys
import types

import pytest

torch = pytest.importorskip("torch")

from sinter.torch import servers
from sinter.torch.runtime import store
from sinter.torch.serve.between_chain import QUANTIZERS
from sinter.torch.serve.scaled_linear import scaled_linear

import test_plugins
from test_plugins import Layer, LinearMethod, RMSNorm, clean, close, vllm  # noqa: F401
from test_torch_scaled import scaled
from test_vllm_rows import calls, compiled

HIDDEN, INNER = 256, 256

#: Given scales of the rows of qkv, o, gate_up and down. Few numbers are beyond what they reach.
GIVEN = [1 / 64, 1 / 96, 1 / 80, 1 / 48]

GROUPS = {"row": ((1, -1), (-1, 1)), "group": ((1, 128), (128, 128)), "group_ue8m0": ((1, 128), (128, 128)), "static": ((-1, -1), (-1, -1))}


def kernel(name, quantizer, static=None):
    """A stand-in for vLLM's kernel of a linear layer, with the attributes that the plugin reads."""
    rows, matrix = GROUPS.get(quantizer, quantizer)
    static = quantizer == "static" if static is None else static
    key = lambda shape, given: types.SimpleNamespace(scale=types.SimpleNamespace(group_shape=shape, static=given))
    made = type(name, (), {})()
    made.config = types.SimpleNamespace(activation_quant_key=key(rows, static), weight_quant_key=key(matrix, True))
    if quantizer == "group_ue8m0":
        made.use_deep_gemm_e8m0 = True
    return made


CUTLASS = "CutlassFP8ScaledMMLinearKernel"
KERNELS = {"row": CUTLASS, "static": CUTLASS, "group": "CutlassFp8BlockScaledMMKernel", "group_ue8m0": "DeepGemmFp8BlockScaledMMKernel"}


class Fp8LinearMethod(LinearMethod):
    """vLLM's. `own`: counts its products."""

    def __init__(self, quantizer, of_scheme):
        self.quantizer, self.calls = quantizer, 0
        if not of_scheme:
            self.fp8_linear = kernel(KERNELS[quantizer], quantizer)

    def apply(self, layer, x, bias=None):
        self.calls += 1
        if self.quantizer.startswith("group"):
            return scaled_linear(x, layer.weight, layer.weight_scale_inv, self.quantizer)
        return scaled_linear(x, layer.weight.t(), layer.weight_scale, self.quantizer, layer.input_scale)


def quantise(linear, quantizer, of_scheme=False, given=None):
    """Leaves on a linear layer what vLLM leaves after loading: without blocks the transposed weight. `given`: the scale of rows."""
    codes, scale = scaled(linear.weight, quantizer)
    keep = lambda tensor: torch.nn.Parameter(tensor, requires_grad=False)
    linear.weight = keep(codes if quantizer.startswith("group") else codes.t())
    setattr(linear, "weight_scale_inv" if quantizer.startswith("group") else "weight_scale", keep(scale))
    linear.quant_method = Fp8LinearMethod(quantizer, of_scheme)
    linear.input_scale = keep(torch.tensor(given)) if quantizer == "static" else None
    if of_scheme:
        linear.scheme = types.SimpleNamespace(fp8_linear=kernel(KERNELS[quantizer], quantizer))


class Wide(Layer):
    def __init__(self, mlp, **options):
        torch.nn.Module.__init__(self)
        self.self_attn, self.mlp = test_plugins.Attention(HIDDEN, **options), mlp(HIDDEN, INNER)
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(HIDDEN), RMSNorm(HIDDEN)


class Tapped:
    """vLLM's loop over the layers of a model that a drafting one reads states of: EAGLE 3's."""

    def _maybe_add_hidden_state(self, aux_hidden_states, layer_idx, hidden_states, residual):
        if layer_idx in self.aux_hidden_state_layers:
            aux_hidden_states.append(hidden_states + residual if residual is not None else hidden_states)
        return aux_hidden_states

    def forward(self, positions, hidden_states):
        residual = None
        states = self._maybe_add_hidden_state([], 0, hidden_states, residual)
        for number, layer in enumerate(self.layers):
            hidden_states, residual = layer(positions, hidden_states, residual)
            self._maybe_add_hidden_state(states, number + 1, hidden_states, residual)
        hidden_states = self.norm(hidden_states, residual)[0]
        return (hidden_states, states) if states else hidden_states


@pytest.fixture
def make(vllm, monkeypatch):
    """make(quantizer): a model of vLLM with layers of e4m3, and make.register."""
    llama, mlp = vllm.models[0]
    kind = type("LlamaModel", (Tapped, llama), {})
    monkeypatch.setattr(Wide, "forward", Wide.forward, raising=False)  # the plugin assigns it

    def model(quantizer, count=4, of_scheme=False, taps=()):
        made = kind(mlp, count=0)
        torch.manual_seed(6)
        made.layers = torch.nn.ModuleList([Wide(mlp) for _ in range(count)])
        made.norm = RMSNorm(HIDDEN)
        made.aux_hidden_state_layers = taps
        for layer in made.layers:
            for linear, given in zip(linears(layer) if quantizer else (), GIVEN):
                quantise(linear, quantizer, of_scheme, given)
        return made

    def register():
        import sinter_vllm

        sinter_vllm.register()

    model.register = register
    return model


def plain(model, count=5):
    """The results of vLLM's own layers, whatever the plugin did to the classes."""
    return Tapped.forward(model, *rows(count))


def linears(layer):
    return layer.self_attn.qkv_proj, layer.self_attn.o_proj, layer.mlp.gate_up_proj, layer.mlp.down_proj


def rows(count=5):
    torch.manual_seed(9)
    return torch.arange(count), torch.randn(count, HIDDEN).bfloat16()


@pytest.mark.parametrize("of_scheme", [False, True])
@pytest.mark.parametrize("quantizer", QUANTIZERS)
def test_layers_of_e4m3_are_linked(make, caplog, quantizer, of_scheme):
    own = plain(make(quantizer, of_scheme=of_scheme))
    make.register()
    taken = make(quantizer, of_scheme=of_scheme)
    names = set(taken.state_dict())
    with caplog.at_level(logging.INFO, "vllm.sinter"):
        result = taken(*rows())
    assert close(result, own)
    assert f"4 layers from attention to attention, of e4m3 by {quantizer}" in caplog.text
    assert taken.state_dict().keys() == names
    assert [type(layer.self_attn.o_proj).__name__ for layer in taken.layers] == ["Passed"] * 3 + ["RowParallelLinear"]
    assert [layer.mlp.own_calls for layer in taken.layers] == [0, 0, 0, 1]
    assert taken.vllm_config.additional_config["sinter"].endswith(f"of e4m3 by {quantizer}")


@pytest.mark.parametrize("quantizer", ["row", "group", "static"])
def test_rows_beyond_every_plan_are_vllms_products(make, quantizer):
    make.register()
    taken, other = make(quantizer), make(quantizer)
    taken(*rows())
    most = servers.largest()
    assert most == 48
    inner = [linear.quant_method for layer in taken.layers for linear in (layer.mlp.gate_up_proj, layer.mlp.down_proj)]
    before = [method.calls for method in inner]
    result = taken(*rows(most + 1))
    assert close(result, plain(other, most + 1))
    assert [method.calls - count for method, count in zip(inner, before)] == [1] * 8


@pytest.mark.parametrize("quantizer", ["row", "static"])
def test_without_a_plan_the_operator_calls_vllms_layers(make, quantizer):
    make.register()
    taken = make(quantizer)
    taken(*rows())
    layer = taken.layers[0]
    o, gate_up, down, qkv = layer.sinter_codes
    x = rows()[1]
    for codes, linear in zip((o, gate_up, down, qkv), (layer.sinter_own[0], layer.mlp.gate_up_proj, layer.mlp.down_proj, layer.sinter_own[1])):
        assert codes.data_ptr() == linear.weight.data_ptr() and codes.is_contiguous()
        before = linear.quant_method.calls
        wide = x.repeat(1, 2)[:, : codes.shape[1]]
        assert torch.equal(store.store.settings.linear(wide, codes), linear.quant_method.apply(linear, wide))
        assert linear.quant_method.calls == before + 2
    assert store.store.settings.linear(x, torch.empty(2, HIDDEN)) is None


@pytest.mark.parametrize("quantizer", ["row", "static"])
def test_layers_of_e4m3_are_compiled_in_one_graph(make, quantizer):
    make.register()
    taken = make(quantizer)
    own = plain(make(quantizer))
    taken(*rows())
    graphs = []

    def keep(module, examples):
        graphs.append(module)
        return module.forward

    torch._dynamo.reset()
    step = torch.compile(taken.forward, backend=keep, fullgraph=True, dynamic=True)
    assert close(step(*rows()), own)
    assert len(graphs) == 1 and str(graphs[0].graph).count("between_attentions") >= 3


def ranged(model):
    """A model that vLLM compiles for each range of rows."""
    config = model.vllm_config.compilation_config
    config.mode, config.backend, config.compile_ranges_endpoints = types.SimpleNamespace(name="VLLM_COMPILE"), "inductor", [8192]
    return model


def test_graphs_of_ranges_hold_plans_or_vllms_modules(make, vllm):
    make.register()
    taken, other = ranged(make("row", count=2)), make("row", count=2)
    taken(*rows())
    assert taken.vllm_config.compilation_config.compile_ranges_endpoints == [48, 8192]
    for begin, end, plans in ((1, 48, 1), (49, 8192, 0)):
        with torch.no_grad():
            step, graphs = compiled(vllm, taken.forward, (begin, end))
            result = step(*rows(begin + 6))
        assert close(result, plain(other, begin + 6))
        called = calls(graphs[0])
        assert len(graphs) == 1 and sum("between_attentions" in call for call in called) == plans
        assert not any("plan_or_server" in call for call in called)
        # vLLM computes, besides a plan, the first projection and the last layer's o, gate_up and down.
        assert sum("aten.mm" in call for call in called) == (4 if plans else 8), called


CHANGES = [dict(mode=None), dict(backend="eager"), dict(compile_ranges_endpoints=[40]), dict(compile_ranges_endpoints=None)]


@pytest.mark.parametrize("change", [{}, *CHANGES])
def test_only_graphs_of_ranges_choose(make, change):
    make.register()
    taken = ranged(make("row"))
    vars(taken.vllm_config.compilation_config).update(change)
    taken(*rows())
    assert [layer.sinter_chosen for layer in taken.layers[:3]] == [not change] * 3


def test_an_operator_that_no_pass_replaced_is_the_plan():
    plan, server = ([torch.full((2, 3), float(one)) for one in pair] for pair in ((1, 2), (3, 4)))
    found = torch.ops.sinter.plan_or_server(plan, server)
    assert all(torch.equal(one, wanted) and one is not wanted for one, wanted in zip(found, plan))


def spoil(model, why):
    layer = model.layers[1]
    down = layer.mlp.down_proj
    method = down.quant_method
    if why == "a given scale":
        method.fp8_linear = kernel(KERNELS["row"], "row", static=True)
    if why == "another kernel":
        method.fp8_linear = kernel("MarlinFP8ScaledMMLinearKernel", "row")
    if why == "another method":
        del method.fp8_linear
    if why == "another sharing":
        method.fp8_linear = kernel(KERNELS["row"], ((1, -1), (-1, -1)))
    if why == "two formats":
        method.fp8_linear = kernel(KERNELS["group"], "group")
    if why == "one is not quantised":
        down.quant_method = test_plugins.UnquantizedLinearMethod()
        down.weight = torch.nn.Parameter(torch.ones(HIDDEN, INNER).bfloat16(), requires_grad=False)
    if why == "a bound":
        down.input_scale_ub = torch.ones(1)
    if why == "repacked":
        down.weight = torch.nn.Parameter(down.weight.t().contiguous(), requires_grad=False)
    if why == "scales of one number":
        down.weight_scale = torch.nn.Parameter(torch.ones(()), requires_grad=False)
    if why == "split":
        down.input_size_per_partition //= 2


REASONS = {
    "a given scale": "a scale of down_proj is shared by (1, -1) of its rows (given) and (-1, 1) of its weight",
    "another kernel": "down_proj is computed by MarlinFP8ScaledMMLinearKernel",
    "another method": "down_proj is quantised by Fp8LinearMethod",
    "another sharing": "a scale of down_proj is shared by (1, -1) of its rows (computed) and (-1, -1) of its weight",
    "two formats": "its layers are quantised in several ways: group, row",
    "one is not quantised": "its layers are quantised in several ways: not at all, row",
    "a bound": "the scales of rows of down_proj have an upper bound",
    "repacked": "the weight of down_proj is torch.float8_e4m3fn with strides (1, 256)",
    "scales of one number": "scales of down_proj are torch.float32 ()",
    "split": "the layer is split over several GPUs",
}


STATIC = {
    "missing": (lambda down: None, "a scale of the rows of down_proj is missing"),
    "two": (lambda down: torch.ones(2), "scales of down_proj are torch.float32 (2,) with strides (1,), not contiguous float32 ()"),
    "misaligned": (lambda down: torch.ones(8)[1], "scales of down_proj begin at the address"),
}


@pytest.mark.parametrize("why", STATIC)
def test_given_scales_that_no_plan_takes_are_named(make, caplog, why):
    make.register()
    model = make("static")
    down = model.layers[1].mlp.down_proj
    value, reason = STATIC[why]
    down.input_scale = None if value(down) is None else torch.nn.Parameter(value(down), requires_grad=False)
    with caplog.at_level(logging.WARNING, "sinter"):
        try:
            model(*rows())
        except RuntimeError:
            assert why == "two"  # vLLM's own stand-in cannot multiply by it
    assert reason in caplog.text
    assert not any(hasattr(layer, "sinter_after") for layer in model.layers)


def test_scales_of_up_that_no_plan_can_address_are_named(make, caplog, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "HIDDEN", 128)
    make.register()
    with caplog.at_level(logging.WARNING, "sinter"):
        make("group")(*rows())
    assert "the scales of up in gate_up_proj begin 8 bytes after the scales of gate" in caplog.text


@pytest.mark.parametrize("why", REASONS)
def test_what_is_not_taken_is_named(make, caplog, why):
    make.register()
    model = make("row")
    spoil(model, why)
    with caplog.at_level(logging.WARNING, "sinter"):
        try:
            model(*rows())
        except RuntimeError:
            assert why in ("repacked", "another sharing")  # vLLM's own stand-in cannot multiply it
    assert REASONS[why] in caplog.text
    assert not any(hasattr(layer, "sinter_after") for layer in model.layers)
