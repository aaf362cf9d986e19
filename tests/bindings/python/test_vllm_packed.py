"""vLLM's plugin on layers with weights of four bits, against stand-ins of what vLLM 0.24's Marlin kernels leave after loading."""

import logging
import types

import pytest

torch = pytest.importorskip("torch")

from sinter.torch import servers
from sinter.torch.runtime import store

import test_plugins
from test_plugins import LinearMethod, clean, close, vllm  # noqa: F401
from test_torch_packed import quantised
from test_vllm_rows import calls, compiled
from test_vllm_scaled import linears, make, plain, ranged, rows  # noqa: F401

#: The names that vLLM's methods give to codes, scales and zeros.
NAMES = {
    "AWQ": ("qweight", "scales", "qzeros"),
    "GPTQ": ("qweight", "scales", "qzeros"),
    "compressed-tensors": ("weight_packed", "weight_scale", "weight_zero_point"),
}


class MarlinLinearKernel:
    """What the plugin reads of vLLM's kernel. `apply_weights` counts its products."""

    def __init__(self, shape, group, zeros, names, dtype):
        self.config = types.SimpleNamespace(
            partition_weight_shape=shape, weight_type="uint4" if zeros else "uint4b8", act_type=dtype, group_size=group, zero_points=zeros, has_g_idx=False
        )  # fmt: skip
        self.names, self.calls = names, 0

    def _get_weight_params(self, layer):
        return (*(getattr(layer, name) for name in self.names), layer.g_idx)

    def apply_weights(self, layer, x, bias=None):
        self.calls += 1
        return torch.nn.functional.linear(x, self.values)


class MacheteLinearKernel(MarlinLinearKernel):
    pass


class PackedMethod(LinearMethod):
    """AutoAWQMarlinLinearMethod, AutoGPTQLinearMethod or CompressedTensorsLinearMethod, which has a scheme."""

    def apply(self, layer, x, bias=None):
        return kernel_of(layer).apply_weights(layer, x, bias)


def kernel_of(layer):
    return layer.scheme.kernel if hasattr(layer, "scheme") else layer.quant_method.kernel


def pack(linear, group, zeros, form, seed):
    """Leaves on a linear layer what vLLM leaves after loading."""
    n, k = linear.weight.shape
    codes, scale, zero, values = quantised(n, k, group, zeros, seed=seed)
    keep = lambda tensor: torch.nn.Parameter(tensor, requires_grad=False)
    empty = torch.empty(0, dtype=torch.int32)
    del linear.weight
    kernel = MarlinLinearKernel((k, n), group, zeros, NAMES[form], torch.bfloat16)
    kernel.values = values
    for name, tensor in zip(NAMES[form], (codes, scale, empty if zero is None else zero)):
        setattr(linear, name, keep(tensor))
    linear.g_idx, linear.g_idx_sort_indices = keep(empty), keep(empty)
    linear.quant_method = PackedMethod()
    if form == "compressed-tensors":
        linear.scheme = types.SimpleNamespace(kernel=kernel)
    else:
        linear.quant_method.kernel = kernel


@pytest.fixture
def packed(make):
    """packed(group, zeros, form): a model of vLLM with layers of four bits, and packed.register."""

    def model(group=64, zeros=False, form="GPTQ", **options):
        made = make("", **options)
        for number, layer in enumerate(made.layers):
            for place, linear in enumerate(linears(layer)):
                pack(linear, group, zeros, form, 4 * number + place)
        return made

    model.register = make.register
    return model


@pytest.mark.parametrize("form, group, zeros", [("AWQ", 128, True), ("GPTQ", 64, False), ("compressed-tensors", 32, False), ("compressed-tensors", 32, True)])
def test_layers_of_four_bits_are_linked(packed, caplog, form, group, zeros):
    own = plain(packed(group, zeros, form))
    packed.register()
    taken = packed(group, zeros, form)
    names = set(taken.state_dict())
    with caplog.at_level(logging.INFO, "vllm.sinter"):
        result = taken(*rows())
    assert close(result, own)
    of = f"of four bits by u4_g{group}{'_zeros' * zeros}"
    assert f"4 layers from attention to attention, {of}, for up to 48 rows" in caplog.text
    assert taken.state_dict().keys() == names
    assert [type(layer.self_attn.o_proj).__name__ for layer in taken.layers] == ["Passed"] * 3 + ["RowParallelLinear"]
    assert [layer.mlp.own_calls for layer in taken.layers] == [0, 0, 0, 1]
    assert taken.vllm_config.additional_config["sinter"].endswith(of)


def test_codes_and_scales_stay_where_vllm_left_them(packed):
    packed.register()
    taken = packed(128, True, "AWQ")
    taken(*rows())
    layer = taken.layers[0]
    for codes, scale, zeros, linear in zip(
        layer.sinter_codes, layer.sinter_scales, layer.sinter_scales[4:], (layer.sinter_own[0], layer.mlp.gate_up_proj, layer.mlp.down_proj, layer.sinter_own[1])
    ):
        assert codes.data_ptr() == linear.qweight.data_ptr() and codes.dtype == torch.int8 and codes.nbytes == linear.qweight.nbytes
        assert scale is linear.scales and zeros.shape == scale.shape and zeros.dtype == scale.dtype


def test_rows_beyond_kernels_are_vllms_products(packed, vllm):
    packed.register()
    taken, other = packed(), packed()
    for model in (taken, other):
        model.vllm_config.compilation_config.cudagraph_capture_sizes = [1, 64, 128, 512]
    ranged(taken)
    taken(*rows())
    assert servers.largest() == 64
    assert taken.vllm_config.compilation_config.compile_ranges_endpoints == [64, 8192]
    kernels = [kernel_of(linear) for layer in taken.layers for linear in (layer.mlp.gate_up_proj, layer.mlp.down_proj)]
    before = [kernel.calls for kernel in kernels]
    assert close(taken(*rows(65)), plain(other, 65))
    assert [kernel.calls - count for kernel, count in zip(kernels, before)] == [1] * 8
    for begin, end, plans in ((1, 64, 3), (65, 8192, 0)):
        with torch.no_grad():
            step, graphs = compiled(vllm, taken.forward, (begin, end))
            result = step(*rows(begin + 6))
        assert close(result, plain(other, begin + 6))
        assert sum("between_attentions" in call for call in calls(graphs[0])) == plans


def test_without_a_plan_the_operator_calls_vllms_layers(packed):
    packed.register()
    taken = packed()
    taken(*rows())
    layer = taken.layers[0]
    x = rows()[1]
    for codes, linear in zip(layer.sinter_codes, (layer.sinter_own[0], layer.mlp.gate_up_proj, layer.mlp.down_proj, layer.sinter_own[1])):
        kernel = kernel_of(linear)
        before = kernel.calls
        assert torch.equal(store.store.settings.linear(x, codes), torch.nn.functional.linear(x, kernel.values))
        assert kernel.calls == before + 1


def test_a_model_without_plans_keeps_its_numbers_of_rows(packed, monkeypatch):
    packed.register()
    model = packed()
    model.vllm_config.compilation_config.cudagraph_capture_sizes = [1, 512]
    monkeypatch.setattr(servers, "planned", lambda *arguments, **named: False)
    assert close(model(*rows()), plain(packed()))
    assert servers.largest() == 512 and not any(hasattr(layer, "sinter_after") for layer in model.layers)


def spoil(model, why):
    down = model.layers[1].mlp.down_proj
    kernel = kernel_of(down)
    config = kernel.config
    if why == "Machete":
        kernel.__class__ = MacheteLinearKernel
    if why == "another kernel":
        kernel.__class__ = type("ExllamaLinearKernel", (MarlinLinearKernel,), {})
    if why == "8 bits":
        config.weight_type = "uint8b128"
    if why == "a column's scale":
        config.group_size = -1
    if why == "rows of 8 bits":
        config.act_type = torch.int8
    if why in ("the order of activations", "a sorted order"):
        config.has_g_idx = True
        order = torch.arange(256).int()
        down.g_idx_sort_indices = torch.nn.Parameter(order if why == "a sorted order" else order.flip(0), requires_grad=False)
    if why == "one group":
        down.scales = torch.nn.Parameter(down.scales[:1].contiguous(), requires_grad=False)
        for linear in linears(model.layers[1]):
            kernel_of(linear).config.partition_weight_shape = (64, kernel_of(linear).config.partition_weight_shape[1])
    if why == "padded":
        config.partition_weight_shape = (192, 256)
    if why == "an odd extent":
        gate_up = kernel_of(model.layers[1].mlp.gate_up_proj).config
        gate_up.partition_weight_shape = (256, 576)
    if why == "scales of f16":
        down.scales = torch.nn.Parameter(down.scales.half(), requires_grad=False)
    if why == "misaligned":
        memory = torch.empty(down.qweight.numel() + 1, dtype=torch.int32)[1:]
        down.qweight = torch.nn.Parameter(memory.view(down.qweight.shape), requires_grad=False)
    if why == "no scales":
        down.scales = None
    if why == "two formats":
        pack_again(down)
    if why == "split":
        down.input_size_per_partition //= 2
    if why == "a bias":
        down.bias = torch.nn.Parameter(torch.zeros(256).bfloat16())


def pack_again(linear):
    linear.weight = torch.nn.Parameter(torch.ones(256, 256).bfloat16(), requires_grad=False)
    pack(linear, 128, False, "GPTQ", 1)


REASONS = {
    "Machete": "down_proj is computed by MacheteLinearKernel, whose order of codes no plan reads: start vLLM with VLLM_DISABLED_KERNELS=MacheteLinearKernel",
    "another kernel": "down_proj is computed by ExllamaLinearKernel, not by MarlinLinearKernel",
    "8 bits": "down_proj has weights of uint8b128; plans take uint4b8 and uint4",
    "a column's scale": "down_proj has groups of -1, must be one of 32 64 128",
    "rows of 8 bits": "rows of down_proj are quantised to torch.int8 (VLLM_MARLIN_INPUT_DTYPE)",
    "the order of activations": "down_proj was quantised in the order of activations (desc_act)",
    "one group": "qkv_proj has one group",
    "padded": "the weight of down_proj: torch.int32 (16, 512) with strides (512, 1), not contiguous torch.int32 (12, 512)",
    "an odd extent": "the weight of gate_up_proj is 576 x 256: of gate and of up n is 288, must be a multiple of 64",
    "scales of f16": "the scales of down_proj: torch.float16",
    "misaligned": "the weight of down_proj begins at the address",
    "no scales": "the scales of down_proj cannot be found",
    "two formats": "its layers are quantised in several ways: u4_g128, u4_g64",
    "split": "the layer is split over several GPUs",
    "a bias": "down_proj has a bias",
}


@pytest.mark.parametrize("why", REASONS)
def test_what_is_not_taken_is_named(packed, caplog, why):
    packed.register()
    model = packed()
    spoil(model, why)
    with caplog.at_level(logging.WARNING, "sinter"):
        model(*rows())
    assert REASONS[why] in caplog.text
    assert not any(hasattr(layer, "sinter_after") for layer in model.layers)


def test_a_sorted_order_of_activations_is_taken(packed, caplog):
    packed.register()
    model = packed()
    spoil(model, "a sorted order")
    assert close(model(*rows()), plain(packed())) and hasattr(model.layers[0], "sinter_after")
