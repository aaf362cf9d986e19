"""Matrices of four bits in the order of vLLM's Marlin kernels: their order, their chain and the operator. Needs no GPU."""

import json

import pytest

torch = pytest.importorskip("torch")

import sinter
import sinter.torch
from sinter.torch import servers
from sinter.torch.runtime import run_chain
from sinter.torch.serve import between_op, packed_matrix
from sinter.torch.serve.between_chain import between_chain
from sinter.torch.serve.packed_matrix import PACKED

HIDDEN, INNER, Q, COLUMNS = 128, 256, 256, 192


def weight_perm():
    """vLLM's get_weight_perm(4): the places of 1024 codes, by the lanes of mma.sync."""
    places = []
    for lane in range(32):
        first = [16 * (2 * (lane % 4) + row) + lane // 4 + 8 * block for block in (0, 1) for row in (0, 1, 8, 9)]
        places += [place + 256 * j for j in range(4) for place in first]
    return torch.tensor(places).reshape(-1, 8)[:, [0, 2, 4, 6, 1, 3, 5, 7]].flatten()


SCALE_PERM = [i + 8 * j for i in range(8) for j in range(8)]


def words(codes):
    """Codes [.., 8 n] as int32 [.., n], low bits first."""
    parts = codes.long().reshape(*codes.shape[:-1], -1, 8) << torch.arange(0, 32, 4)
    whole = parts.sum(-1)
    return torch.where(whole >= 2**31, whole - 2**32, whole).int()


def marlin_codes(codes):
    """Codes [k, n] as int32 [k / 16, 2 n], as vLLM's marlin_weights packs them."""
    k, n = codes.shape
    tiles = codes.reshape(k // 16, 16, n // 16, 16).permute(0, 2, 1, 3).reshape(-1, 1024)
    return words(tiles[:, weight_perm()].reshape(k // 16, 16 * n))


def marlin_scales(scales):
    """vLLM's marlin_permute_scales of several groups."""
    return scales.reshape(-1, 64)[:, SCALE_PERM].reshape(scales.shape).contiguous()


def marlin_zeros(zeros):
    """vLLM's marlin_zero_points: int32 [groups, n / 8]."""
    places = marlin_scales(zeros).reshape(-1, 8)[:, [0, 2, 4, 6, 1, 3, 5, 7]]
    return words(places.reshape(zeros.shape))


def quantised(n, k, group, zeros, dtype=torch.bfloat16, seed=1):
    """Marlin's tensors of a random matrix, and its values [n, k], each rounded once."""
    draw = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 16, (k, n), generator=draw)
    scale = (torch.rand(k // group, n, generator=draw) * 0.02 + 0.005).to(dtype)
    zero = torch.randint(0, 16, (k // group, n), generator=draw) if zeros else torch.full((k // group, n), 8)
    spread = lambda x: x.repeat_interleave(group, 0).float()
    values = ((codes - spread(zero)) * spread(scale)).to(dtype).t().contiguous()
    return marlin_codes(codes), marlin_scales(scale), marlin_zeros(zero) if zeros else None, values


def tensors(n, k, how, dtype=torch.bfloat16, seed=1):
    """The operator's codes, scale and zeros of a matrix, and its values."""
    codes, scale, zeros, values = quantised(n, k, how.group, how.zeros, dtype, seed)
    return codes.view(torch.int8), scale, None if zeros is None else packed_matrix.zeros_of(zeros, dtype), values


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("quantizer", PACKED)
def test_codes_of_marlin_are_the_matrix(quantizer, dtype):
    codes, scale, zero, values = tensors(192, 256, PACKED[quantizer], dtype)
    assert packed_matrix.extents(codes) == (192, 256)
    assert torch.equal(packed_matrix.dequantized(codes, scale, PACKED[quantizer], zero), values)


@pytest.mark.parametrize("quantizer", PACKED)
def test_the_chain_computes_the_matrix(quantizer):
    how = PACKED[quantizer]
    codes, scale, zero, values = tensors(128, 128, how)
    b = sinter.Builder()
    x = b.input("bf16", (sinter.M, 128))
    chain = b.finish((x @ packed_matrix.constant(b, 128, 128, how, "bf16").T).cast("bf16"))
    found = run_chain.by_reference(chain, [torch.eye(128).bfloat16(), codes, scale, *([] if zero is None else [zero])], 128)[0]
    assert torch.equal(found, values.t())


def layer_of(quantizer, dtype=torch.bfloat16):
    """The operator's weights and scales, and the matrices' values."""
    how = PACKED[quantizer]
    shapes = (HIDDEN, Q), (2 * INNER, HIDDEN), (HIDDEN, INNER), (COLUMNS, HIDDEN)
    codes, scales, zeros, values = zip(*(tensors(n, k, how, dtype, seed) for seed, (n, k) in enumerate(shapes)))
    torch.manual_seed(2)
    norms = [(torch.rand(HIDDEN) + 0.5).to(dtype) for _ in range(2)]
    weights = [codes[0], norms[0], codes[1], codes[2], norms[1], codes[3]]
    return weights, [*scales, *(zeros if how.zeros else ())], values


def plain(weights, values):
    return [values[0], weights[1], values[1], values[2], weights[4], values[3]]


def rows(count=5, dtype=torch.bfloat16):
    torch.manual_seed(9)
    return torch.randn(count, Q).to(dtype), torch.randn(count, HIDDEN).to(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("quantizer", ["u4_g32", "u4_g64_zeros"])
def test_the_operator_multiplies_the_matrices(quantizer, dtype):
    weights, scales, values = layer_of(quantizer, dtype)
    found = torch.ops.sinter.between_attentions(*rows(dtype=dtype), weights, 1e-5, False, "", scales, quantizer)
    wanted = torch.ops.sinter.between_attentions(*rows(dtype=dtype), plain(weights, values), 1e-5)
    assert all(torch.equal(one, other) for one, other in zip(found, wanted))
    fake = torch.ops.sinter.between_attentions(*(x.to("meta") for x in rows(dtype=dtype)), [w.to("meta") for w in weights], 1e-5, False, "", [
        s.to("meta") for s in scales], quantizer)  # fmt: skip
    assert [one.shape for one in fake] == [one.shape for one in found]


@pytest.mark.parametrize("quantizer", ["u4_g32", "u4_g64_zeros"])
def test_the_layers_chain_computes_the_operator(quantizer):
    (weights, scales, values), how = layer_of(quantizer), PACKED[quantizer]
    chain = between_chain(HIDDEN, INNER, COLUMNS, Q, (True, True), 1e-5, "silu", "bf16", quantizer=quantizer)
    constants = between_op.in_order(between_op._named(weights, quantizer), between_op.scales_by_name(scales, quantizer))
    assert tuple(one.data_ptr() for one in constants) == between_op._constants(weights, scales, False, quantizer)
    declared = json.loads(chain.to_json())["inputs"][2:]
    assert [list(one.shape) for one in constants] == [one["dims"] for one in declared]
    merged = [list(one.stride()) if one.stride(0) != one.shape[-1] else None for one in constants if one.dim() == 2]
    assert merged == [one.get("strides") for one in declared if len(one["dims"]) == 2] and sum(map(bool, merged)) == 4 + 2 * how.zeros
    found = run_chain.by_reference(chain, [*rows(), *constants], 5)
    other = between_chain(HIDDEN, INNER, COLUMNS, Q, (True, True), 1e-5, "silu", "bf16")
    of = plain(weights, values)
    gate, up = of[2].tensor_split(2)
    exact = run_chain.by_reference(other, [*rows(), *of[:2], gate, up, *of[3:]], 5)
    assert all(torch.equal(one, wanted) for one, wanted in zip(found, exact))


def test_formats_have_chains_of_their_own():
    made = {between_chain(HIDDEN, INNER, COLUMNS, Q, (True, True), 1e-5, "silu", "bf16", quantizer=name).digest for name in ("", *PACKED)}
    assert len(made) == 1 + len(PACKED)


def refuse(index=None, value=None, scale=None, quantizer="u4_g64_zeros", count=8):
    weights, scales, _ = layer_of("u4_g64_zeros")
    if index is not None:
        weights[index] = value(weights[index])
    if scale is not None:
        scales[scale[0]] = scale[1](scales[scale[0]])
    with pytest.raises(sinter.Error) as error:
        torch.ops.sinter.between_attentions(*rows(2), weights, 1e-5, False, "", scales[:count], quantizer)
    return str(error.value)


def test_tensors_that_do_not_fit_are_refused_by_name():
    assert "quantizer is 'u4'; there are row group group_ue8m0 static u4_g32" in refuse(quantizer="u4")
    assert "there are 4 scales with quantizer 'u4_g64_zeros': give those of o, gate_up, down and next, then their zeros" in refuse(count=4)
    assert "there are 8 scales with quantizer 'u4_g64'" in refuse(quantizer="u4_g64")
    assert "scales of o are torch.bfloat16 (4, 128) with strides (128, 1) on cpu, not torch.bfloat16 (2, 128)" in refuse(quantizer="u4_g128_zeros")
    assert "codes of down are torch.int32" in refuse(3, lambda w: w.int())
    assert "codes of gate are torch.int8 (8, 2048) with strides (1, 8)" in refuse(2, lambda w: w.t().contiguous().t())
    assert "zeros of next are torch.float32" in refuse(scale=(7, lambda z: z.float()))
    assert "scales of gate are torch.float16" in refuse(scale=(1, lambda s: s.half()))
    assert "next with groups of 64: n is 160, must be a multiple of 64" in refuse(5, lambda w: w[:, :1280].contiguous())
    assert "norm is torch.float32" in refuse(1, lambda w: w.float())
    assert "next_norm has strides (2,)" in refuse(4, lambda w: w.repeat_interleave(2)[::2])


def test_the_class_refuses_packed_matrices():
    weights, scales, _ = layer_of("u4_g64")
    with pytest.raises(sinter.Error, match="quantizer is 'u4_g64'; there are row group"):
        sinter.torch.BetweenAttentions(*weights, scales=scales, quantizer="u4_g64")


def test_numbers_of_rows_end_where_kernels_do():
    most = packed_matrix.MOST_ROWS
    assert servers.sizes_for([1, 2, 40, 64, 65, 512], most) == (1, 8, 48, 64)
    assert servers.sizes_for([128], most) == servers.sizes_for((), most) == (1, 8, 16, 32, 48, 64)


def test_plans_that_write_a_matrix_are_refused(monkeypatch, caplog):
    class Weight:
        """A matrix on a GPU."""

        is_cuda, device = True, torch.device("cuda", 0)

        def __init__(self, tensor):
            self.shape, self.dtype = tensor.shape, tensor.dtype

    class Plan:
        def __init__(self, workspace_size):
            self.workspace_size = workspace_size

    weights = [Weight(one) if one.dim() == 2 else one for one in layer_of("u4_g64")[0]]
    monkeypatch.setattr(servers.store, "settings", servers.store.settings._replace(sizes=(8, 64)))
    for size, fits in ((2 * COLUMNS * HIDDEN - 1, True), (2 * COLUMNS * HIDDEN, False)):
        monkeypatch.setattr(servers.store, "find", lambda device, key, rows: Plan(size if rows == 64 else 0))
        assert servers.planned(weights, 1e-5, False, quantizer="u4_g64") == fits
    assert "no plan for 64 rows of layers of four bits: its workspace has 49152 bytes" in caplog.text


@pytest.mark.parametrize("quantizer", ["u4_g128", "u4_g128_zeros"])
def test_plans_read_the_codes(quantizer):
    chains = [between_chain(4096, 14336, 6144, 4096, (True, True), 1e-5, "silu", "bf16", quantizer=name) for name in (quantizer, "")]
    context = sinter.Context(target="h200")
    for rows in (1, 8, packed_matrix.MOST_ROWS):
        found, bf16 = (context.search(chain, rows) for chain in chains)
        assert found.kernel_count <= 6 and found.workspace_size < 2 * 4096 * 4096
        assert rows > 8 or found.predicted_us < 0.6 * bf16.predicted_us
