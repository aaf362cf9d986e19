"""Composites that pack weights of four bits, against checkpoints made here and Marlin's order. Needs no GPU."""

import pytest

torch = pytest.importorskip("torch")

import sinter
import sinter.torch
from sinter._library import call
from sinter.torch.runtime import run_chain
from sinter.torch.serve import packed_matrix
from sinter.torch.serve.pack_four_bits import _chain
from sinter.torch.serve.packed_matrix import Packed

from test_torch_packed import marlin_codes, marlin_scales, words

#: Columns of eight neighbours in the order in which AWQ puts them into a word.
AWQ = [0, 2, 4, 6, 1, 3, 5, 7]


def bytes_of(words_of_32_bits):
    return words_of_32_bits.contiguous().view(torch.int8)


def rows_of(codes):
    """Codes [k, n] as bytes [n, k / 2], low bits first."""
    return bytes_of((codes.t()[:, ::2] + 16 * codes.t()[:, 1::2]).to(torch.uint8))


def in_words(codes, order=None):
    """Codes [.., 8 n] as words [.., n] whose low bits come first, eight at a time in `order`."""
    places = codes.reshape(*codes.shape[:-1], -1, 8)
    return words((places if order is None else places[..., order]).flatten(-2))


def checkpoint_of(name, codes, scale, zero):
    """The tensors that a checkpoint has of codes [k, n], scales and zeros [groups, n], and its zeros as bytes."""
    if name == "rows":
        return rows_of(codes), scale.t().contiguous(), None
    if name == "compressed_tensors":
        return bytes_of(in_words(codes.t())), scale.t().contiguous(), bytes_of(in_words(zero).t())
    if name == "awq":
        return bytes_of(in_words(codes, AWQ)), scale, bytes_of(in_words(zero, AWQ))
    stored = zero if name == "gptq_v2" else (zero - 1) % 16
    return bytes_of(in_words(codes.t()).t().contiguous()), scale, bytes_of(in_words(stored))


TYPES = {"s8": torch.int8, "bf16": torch.bfloat16, "f16": torch.float16}


def by_reference(chain, inputs):
    """What the library's executor on the host computes."""
    outputs = [torch.empty(out.shape, dtype=TYPES[str(out.dtype)]) for out in chain.outputs(1)]
    call("sinter_x_reference_run", chain._get(), 1, len(inputs), run_chain._pointers(inputs), len(outputs), run_chain._pointers(outputs), 0)
    return outputs


def packed(name, w, scale, zero, dtype):
    """What chains make of a checkpoint's tensors."""
    b = sinter.Builder()
    of = "bf16" if dtype == torch.bfloat16 else "f16"
    made = [sinter.pack_codes(b.constant("s8", tuple(w.shape)), name), sinter.pack_scales(b.constant(of, tuple(scale.shape)), name)]
    given = [w, scale]
    if zero is not None:
        made.append(sinter.pack_zeros(b.constant("s8", tuple(zero.shape)), name).cast(of))
        given.append(zero)
    return by_reference(b.finish(*made), given)


def matrix(n, k, group, dtype=torch.bfloat16):
    draw = torch.Generator().manual_seed(n + k)
    codes, zero = torch.randint(0, 16, (k, n), generator=draw), torch.randint(0, 16, (k // group, n), generator=draw)
    return codes, (torch.rand(k // group, n, generator=draw) * 0.02 + 0.005).to(dtype), zero


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["rows", "awq", "gptq", "gptq_v2", "compressed_tensors"])
def test_a_checkpoint_is_packed_as_vllm_packs_it(name, dtype):
    n, k, group = 192, 96, 32
    codes, scale, zero = matrix(n, k, group, dtype)
    given = checkpoint_of(name, codes, scale, zero)
    found = packed(name, *given, dtype)
    assert torch.equal(found[0], marlin_codes(codes).view(torch.int8))
    assert torch.equal(found[1], marlin_scales(scale))
    if given[2] is not None:
        assert torch.equal(found[2], marlin_scales(zero).to(dtype))


@pytest.mark.parametrize("name", ["rows", "awq", "gptq"])
def test_what_is_packed_is_the_matrix(name):
    codes, scale, zero = matrix(64, 64, 64)
    found = packed(name, *checkpoint_of(name, codes, scale, zero), torch.bfloat16)
    how = Packed(64, len(found) == 3)
    offset = zero if how.zeros else 8
    wanted = ((codes - offset).float() * scale.float()).bfloat16().t()
    assert torch.equal(packed_matrix.dequantized(found[0], found[1], how, found[2] if how.zeros else None), wanted)


def test_every_byte_of_e8m0_is_its_power():
    b = sinter.Builder()
    chain = b.finish(sinter.dequantize_e8m0(b.constant("s8", (256,))).cast("bf16"))
    given = torch.arange(256, dtype=torch.uint8)
    found = by_reference(chain, [given.view(torch.int8)])[0]
    assert torch.equal(found[:255], torch.ldexp(torch.ones(255), given[:255].int() - 127).bfloat16())
    assert found[255].isnan()


def test_rows_of_gate_and_up_in_turn_are_read_by_strides():
    """gpt-oss has rows gate 0, up 0, gate 1, up 1 and so on, with scales of E8M0."""
    n, k = 64, 64
    draw = torch.Generator().manual_seed(3)
    codes = torch.randint(0, 16, (k, 2 * n), generator=draw)
    power = torch.randint(110, 130, (2 * n, k // 32), generator=draw).to(torch.uint8).view(torch.int8)
    w = rows_of(codes)
    for first in (0, 1):
        b = sinter.Builder()
        rows = b.constant("s8", (n, k // 2), strides=(k, 1))
        scale = sinter.dequantize_e8m0(b.constant("s8", (n, k // 32), strides=(k // 16, 1))).cast("bf16")
        chain = b.finish(sinter.pack_codes(rows, "rows"), sinter.pack_scales(scale, "rows"))
        found = by_reference(chain, [w[first::2], power[first::2]])
        assert torch.equal(found[0], marlin_codes(codes[:, first::2]).view(torch.int8))
        exponents = power[first::2].view(torch.uint8).int() - 127
        assert torch.equal(found[1], marlin_scales(torch.ldexp(torch.ones(n, k // 32), exponents).bfloat16().t()))


def refusal(add):
    with pytest.raises(sinter.Error) as found:
        add(sinter.Builder())
    return str(found.value)


def test_refusals_name_the_format():
    of = lambda make, dtype, shape, name: refusal(lambda b: make(b.constant(dtype, shape), name))
    assert "(pack_codes): w is s8[96,32], must be s8[n,k/2] with n a multiple of 64 and k of 16, of a checkpoint of rows" in of(sinter.pack_codes, "s8", (96, 32), "rows")
    assert "w is s8[64,36], must be s8[k,n/2], words [k,n/8]," in of(sinter.pack_codes, "s8", (64, 36), "awq")
    assert "w is s8[3,256], must be s8[k/8,4n], words [k/8,n]," in of(sinter.pack_codes, "s8", (3, 256), "gptq")
    assert "dtype of w is bf16, must be s8, with two codes in a byte" in of(sinter.pack_codes, "bf16", (64, 32), "rows")
    assert "scale is f16[32,4], must be [n,groups] with n a multiple of 64, of a checkpoint of rows" in of(sinter.pack_scales, "f16", (32, 4), "rows")
    assert "scale is f16[4,32], must be [groups,n]" in of(sinter.pack_scales, "f16", (4, 32), "awq")
    assert "scale is s8[64,4], must be f32, f16 or bf16: cast it" in of(sinter.pack_scales, "s8", (64, 4), "rows")
    assert "(pack_zeros): checkpoint is rows, must be one with zeros of four bits: pack_scales packs zeros that are floating" in of(
        sinter.pack_zeros, "s8", (64, 4), "rows"
    )
    assert "zero is s8[4,16], must be s8[groups,n/2], words [groups,n/8]," in of(sinter.pack_zeros, "s8", (4, 16), "gptq")
    assert "zero is s8[4,16], must be s8[n/8,4groups], words [n/8,groups]," in of(sinter.pack_zeros, "s8", (4, 16), "compressed_tensors")
    assert "dtype of scale is bf16, must be s8, a byte of E8M0" in refusal(lambda b: sinter.dequantize_e8m0(b.constant("bf16", (8,))))
    assert "checkpoint is 'gguf'; there are rows awq gptq gptq_v2 compressed_tensors" in of(sinter.pack_codes, "s8", (64, 32), "gguf")


@pytest.mark.parametrize("name, dims", [("rows", (4096, 2048)), ("awq", (4096, 2048)), ("gptq", (512, 16384))])
def test_packing_takes_at_most_two_kernels(name, dims):
    b = sinter.Builder()
    chain = b.finish(sinter.pack_codes(b.constant("s8", dims), name))
    assert sinter.Context(target="h200").search(chain).kernel_count <= 2


@pytest.mark.parametrize("name", ["awq", "gptq", "gptq_v2", "compressed_tensors"])
def test_words_are_packed_by_one_call(name):
    codes, scale, zero = matrix(128, 64, 32)
    w, scales, zeros = checkpoint_of(name, codes, scale, zero)
    found = sinter.torch.pack_four_bits(name, w.view(torch.int32), scales, zeros.view(torch.int32), g_idx=torch.arange(64, dtype=torch.int32) // 32)
    assert torch.equal(found.codes, marlin_codes(codes).view(torch.int8))
    assert torch.equal(found.scales, marlin_scales(scale)) and torch.equal(found.zeros, marlin_scales(zero).bfloat16())


def test_bytes_of_e8m0_and_floating_zeros_are_packed_by_one_call():
    codes, scale, zero = matrix(64, 64, 32, torch.float16)
    floating = sinter.torch.pack_four_bits("rows", rows_of(codes).view(torch.uint8), scale.t(), zero.t().half())
    assert torch.equal(floating.scales, marlin_scales(scale)) and torch.equal(floating.zeros, marlin_scales(zero).half())
    power = torch.randint(100, 130, (64, 2)).to(torch.uint8)
    for given in (power, power.view(torch.float8_e8m0fnu)):
        mxfp4 = sinter.torch.pack_four_bits("rows", rows_of(codes), given)
        assert mxfp4.zeros is None and mxfp4.scales.dtype == torch.bfloat16
        assert torch.equal(mxfp4.scales, marlin_scales(torch.ldexp(torch.ones(64, 2), power.int() - 127).bfloat16().t()))


def test_one_call_refuses_what_does_not_fit():
    codes, scale, zero = matrix(128, 64, 32)
    w, scales, zeros = checkpoint_of("gptq", codes, scale, zero)

    def refused(*given, **named):
        with pytest.raises(sinter.Error) as found:
            sinter.torch.pack_four_bits("gptq", *given, **named)
        return str(found.value)

    order = torch.arange(64) // 32
    assert "g_idx[0] is 1, must be 0: the matrix was quantised in the order of activations (desc_act)" in refused(w, scales, zeros, order.flip(0))
    assert "g_idx has shape (32,), must be (64,)" in refused(w, scales, zeros, order[:32])
    assert "scales pack to [2, 64], must be [2, 128]" in refused(w, scales[:, :64], zeros)
    assert "zeros pack to [1, 128], must be [2, 128]" in refused(w, scales, zeros[:1])
    assert "scales have 3 groups, must be a divisor of k, which is 64" in refused(w, scales[:1].repeat(3, 1))
    assert "codes are torch.int64, must be words of int32" in refused(w.long(), scales)
    assert "scales are torch.int32, must be f32, f16 or bf16, or bytes of E8M0" in refused(w, scales.int())
    assert "zeros are torch.int64" in refused(w, scales, zero)
    assert "(pack_codes): w is s8[7,512]" in refused(w[:7], scales)
    with pytest.raises(TypeError, match="codes is a list"):
        sinter.torch.pack_four_bits("gptq", [1], scales)


def test_a_chain_that_packs_has_a_plan_without_rows():
    chain = _chain("awq", (((64, 64), "s8"), ((2, 128), "bf16"), ((2, 64), "s8")))
    plan = sinter.Context(target="h200").prepare(chain, 1)
    assert not chain.uses_m and plan.kernel_count == 1
