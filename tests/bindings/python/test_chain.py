"""Chains: text, JSON, the builder and its operators."""

import json
import math
import pathlib
import re

import pytest

import sinter
from sinter import M

from conftest import S8

HEADER = pathlib.Path(__file__).parents[3] / "include/sinter/sinter_types.h"


def chain_of(build):
    b = sinter.Builder()
    return b.finish(*build(b))


def last_op(chain):
    return json.loads(chain.to_json())["ops"][-1]


def test_text_gives_line_m_and_buffers():
    chain = sinter.Chain.from_text("gated_ffn m=128 n=3072 k=1024 l=512 act=silu")
    assert chain.m == 128 and chain.uses_m and chain.line.startswith("gated_ffn m=128 n=3072 k=1024 l=512 act=silu")
    assert [info.shape for info in chain.buffers(7)] == [(7, 1024), (3072, 1024), (3072, 1024), (512, 3072), (7, 512)]
    assert [info.constant for info in chain.inputs(7)] == [False, True, True, True]
    assert chain.outputs(7)[0].strides == (512, 1) and chain.outputs(7)[0].bytes == 7 * 512 * 2
    assert chain.flops(7) == 2 * 7 * 3072 * 1024 * 2 + 2 * 7 * 512 * 3072
    assert not chain.strides_use_m() and sinter.Chain.of(S8).m is None


def test_json_is_the_same_chain():
    chain = sinter.Chain.of(S8)
    for document in (chain.to_json(), json.loads(chain.to_json())):
        assert sinter.Chain.from_json(document).digest == chain.digest
    assert sinter.Chain.of(chain.to_json()).digest == chain.digest and sinter.Chain.of(chain) is chain


def test_help_names_kinds_and_keys():
    assert "gated_ffn" in sinter.chain_help() and "act" in sinter.chain_help("gated_ffn")


def test_builder_makes_the_texts_chain():
    def build(b):
        x = b.input("bf16", (M, 1024))
        g, u = b.constant("bf16", (3072, 1024)), b.constant("bf16", (3072, 1024))
        d = b.constant("bf16", (1024, 3072))
        return [((sinter.silu(x @ g.T) * (x @ u.T)) @ d.T).cast("bf16")]

    def composite(b):
        x = b.input("bf16", ("M", 1024))
        g, u = b.constant("bf16", (3072, 1024)), b.constant("bf16", (3072, 1024))
        return [sinter.gated_ffn(x, g, u, b.constant("bf16", (1024, 3072)))]

    text = sinter.Chain.of(S8)
    assert chain_of(composite).digest == text.digest
    # The same ops, except for the order that composites choose.
    kinds = lambda chain: sorted(op["op"] for op in json.loads(chain.to_json())["ops"])
    assert kinds(chain_of(build)) == kinds(text)


STATIC = sinter.Quantizer("static")


def weights(b, n, k):
    return sinter.Scaled(b.constant("e4m3", (n, k)), b.constant("f32", (n, 1)))


OPERATIONS = {
    "add": lambda b, x, y: x + y,
    "radd": lambda b, x, y: 1 + x,
    "sub": lambda b, x, y: x - 2.5,
    "rsub": lambda b, x, y: 1.0 - x,
    "mul": lambda b, x, y: x * y,
    "rmul": lambda b, x, y: 3 * x,
    "div": lambda b, x, y: x / y,
    "rdiv": lambda b, x, y: 1 / x,
    "pow": lambda b, x, y: x**2,
    "neg": lambda b, x, y: -x,
    "abs": lambda b, x, y: abs(x),
    "less": lambda b, x, y: x < y,
    "less_equal": lambda b, x, y: x <= 0.5,
    "greater": lambda b, x, y: x > y,
    "greater_equal": lambda b, x, y: x >= y,
    "and": lambda b, x, y: (x < y) & (x > -1),
    "or": lambda b, x, y: (x < y) | (x > 1),
    "not": lambda b, x, y: ~(x < y),
    "equal": lambda b, x, y: sinter.equal(x, y),
    "not_equal": lambda b, x, y: sinter.not_equal(0.0, x),
    "where": lambda b, x, y: sinter.where(x < y, x, 0.0),
    "where_row": lambda b, x, y: sinter.where(x[:, 0:1] < 0.5, x, y),
    "maximum": lambda b, x, y: sinter.maximum(x, 0.0),
    "minimum": lambda b, x, y: sinter.minimum(1, x),
    "cast": lambda b, x, y: x.cast("f16"),
    "e4m3": lambda b, x, y: x.cast("e4m3"),
    "broadcast": lambda b, x, y: x[:, 0:1].broadcast_to((M, 8)),
    "broadcast_add": lambda b, x, y: x + y[:, 0:1],
    "reshape": lambda b, x, y: x.reshape(M, 2, 4),
    "reshape_tuple": lambda b, x, y: x.reshape((M, 4, 2)),
    "transpose": lambda b, x, y: x.reshape(M, 2, 4).transpose(0, 2, 1),
    "T": lambda b, x, y: x.reshape(M, 2, 4).T.cast("bf16"),
    "slice": lambda b, x, y: x[:, 1:8:3],
    "slice_ellipsis": lambda b, x, y: x[..., -3:],
    "concat": lambda b, x, y: sinter.concat([x, y[:, 0:2]]),
    "gather": lambda b, x, y: b.constant("bf16", (9, 8)).gather(b.input("s64", (M, 3))),
    "take": lambda b, x, y: x.take(b.input("s32", (M, 2))),
    "gather_function": lambda b, x, y: sinter.gather(x, b.input("s32", (M, 2)), -1),
    "scatter": lambda b, x, y: x.scatter(b.input("s64", (3,)), b.input(x.dtype, (3, 8))),
    "scatter_function": lambda b, x, y: sinter.scatter(b.input(x.dtype, (9, 8)), b.input("s32", (M,)), x),
    "top_k": lambda b, x, y: x.take(sinter.top_k(x, 3)),
    "argmax": lambda b, x, y: sinter.argmax(x),
    "argmin": lambda b, x, y: sinter.argmin(x),
    "cumsum": lambda b, x, y: sinter.cumsum(x),
    "random": lambda b, x, y: x * b.random(b.input("s64", ()), b.input("s32", ()), (M, 8)),
    "sum": lambda b, x, y: x.sum(1),
    "sum_keep": lambda b, x, y: x.sum(-1, keepdims=True),
    "mean": lambda b, x, y: x.mean(1),
    "max": lambda b, x, y: x.max((1,)),
    "min": lambda b, x, y: x.reshape(M, 2, 4).min((1, 2)),
    "matmul": lambda b, x, y: x @ b.constant("bf16", (8, 16)),
    "matmul_T": lambda b, x, y: x @ b.constant("bf16", (16, 8)).T,
    "T_matmul": lambda b, x, y: b.input("bf16", (4, 8, 16)).T @ b.input("bf16", (4, 8, 32)),
    "conv2d": lambda b, x, y: sinter.conv2d(x.reshape(M, 2, 2, 2), b.constant("bf16", (4, 2, 1, 2)), padding=(1, 0)),
    "conv2d_hwio": lambda b, x, y: sinter.conv2d(
        b.input("bf16", (M, 9, 8, 2)), b.constant("bf16", (3, 2, 2, 5)), stride=(2, 3), dilation=2, filter="HWIO"
    ),
    "conv2d_1x1": lambda b, x, y: sinter.conv2d(x.reshape(M, 2, 2, 2), b.constant("bf16", (4, 1, 1, 2))),
    "conv2d_each": lambda b, x, y: sinter.conv2d(
        b.input("bf16", (M, 9, 8, 4)), b.constant("bf16", (4, 3, 3, 1)), padding=1, groups=4
    ),
    "window": lambda b, x, y: sinter.window(b.input("f32", (M, 5, 4, 2)), b.scalar(0.0), (3, 2), stride=2),
    "max_pool2d": lambda b, x, y: sinter.max_pool2d(b.input("bf16", (M, 5, 4, 2)), 3, padding=1, dilation=2),
    "avg_pool2d": lambda b, x, y: sinter.avg_pool2d(
        b.input("bf16", (M, 5, 4, 2)), 2, stride=2, padding=1, count_include_pad=False
    ),
    "T_twice": lambda b, x, y: x @ b.constant("bf16", (8, 16)).T.T,
    "batch": lambda b, x, y: x.reshape(M, 2, 4) @ b.input("bf16", (M, 4, 8)),
    "softmax": lambda b, x, y: sinter.softmax(x, scale=0.5, mask=y),
    "attention": lambda b, x, y: sinter.attention(x, x, y, bias=b.scalar(1.0), mask=b.input("bool", (1, M)), causal=True),
    "attention_scale": lambda b, x, y: sinter.attention(x, b.constant("bf16", (9, 8)), b.constant("bf16", (9, 16)), scale=2),
    "layernorm": lambda b, x, y: sinter.layernorm(x, b.constant("bf16", (8,)), b.constant("bf16", (8,))),
    "rmsnorm": lambda b, x, y: sinter.rmsnorm(x, b.constant("bf16", (8,)), eps=1e-5),
    "swiglu": lambda b, x, y: sinter.swiglu(x, y),
    "softplus": lambda b, x, y: sinter.softplus(x),
    "dequantize_u4": lambda b, x, y: sinter.dequantize_u4(b.constant("s8", (8, 4)), b.constant("bf16", (8, 2)), b.scalar(8.0)),
    "dequantize_e2m1": lambda b, x, y: sinter.dequantize_e2m1(b.constant("s8", (8, 4)), b.constant("bf16", (8, 2))),
    "dequantize_u4_packed": lambda b, x, y: sinter.dequantize_u4_packed(b.constant("s8", (4, 512)), b.constant("bf16", (2, 64)), b.scalar(8.0)),
    "dequantize_e2m1_packed": lambda b, x, y: sinter.dequantize_e2m1_packed(b.constant("s8", (4, 512)), b.constant("bf16", (2, 64))),
    "pack_codes": lambda b, x, y: sinter.pack_codes(b.constant("s8", (64, 32)), "rows"),
    "pack_scales": lambda b, x, y: sinter.pack_scales(b.constant("bf16", (2, 64)), "awq"),
    "pack_zeros": lambda b, x, y: sinter.pack_zeros(b.constant("s8", (2, 32)), "gptq_v2"),
    "dequantize_e8m0": lambda b, x, y: sinter.dequantize_e8m0(b.constant("s8", (8, 2))),
    "clamp": lambda b, x, y: sinter.clamp(x, -1, max=6.0),
    "clamp_min": lambda b, x, y: sinter.clamp(x, min=0),
    "silu": lambda b, x, y: sinter.silu(x),
    "gelu": lambda b, x, y: sinter.gelu(x),
    "gelu_erf": lambda b, x, y: sinter.gelu(x, "erf"),
    "rope": lambda b, x, y: sinter.rope(x, b.input("f32", (M, 4)), b.input("f32", (M, 4))),
    "gru": lambda b, x, y: sinter.gru_cell(b.input("bf16", (M, 24)), b.input("bf16", (M, 24)), x),
    "linear": lambda b, x, y: sinter.linear(x, b.constant("bf16", (16, 8)), b.constant("bf16", (16,)), activation="relu"),
    "linear_io": lambda b, x, y: sinter.linear(x, b.constant("bf16", (8, 16)), layout="io"),
    "gemm_chain": lambda b, x, y: sinter.gemm_chain(x, b.constant("bf16", (16, 8)), b.constant("bf16", (24, 16))),
    "scaled_matmul": lambda b, x, y: sinter.scaled_matmul(sinter.quantize(x), weights(b, 16, 8), activation="relu"),
    "scaled_matmul_fast": lambda b, x, y: sinter.scaled_matmul(
        sinter.quantize(x), weights(b, 16, 8), accumulate="fast"
    ),
    "scaled_gemm_chain": lambda b, x, y: sinter.scaled_gemm_chain(
        sinter.quantize(x), weights(b, 16, 8), weights(b, 24, 16), quantizer=STATIC._replace(scale=b.scalar(2.0))
    ),
    "scaled_gated_ffn": lambda b, x, y: sinter.scaled_gated_ffn(
        sinter.quantize(x), weights(b, 16, 8), weights(b, 16, 8), weights(b, 24, 16)
    ),
    "s8_matmul": lambda b, x, y: x.cast("s8") @ b.constant("s8", (16, 8)).T,
    "scaled_grouped_matmul": lambda b, x, y: sinter.scaled_grouped_matmul(
        sinter.quantize(x), sinter.quantize(b.constant("bf16", (3, 4, 8))), b.input("s32", (M, 2))
    ),
    "scaled_grouped_gated_ffn": lambda b, x, y: sinter.scaled_grouped_gated_ffn(
        sinter.quantize(x),
        b.input("s32", (M, 2)),
        b.input("f32", (M, 2)),
        *(sinter.quantize(b.constant("bf16", dims)) for dims in ((3, 16, 8), (3, 4, 8))),
    ),
    "all_reduce": lambda b, x, y: sinter.all_reduce(x, 2),
    "all_gather": lambda b, x, y: sinter.all_gather(x, 1, 2),
    "reduce_scatter": lambda b, x, y: sinter.reduce_scatter(x, 1, 2),
    "grouped_matmul": lambda b, x, y: sinter.grouped_matmul(x, b.constant("bf16", (3, 4, 8)), b.input("s32", (M, 2))),
    "grouped_matmul_io": lambda b, x, y: sinter.grouped_matmul(
        b.input("bf16", (M, 2, 8)), b.constant("bf16", (3, 8, 4)), b.input("s32", (M, 2)), layout="io"
    ),
    "grouped_matmul_ends": lambda b, x, y: sinter.grouped_matmul_ends(x, b.constant("bf16", (3, 4, 8)), b.input("s32", (3,))),
    "grouped_gated_ffn_gpt_oss": lambda b, x, y: sinter.grouped_gated_ffn(
        x,
        b.input("s32", (M, 2)),
        b.input("f32", (M, 2)),
        b.constant("bf16", (3, 32, 8)),
        b.constant("bf16", (3, 8, 16)),
        interleaved=True,
        weight_on_input=True,
        bias1=b.constant("bf16", (3, 32)),
        bias2=b.constant("bf16", (3, 8)),
        alpha=1.702,
        beta=1,
        limit=7,
    ),
    "grouped_gated_ffn": lambda b, x, y: sinter.grouped_gated_ffn(
        x,
        b.input("s32", (M, 2)),
        b.input("f32", (M, 2)),
        b.constant("bf16", (3, 32, 8)),
        b.constant("bf16", (3, 8, 16)),
        up_first=True,
    ),
    "iota": lambda b, x, y: x + b.iota("f32", (M, 8), -1),
    "scalar": lambda b, x, y: x + b.scalar(math.inf, "bf16"),
    "fmod": lambda b, x, y: sinter.fmod(x, y),
    "copysign": lambda b, x, y: sinter.copysign(1.0, y),
    "atan2": lambda b, x, y: sinter.atan2(x.cast("f32"), y),
    "hypot": lambda b, x, y: sinter.hypot(x, 2.0),
    "integers": lambda b, x, y: x.cast("s32") * 3,
}
# The unary functions of the C header, except those for which Python has operators.
for name in re.findall(r"SINTER_UNARY_(\w+) =", HEADER.read_text()):
    if name in ("NEG", "ABS", "NOT"):
        continue
    name = name.lower()
    OPERATIONS[name] = lambda b, x, y, function=getattr(sinter, name): function(x)


@pytest.mark.parametrize("name", OPERATIONS)
def test_values_know_the_librarys_shapes_and_dtypes(name):
    b = sinter.Builder()
    x, y = b.input("bf16", (M, 8)), b.input("bf16", (M, 8))
    value = OPERATIONS[name](b, x, y)
    chain = b.finish(value, x + y)
    info = chain.outputs(5)[0]
    assert tuple(5 if extent == M else extent for extent in value.shape) == info.shape
    assert value.dtype is info.dtype and info.dtype.itemsize in (1, 2, 4)


@pytest.mark.parametrize("granularity, scale", [("tensor", ()), ("row", (3, 1)), ("group", (3, 2)), ("static", None)])
def test_quantize_gives_codes_and_scales(granularity, scale):
    b = sinter.Builder()
    quantizer = sinter.Quantizer(granularity, scale=b.scalar(0.5) if granularity == "static" else None)
    codes, scales = sinter.quantize(b.input("bf16", (M, 256)), quantizer)
    chain = b.finish(codes, *([] if scale is None else [scales]))
    infos = chain.outputs(3)
    assert (infos[0].dtype, infos[0].shape) == (sinter.DType.E4M3, (3, 256))
    if scale is not None:
        assert infos[1].shape == scale == tuple(3 if extent == M else extent for extent in scales.shape)


def test_quantizers_are_checked():
    b = sinter.Builder()
    x = b.input("bf16", (M, 256))
    with pytest.raises(sinter.Error, match="granularity is 'block'"):
        sinter.quantize(x, sinter.Quantizer("block"))
    with pytest.raises(sinter.Error, match="ue8m0 is true, must be false for s8"):
        sinter.quantize(x, sinter.Quantizer(codes="s8", ue8m0=True))


def test_fast_sums_are_those_of_the_text_and_checked():
    def add(accumulate, scales=1):
        b = sinter.Builder()
        a = sinter.Scaled(b.input("e4m3", (M, 256)), b.input("f32", (M, scales)))
        w = sinter.Scaled(b.constant("e4m3", (16, 256)), b.constant("f32", (16, 1)))
        return b.finish(sinter.scaled_matmul(a, w, accumulate=accumulate).cast("bf16"))

    for accumulate in ("promoted", "fast"):
        text = sinter.Chain.from_text(f"scaled_matmul m=M n=16 k=256 accumulate={accumulate}")
        assert add(accumulate).digest == text.digest
    with pytest.raises(sinter.Error, match="accumulate is 'slow'; there are promoted fast"):
        add("slow")
    with pytest.raises(sinter.Error, match="accumulate is fast, must be promoted where scale_a"):
        add("fast", 2)


def test_lstm_cell_gives_two_values():
    chain = chain_of(lambda b: sinter.lstm_cell(b.input("bf16", (M, 32)), b.input("bf16", (M, 8))))
    assert [info.shape for info in chain.outputs(3)] == [(3, 8), (3, 8)]


def next_token(**given):
    b = sinter.Builder()
    x, seed, offset = b.input("bf16", (M, 256)), b.input("s64", ()), b.input("s64", ())
    values = {name: b.input("s32" if name == "k" else "f32", (M,)) if value is None else value
              for name, value in given.items()}
    return b, sinter.next_token(x, seed, offset, **values)


def test_next_token_is_the_texts():
    numbers = {name: None for name in ("temperature", "k", "top_p", "min_p")}
    b, (token, logprob) = next_token(count=20, log_probability=True, **numbers)
    assert (token.shape, token.dtype, logprob.dtype) == ((M,), sinter.DType.S32, sinter.DType.F32)
    text = "next_token rows=M cols=256 count=20 logprob=1" + "".join(f" {name}=1" for name in numbers)
    assert b.finish(token, logprob).digest == sinter.Chain.from_text(text).digest
    b, (token, none) = next_token()
    assert none is None and b.finish(token).digest == sinter.Chain.from_text("next_token rows=M cols=256").digest


def test_next_token_refuses_what_needs_a_count():
    with pytest.raises(sinter.Error, match=r"\(next_token\): count is 0, must be in \[1, 64\] if top_p is given"):
        next_token(top_p=None)
    with pytest.raises(sinter.Error, match="count is 65"):
        next_token(count=65)


def test_numbers_do_not_round():
    b = sinter.Builder()
    assert (b.input("bf16", (M, 8)) * 0.1).dtype is sinter.DType.F32


def test_strides_alias_and_names():
    b = sinter.Builder()
    x = b.input("bf16", (M, 8), name="activations", strides=(16, 1))
    b.output((x + 1).cast("bf16"), strides=(16, 1), alias=x)
    chain = b.finish()
    assert chain.inputs(4)[0].name == "activations" and chain.inputs(4)[0].strides == (16, 1)
    assert chain.aliases() == {0: 0} and chain.outputs(4)[0].strides == (16, 1)
    b = sinter.Builder()
    columns = b.input("bf16", (8, M), strides=("M", 1))
    chain = b.finish((columns + 1).cast("bf16"))
    assert chain.strides_use_m() and chain.inputs(6)[0].strides == (6, 1)
    assert sinter.Chain.of(chain.to_json()).inputs(6)[0].strides == (6, 1)


TYPES = {  # bytes and names
    "F32": (4, "f32 float32"),
    "F16": (2, "f16 float16 half"),
    "BF16": (2, "bf16 bfloat16"),
    "S32": (4, "s32 int32"),
    "PRED": (1, "pred bool bool_"),
    "E4M3": (1, "e4m3 float8_e4m3fn"),
    "S8": (1, "s8 int8"),
    "S64": (8, "s64 int64"),
}


def test_each_type_has_its_size_and_names():
    assert set(TYPES) == {dtype.name for dtype in sinter.DType}
    for name, (size, names) in TYPES.items():
        assert sinter.DType[name].itemsize == size
        assert {sinter.DType.of(word) for word in (*names.split(), *(f"torch.{word}" for word in names.split()))} == {sinter.DType[name]}


def test_dtypes_have_many_names():
    class Named:
        name = "float16"

    for value, dtype in (("bfloat16", "BF16"), (Named(), "F16"), ("torch.float32", "F32"), (sinter.DType.S32, "S32")):
        assert sinter.DType.of(value).name == dtype


def bad_operand(name):
    """Calls a composite of x [M, 8], w [4, 8] and v [8] with an operand that does not fit."""
    b = sinter.Builder()
    x, w = b.input("bf16", (M, 8)), b.constant("bf16", (4, 8))
    four, eight, number = b.constant("bf16", (4,)), b.constant("bf16", (8,)), b.constant("s32", (8,))
    down, mask = b.constant("bf16", (8, 4)), b.input("pred", (M, 8))
    calls = {
        "linear.bias": lambda: sinter.linear(x, w, eight),
        "linear.w": lambda: sinter.linear(x, eight),
        "gemm_chain.bias1": lambda: sinter.gemm_chain(x, w, down, bias1=eight),
        "gemm_chain.bias2": lambda: sinter.gemm_chain(x, w, down, bias2=four),
        "gated_ffn.bias_gate": lambda: sinter.gated_ffn(x, w, w, down, bias_gate=eight),
        "gated_ffn.bias_up": lambda: sinter.gated_ffn(x, w, w, down, bias_up=number),
        "layernorm.gamma": lambda: sinter.layernorm(x, gamma=four),
        "layernorm.beta": lambda: sinter.layernorm(x, gamma=eight, beta=number),
        "rmsnorm.gamma": lambda: sinter.rmsnorm(x, gamma=number),
        "softmax.mask": lambda: sinter.softmax(x, mask=mask),
        "rope.sin": lambda: sinter.rope(x, four, eight),
        "lstm_cell.c": lambda: sinter.lstm_cell(x, x),
        "swiglu.up": lambda: sinter.swiglu(x, w),
    }
    return calls[name] if name else list(calls)


@pytest.mark.parametrize("name", bad_operand(""))
def test_an_operand_of_a_composite_that_does_not_fit_is_named(name):
    kind, _, field = name.partition(".")
    with pytest.raises(sinter.Error, match=rf"op \d+ \({kind}\): {field} is \w+\[[M\d,]+\], must ") as refused:
        bad_operand(name)()
    assert refused.value.code == sinter.Status.INVALID_ARGUMENT


def test_numpys_dtypes_and_numbers_are_taken():
    numpy = pytest.importorskip("numpy")
    names = {"float32": "F32", "float16": "F16", "int32": "S32", "int8": "S8", "bool_": "PRED"}
    for name, dtype in names.items():
        for value in (getattr(numpy, name), numpy.dtype(getattr(numpy, name)), numpy.zeros(1, name.strip("_")).dtype):
            assert sinter.DType.of(value).name == dtype
    for name, dtype in (("bfloat16", "BF16"), ("float8_e4m3fn", "E4M3")):  # ml_dtypes' scalars
        assert sinter.DType.of(type(name, (), {})).name == dtype
    assert sinter.DType.of(bool).name == "PRED"
    for bad, message in ((numpy.float64, "float64"), (float, "float"), (numpy.dtype(">f4"), "other order")):
        with pytest.raises(sinter.Error, match=f"dtype is .*{message}"):
            sinter.DType.of(bad)
    b = sinter.Builder()
    x = b.input(numpy.float16, (numpy.int64(4), 8))
    assert sinter.softmax(x, scale=numpy.float32(0.5)).shape == (4, 8)
    for made in (x * numpy.float32(2), numpy.float32(2) * x, x + numpy.int64(1), numpy.int8(3) - x):
        assert made.shape == (4, 8) and made.dtype is sinter.DType.F32
    assert (x.cast("s32") * numpy.int64(2)).dtype is sinter.DType.S32 and (x > numpy.float16(0)).shape == (4, 8)
    with pytest.raises(TypeError, match="an operand is a bool"):
        x * numpy.bool_(True)


def test_a_finished_builder_is_closed_and_the_chain_lives():
    b = sinter.Builder()
    x = b.input("bf16", (M, 8))
    chain = b.finish(-x)
    with pytest.raises(sinter.Error, match="the Builder is closed"):
        x + 1
    del b, x
    assert "neg" in str(chain)


def test_comparing_values_as_objects_is_refused_and_names_the_operator():
    b = sinter.Builder()
    x, y = b.input("bf16", (M, 8)), b.input("bf16", (M, 8))
    for compared in (lambda: x == y, lambda: 1.0 == x, lambda: x in (y,)):
        with pytest.raises(TypeError, match="sinter.equal"):
            compared()
    with pytest.raises(TypeError, match="sinter.not_equal"):
        x != y
    assert x in (x, y) and {x: 1, y: 2}[y] == 2 and x is not y


def test_results_of_norms_are_f32():
    b = sinter.Builder()
    x = b.input("bf16", (M, 8))
    for made in (sinter.softmax(x), sinter.layernorm(x), sinter.rmsnorm(x)):
        assert made.dtype is sinter.DType.F32
    for function in (sinter.softmax, sinter.layernorm, sinter.rmsnorm, sinter.attention):
        assert "f32" in function.__doc__


def test_a_finish_that_fails_takes_no_outputs_along():
    """It closes the builder where it declared some, so that no chain has them twice."""
    b = sinter.Builder()
    x = b.input("bf16", (M, 8))
    dead = x * 2
    with pytest.raises(sinter.Error, match="INVALID_ARGUMENT"):
        b.finish(-x)
    with pytest.raises(sinter.Error, match="the Builder is closed"):
        b.finish(-x, dead)
    b = sinter.Builder()
    x = b.input("bf16", (M, 8))
    y = -x
    with pytest.raises(sinter.Error, match="at most 1024 outputs"):
        b.finish(*[y] * 1025)
    with pytest.raises(sinter.Error, match="the Builder is closed"):
        b.finish(y)


def test_a_finish_that_declares_nothing_leaves_the_builder():
    b = sinter.Builder()
    with pytest.raises(sinter.Error) as caught:
        b.finish()
    assert caught.value.code == sinter.Status.FAILED_PRECONDITION
    x = b.input("bf16", (M, 8))
    with pytest.raises(TypeError):
        b.finish(-x, None)
    b.output(x + 1)
    with pytest.raises(sinter.Error, match="INVALID_ARGUMENT"):
        b.finish()  # the negation is not needed
    b.output(-x)
    with pytest.raises(sinter.Error, match="INVALID_ARGUMENT"):
        b.finish()  # the first negation is not needed still
    assert (x * 2).rank == 2


def circular():
    made = {}
    made["ops"] = made
    return made


def deep():
    made = []
    for _ in range(100000):
        made = [made]
    return {"ops": made}


BAD = {
    "unknown kind": lambda: sinter.Chain.from_text("nothing m=1"),
    "text value": lambda: sinter.Chain.from_text("silu rows=M cols=0"),
    "empty": lambda: sinter.Chain.from_text(""),
    "no json": lambda: sinter.Chain.from_json("{"),
    "circular json": lambda: sinter.Chain.from_json(circular()),
    "too deep a dict": lambda: sinter.Chain.from_json(deep()),
    "surrogate": lambda: sinter.Chain.from_text("\ud800"),
    "wrong json": lambda: sinter.Chain.from_json({"schema": 99}),
    "deep json": lambda: sinter.Chain.from_json("[" * 100000),
    "nul": lambda: sinter.Chain.from_text("silu\0"),
    "m": lambda: sinter.Chain.of(S8).buffers(-1),
    "huge m": lambda: sinter.Chain.of(S8).buffers(2**40),
    "flops": lambda: sinter.Chain.of(S8).flops(-1),
    "help": lambda: sinter.chain_help("nothing"),
    "no output": lambda: sinter.Builder().finish(),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_texts_are_errors(name):
    with pytest.raises(sinter.Error) as caught:
        BAD[name]()
    assert caught.value.message and isinstance(caught.value.code, sinter.Status)


def value(b):
    return b.input("bf16", (M, 8))


BAD_BUILDS = {
    "dtype": lambda b: b.input("bf17", (M, 8)),
    "rank": lambda b: b.input("bf16", (1,) * 7),
    "extent": lambda b: b.input("bf16", (0, 8)),
    "minus one": lambda b: b.input("bf16", (-1, 8)),
    "huge": lambda b: b.input("bf16", (2**62, 8)),
    "too huge": lambda b: b.input("bf16", (2**70, 8)),
    "strides": lambda b: b.input("bf16", (M, 8), strides=(1,)),
    "stride text": lambda b: b.input("bf16", (M, 8), strides=("N", 1)),
    "name": lambda b: b.input("bf16", (M, 8), name="x" * 200),
    "nan": lambda b: b.scalar(math.nan),
    "shapes": lambda b: value(b) + b.input("bf16", (M, 9)),
    "inner": lambda b: value(b) @ b.input("bf16", (9, 4)),
    "rank of matmul": lambda b: value(b) @ b.scalar(1.0),
    "T of a row": lambda b: b.input("bf16", (8,)).T,
    "reshape": lambda b: value(b).reshape(M, 9),
    "transpose": lambda b: value(b).transpose(0),
    "permutation": lambda b: value(b).transpose(0, 0),
    "axis": lambda b: value(b).sum(2),
    "axes twice": lambda b: value(b).sum((1, 1)),
    "slice M": lambda b: value(b)[0:4],
    "slice step": lambda b: value(b)[:, ::-1],
    "empty slice": lambda b: value(b)[:, 4:4],
    "many indices": lambda b: value(b)[:, :, :],
    "two ellipses": lambda b: value(b)[..., ...],
    "other builder": lambda b: value(b) + value(sinter.Builder()),
    "other builder's product": lambda b: value(b) @ sinter.Builder().input("bf16", (8, 8)),
    "concat M": lambda b: sinter.concat([value(b), value(b)], 0),
    "float ids": lambda b: value(b).gather(value(b)),
    "gathered axis": lambda b: b.input("bf16", (2, 3, 4)).gather(b.input("s32", (2,)), 1),
    "rows of other ids": lambda b: b.input("bf16", (9, 4)).scatter(b.input("s32", (M,)), b.input("bf16", (3, 4))),
    "too many": lambda b: sinter.top_k(value(b), 9),
    "float seed": lambda b: b.random(b.scalar(1.0), b.scalar(1.0), (4,)),
    "sum of ids": lambda b: b.input("s64", (M,)) + b.input("s64", (M,)),
    "concat ranks": lambda b: sinter.concat([value(b), b.input("bf16", (8,))]),
    "many": lambda b: sinter.concat([value(b)] * 65),
    "activation": lambda b: sinter.gelu(value(b), "other"),
    "layout": lambda b: sinter.linear(value(b), value(b), layout="no"),
    "eps": lambda b: sinter.rmsnorm(value(b), eps=-1.0),
    "softmax axis": lambda b: sinter.softmax(value(b), 7),
    "gate shapes": lambda b: sinter.swiglu(value(b), b.input("bf16", (M, 4))),
    "down shape": lambda b: sinter.gated_ffn(value(b), *[b.constant("bf16", (16, 8))] * 2, b.constant("bf16", (8, 9))),
    "pred": lambda b: sinter.where(value(b), 1.0, 2.0),
    "not of float": lambda b: ~value(b),
    "alias": lambda b: b.output(-value(b), alias=b.input("f32", (M, 8))),
    "dead": lambda b: (b.output(value(b).sum(1)), value(b) + 1, b.finish()),
    "eps 0": lambda b: sinter.rmsnorm(value(b), eps=0),
    "eps huge": lambda b: sinter.rmsnorm(value(b), eps=10**400),
    "scale 0": lambda b: sinter.softmax(value(b), scale=-0.0),
    "output strides": lambda b: b.output(-value(b), strides=(0, 1)),
}
BAD_TYPES = {
    "shape": lambda b: b.input("bf16", 8),
    "shape text": lambda b: b.input("bf16", "M8"),
    "extent": lambda b: b.input("bf16", (M, 8.0)),
    "operand": lambda b: value(b) + "1",
    "bool": lambda b: value(b) + True,
    "matmul": lambda b: value(b) @ 2,
    "function": lambda b: sinter.silu(3.0),
    "index": lambda b: value(b)[0],
    "slice bound": lambda b: value(b)[:, 0:"a"],
    "truth": lambda b: bool(value(b)),
    "output": lambda b: b.output(1),
    "finish": lambda b: b.finish(None),
    "scalar": lambda b: b.scalar("one"),
    "numbers": lambda b: sinter.maximum(1, 2),
    "eps": lambda b: sinter.rmsnorm(value(b), eps="small"),
    "concat": lambda b: sinter.concat([]),
    "axis": lambda b: value(b).sum("rows"),
    "gru": lambda b: sinter.gru_cell(value(b), value(b), None),
    "filter": lambda b: sinter.conv2d(image(b), None),
    "pool": lambda b: sinter.max_pool2d(None, 2),
    "quantizer": lambda b: sinter.quantize(value(b), None),
    "scaled": lambda b: sinter.scaled_matmul(None, weights(b, 16, 8)),
    "scaled weights": lambda b: sinter.scaled_matmul(sinter.quantize(value(b)), value(b)),
    "concat dict": lambda b: sinter.concat({1: value(b)}),
    "json": lambda b: sinter.Chain.from_json({1: object()}),
}


def image(b):
    return b.input("bf16", (M, 9, 8, 2))


def conv(b, **options):
    return sinter.conv2d(image(b), b.constant("bf16", (4, 3, 3, 2)), **options)


WINDOWS = {
    "stride is 0, not 1 to 1024": dict(stride=0),
    f"stride is {2**32 + 1}, not 1 to 1024": dict(stride=2**32 + 1),
    "stride is 1025": dict(stride=(1, 1025)),
    "dilation is 0, not 1 to 1024": dict(dilation=(0, 1)),
    f"dilation is {2**32}": dict(dilation=2**32),
    "padding is -1, not 0 to 1024": dict(padding=-1),
    f"padding is {2**32}, not 0 to 1024": dict(padding=(0, 2**32)),
    "padding has 3 numbers, must have 4": dict(padding=(1, 2, 3)),
}
NO_WINDOWS = {
    "padding is 1.5, which is no integer": dict(padding=1.5),
    "stride is 1.5, which is no integer": dict(stride=(1, 1.5)),
    "dilation is None, which is no integer": dict(dilation=None),
    "padding is True, which is no integer": dict(padding=True),
    "stride is 's', which is no integer": dict(stride="s"),
}


@pytest.mark.parametrize("message", WINDOWS)
def test_windows_are_within_bounds(message):
    with pytest.raises(sinter.Error, match=message):
        conv(sinter.Builder(), **WINDOWS[message])


@pytest.mark.parametrize("message", NO_WINDOWS)
def test_windows_are_integers(message):
    with pytest.raises(TypeError, match=message):
        conv(sinter.Builder(), **NO_WINDOWS[message])


def test_windows_are_the_texts():
    b = sinter.Builder()
    sides = json.loads(b.finish(conv(b, stride=(1, 2), dilation=2, padding=(1, 1024, 0, 3)).cast("bf16")).to_json())["ops"][0]
    assert (sides["strides"], sides["dilations"], sides["pads"]) == ([1, 2], [2, 2], [1, 1024, 0, 3])


@pytest.mark.parametrize("zero", [0, 0.0, -0.0])
def test_a_zero_is_no_default(zero):
    b = sinter.Builder()
    for norm in (sinter.rmsnorm, sinter.layernorm):
        with pytest.raises(sinter.Error, match="INVALID_ARGUMENT: eps is 0, must be more than 0 in f32 and at most 1"):
            norm(value(b), eps=zero)
    with pytest.raises(sinter.Error, match="INVALID_ARGUMENT: scale is 0, must not be 0 in f32"):
        sinter.softmax(value(b), scale=zero)
    sinter.quantize(value(b), sinter.Quantizer(eps=zero, upper_bound=zero))  # where 0 says so


BUILD_FLAGS = {
    "constant": lambda b, word: b.input("bf16", (M, 8), constant=word),
    "keepdims": lambda b, word: value(b).sum(1, keepdims=word),
    "causal": lambda b, word: sinter.attention(value(b), b.constant("bf16", (9, 8)), b.constant("bf16", (9, 16)), causal=word),
    "ue8m0": lambda b, word: sinter.quantize(value(b), sinter.Quantizer(ue8m0=word)),
}


@pytest.mark.parametrize("word", ["0", "no", "", 0, 1, None, []])
@pytest.mark.parametrize("name", BUILD_FLAGS)
def test_flags_are_true_or_false(name, word):
    with pytest.raises(TypeError, match=re.escape(f"{name} is {word!r}, neither True nor False")):
        BUILD_FLAGS[name](sinter.Builder(), word)


def test_numpys_flags_are_flags():
    numpy = pytest.importorskip("numpy")
    assert value(sinter.Builder()).sum(1, keepdims=numpy.True_).rank == 2
    assert value(sinter.Builder()).sum(1, keepdims=numpy.False_).rank == 1
    for other in (numpy.int8(1), numpy.zeros(2), numpy.array(True)):
        with pytest.raises(TypeError, match="keepdims is"):
            value(sinter.Builder()).sum(1, keepdims=other)


@pytest.mark.parametrize("name", BAD_BUILDS)
def test_bad_operations_are_errors_and_leave_the_chain(name):
    b = sinter.Builder()
    with pytest.raises((sinter.Error, TypeError)):
        BAD_BUILDS[name](b)
    # The chain still takes operations, and ends with the values that are alive.
    assert (value(b) + 1).rank == 2


@pytest.mark.parametrize("name", BAD_TYPES)
def test_wrong_python_types_are_type_errors(name):
    with pytest.raises((TypeError, sinter.Error)):
        BAD_TYPES[name](sinter.Builder())


def test_errors_carry_the_librarys_message():
    b = sinter.Builder()
    with pytest.raises(sinter.Error) as caught:
        b.input("bf16", (M, 8)) @ b.input("bf16", (9, 4))
    error = caught.value
    assert error.code == sinter.Status.INVALID_ARGUMENT and "matmul" in error.message and "9" in error.message
    assert str(error).startswith("INVALID_ARGUMENT: ") and error.driver_result == 0 and error.compile_log == ""


def of_an_add(make):
    b = sinter.Builder()
    x = b.input("f32", (sinter.M, 64))
    make(b, x)


REFUSALS = [
    (lambda b, x: sinter.softmax(x, axis=9), 1, "axis", "9", "in [-2, 1]"),
    (lambda b, x: x.sum(axis=5), None, "axis", "5", None),  # the package's own
    (lambda b, x: b.input("f32", (sinter.M, 0)), 1, "dimension 1", "0", "in [1, 2^31 - 1] or M"),
    (lambda b, x: sinter.rmsnorm(x, eps=2.0), 1, "eps", "2", "more than 0 in f32 and at most 1"),
    (lambda b, x: sinter.Chain.of("gated_ffn m=M n=0 k=64 l=64 act=silu"), None, "n", "0", "an integer in [1, 2^31 - 1]"),
    (lambda b, x: sinter.Chain.of('{"schema": 7}'), None, "schema", "7", "1"),
]


@pytest.mark.parametrize("make, op, field, value, bound", REFUSALS)
def test_an_error_has_what_its_message_names(make, op, field, value, bound):
    with pytest.raises(sinter.Error) as caught:
        of_an_add(make)
    error = caught.value
    assert (error.op, error.field, error.value, error.bound) == (op, field, value, bound), error


def test_an_error_that_names_nothing_has_none():
    with pytest.raises(sinter.Error) as caught:
        sinter.Chain.from_text("")
    error = caught.value
    assert (error.op, error.field, error.value, error.bound) == (None, None, None, None), error


def test_an_error_of_planning_has_its_op(context):
    b = sinter.Builder()
    x, w = b.input("f32", (sinter.M, 64)), b.constant("f32", (64, 64))
    chain = b.finish(x @ w)
    for ask in (context.search, context.prepare):
        with pytest.raises(sinter.Error) as caught:
            ask(chain, m=8)
        assert caught.value.code == sinter.Status.NO_LEGAL_PLAN and caught.value.op == 2
