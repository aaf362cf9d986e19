"""The layers between two attentions, with matrices of e4m3: the operator, the class and their chains. Needs no GPU."""

import json

import pytest

torch = pytest.importorskip("torch")

import sinter
import sinter.torch
from sinter.torch.serve import between_op
from sinter.torch.serve.between_chain import QUANTIZERS, between_chain, scale_shape
from sinter.torch.serve.scaled_linear import LARGEST, dequantized, quantized

HIDDEN, INNER = 128, 256

#: Given scales of the rows of o, gate_up, down and next.
GIVEN = [1 / 64, 1 / 48, 1 / 8, 1 / 32]


def given(quantizer):
    return [torch.tensor(one) for one in GIVEN if quantizer == "static"]


def scaled(matrix, quantizer):
    """Codes and scales of a matrix [n, k]."""
    rows, columns = matrix.shape
    shape = scale_shape(rows, columns, quantizer)
    down, across = shape or (1, 1)
    blocks = matrix.float().reshape(down, rows // down, across, columns // across)
    scale = blocks.abs().amax((1, 3)).clamp(min=1e-10) / LARGEST
    codes = (blocks / scale[:, None, :, None]).to(torch.float8_e4m3fn).reshape(rows, columns)
    return codes, scale.reshape(shape)


def layer_of(quantizer, q=HIDDEN, columns=384):
    """Weights and scales of the operator; gate and up differ in scale, as a merged matrix of two checkpoints' does, if each row has one."""
    torch.manual_seed(3)
    made = [torch.randn(shape) / 12 for shape in ((HIDDEN, q), (2 * INNER, HIDDEN), (HIDDEN, INNER), (columns, HIDDEN))]
    made[1][INNER:] *= 5
    codes, scales = zip(*(scaled(matrix, quantizer) for matrix in made))
    norms = [(torch.rand(HIDDEN) + 0.5).bfloat16() for _ in range(2)]
    weights = [codes[0], norms[0], codes[1], codes[2], norms[1], codes[3]]
    return weights, [*scales, *given(quantizer)], made


@pytest.mark.parametrize("quantizer", QUANTIZERS)
def test_the_operator_multiplies_what_codes_stand_for(quantizer):
    weights, scales, made = layer_of(quantizer)
    attended, stream = torch.randn(5, HIDDEN).bfloat16(), torch.randn(5, HIDDEN).bfloat16()
    found = torch.ops.sinter.between_attentions(attended, stream, weights, 1e-5, False, "", scales, quantizer)
    o, norm, gate_up, down, next_norm, last = weights
    plain = [dequantized(codes, scale, quantizer).bfloat16() for codes, scale in zip((o, gate_up, down, last), scales)]
    exact = torch.ops.sinter.between_attentions(attended, stream, [plain[0], norm, plain[1], plain[2], next_norm, plain[3]], 1e-5)
    whole = [matrix.bfloat16() for matrix in made]
    own = torch.ops.sinter.between_attentions(attended, stream, [whole[0], norm, *whole[1:3], next_norm, whole[3]], 1e-5)
    for one, codes, unquantised in zip(found, exact, own):
        error = lambda other: ((one.float() - other.float()).norm() / other.float().norm()).item()
        assert one.dtype == torch.bfloat16 and 0 < error(codes) < 0.06 and error(unquantised) < 0.09


@pytest.mark.parametrize("quantizer", QUANTIZERS)
def test_rows_are_quantised_as_vllm_does(quantizer):
    x = torch.randn(3, 256).bfloat16()
    x[1] = 0
    x[2, 5] = 300
    found = quantized(x, quantizer, *given(quantizer)[:1])
    groups = x.float().reshape(3, -1, 256 if quantizer == "row" else 128)
    scale = groups.abs().amax(-1, keepdim=True) / LARGEST
    scale = scale.clamp(min=1 / (LARGEST * 512)) if quantizer == "row" else scale.clamp(min=1e-10 / LARGEST)
    if quantizer == "group_ue8m0":
        scale = torch.exp2(torch.ceil(torch.log2(scale)))
    if quantizer == "static":
        scale, groups = torch.tensor(GIVEN[0]), groups.clamp(max=LARGEST * GIVEN[0])
    wanted = (groups / scale).to(torch.float8_e4m3fn).float() * scale
    assert torch.equal(found, wanted.reshape(3, 256)) and not found[1].any()


@pytest.mark.parametrize("quantizer", QUANTIZERS)
def test_chains_of_codes_are_planned_with_quantisers_in_kernels_around(quantizer):
    chain = between_chain(4096, 14336, 6144, 4096, (True, True), 1e-5, "silu", "bf16", quantizer=quantizer)
    plain = between_chain(4096, 14336, 6144, 4096, (True, True), 1e-5, "silu", "bf16")
    context = sinter.Context(target="h200")
    for rows in (1, 8, 32):
        found, bf16 = context.search(chain, rows), context.search(plain, rows)
        assert found.kernel_count <= 8 and found.predicted_us < 0.75 * bf16.predicted_us


def test_chains_differ_by_the_quantizer():
    chains = [between_chain(HIDDEN, INNER, 384, HIDDEN, (True, True), 1e-5, "silu", "bf16", quantizer=name).digest for name in ("", *QUANTIZERS)]
    assert len(set(chains)) == 1 + len(QUANTIZERS)


@pytest.mark.parametrize("quantizer", ["group", "static"])
def test_the_class_takes_what_the_operator_takes(quantizer):
    weights, scales, _ = layer_of(quantizer)
    o, norm, gate_up, down, next_norm, last = weights
    made = sinter.torch.BetweenAttentions(o, norm, gate_up, down, next_norm, last, eps=1e-5, scales=tuple(scales), quantizer=quantizer)
    key = between_chain(HIDDEN, INNER, 384, HIDDEN, (True, True), 1e-5, "silu", "bf16", quantizer=quantizer).digest
    assert made.chain.digest == key
    addresses = tuple(one.data_ptr() for one in made._weights)
    assert addresses == between_op._constants(weights, scales, False, quantizer)


@pytest.mark.parametrize("quantizer", ["", *QUANTIZERS])
def test_addresses_stand_in_the_chains_order(quantizer):
    weights, scales, made = layer_of(quantizer or "row")
    if not quantizer:
        weights[0], weights[2], weights[3], weights[5] = (matrix.bfloat16() for matrix in made)
        scales = []
    merged = lambda one: one.dim() and (one is weights[2] or scales and one is scales[1])
    parts = [half for one in (*weights, *scales) for half in (one.tensor_split(2) if merged(one) else (one,))]
    names = {torch.float8_e4m3fn: "e4m3", torch.float32: "f32", torch.bfloat16: "bf16"}
    found = {part.data_ptr(): [names[part.dtype], list(part.shape)] for part in parts}
    chain = between_chain(HIDDEN, INNER, 384, HIDDEN, (True, True), 1e-5, "silu", "bf16", quantizer=quantizer)
    inputs = json.loads(chain.to_json())["inputs"]
    constants = between_op._constants(weights, scales, False, quantizer)
    assert [found[address] for address in constants] == [[one["dtype"], one["dims"]] for one in inputs[2:]]
    assert len(set(constants)) == {"": 7, "static": 15}.get(quantizer, 12)  # gate and up share a static scale
    if quantizer == "static":
        assert constants[-4:] == tuple(one.data_ptr() for one in scales[4:])


def refuse(index=None, value=None, scale=None, quantizer="row", count=8, of="row"):
    weights, scales, _ = layer_of(of)
    if index is not None:
        weights[index] = value(weights[index])
    if scale is not None:
        scales[scale[0]] = scale[1](scales[scale[0]])
    rows = torch.ones(2, HIDDEN).bfloat16()
    with pytest.raises(sinter.Error) as error:
        torch.ops.sinter.between_attentions(rows, rows, weights, 1e-5, False, "", scales[:count], quantizer)
    return str(error.value)


def test_scales_that_do_not_fit_are_refused_by_name():
    assert "quantizer is 'rows'; there are row group group_ue8m0 static" in refuse(quantizer="rows")
    assert "there are 3 scales" in refuse(count=3)
    assert "there are 4 scales with quantizer ''" in refuse(quantizer="")
    assert "there are 4 scales with quantizer 'static': give those of o, gate_up, down and next, then the given" in refuse(quantizer="static")
    assert "there are 8 scales with quantizer 'row'" in refuse(of="static")
    assert "scales of rows of down are torch.float32 (1,)" in refuse(scale=(6, lambda s: s.reshape(1)), quantizer="static", of="static")
    assert "scales of gate are torch.float32 (1,)" in refuse(scale=(1, lambda s: s.expand(2)), quantizer="static", of="static")
    assert "down is torch.bfloat16" in refuse(3, lambda w: w.bfloat16())
    assert "scales of next are torch.float32 (384,)" in refuse(scale=(3, lambda s: s[:, 0]))
    assert "scales of o are torch.bfloat16" in refuse(scale=(0, lambda s: s.bfloat16()))
    assert "scales of o are torch.float32 (128, 1)" in refuse(quantizer="group")
    assert "o has strides (1, 128)" in refuse(0, lambda w: w.t().contiguous().t())
