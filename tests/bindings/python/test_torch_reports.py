"""Cases after public bug reports of other compilers: each names its report, and compares a compiled function with PyTorch's operators."""

import math

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

from sinter.torch.runtime import verify

from graphs import DEVICE, passed

F = torch.nn.functional
SCALE = 1.0 / 0.3  # not a power of two, so that a product with it rounds


def scaled_softmax(x):
    return F.softmax(x * 1e14, -1)


def scaled_log_softmax(x):
    return F.log_softmax(x * SCALE, -1)


def entropy(x):
    return -F.log_softmax(x, -1)[:, 1]


def capped(x):
    return 30 * torch.tanh(x / 30) + 1


def argmax_and_operand(x):
    y = torch.atan(x) * torch.tan(x)
    zero = y - y
    return y, zero.argmax(-1)


def spread(rows, columns, least=-1.0, most=1.0):
    generator = torch.Generator().manual_seed(3)
    return least + (most - least) * torch.rand(rows, columns, generator=generator)


def with_infinite(x):
    x = x.clone()
    x[:, ::3] = -math.inf
    return x


CASES = {
    "pytorch/pytorch#163932": (scaled_softmax, spread(16, 96)),
    "SlopDotCash/asi#2886": (scaled_log_softmax, spread(16, 96, -1e10, 1e10)),
    "pytorch/pytorch#38839": (lambda x: F.log_softmax(x, 1), spread(16, 96) - 1e7),
    "pytorch/pytorch#11752": (entropy, torch.full((16, 2), 1e8)),
    "pytorch/xla#2553": (lambda x: F.log_softmax(x, -1), with_infinite(spread(16, 99, 9, 10))),
    "tenstorrent/pytorch2.0_ttnn#1341": (lambda x: F.log_softmax(x, -1), spread(16, 96, -1e4, 0)),
    "AMD-AGI/Primus#1057": (capped, spread(16, 1025, -4000, 4000)),
    "pytorch/pytorch#114229": (argmax_and_operand, spread(30, 64)),
}


def same(result, expected):
    if not expected.is_floating_point():
        return torch.equal(result, expected)
    return torch.allclose(result, expected, rtol=2e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("report", CASES)
def test_reported_values_are_those_of_pytorch(report):
    function, x = CASES[report]
    x = x.to(DEVICE)
    with torch.no_grad():
        compiled, reports = passed(function)
        results, expected = compiled(x), function(x)
    assert any(report.taken for report in reports), "no part was taken"
    several = isinstance(expected, tuple)
    for result, wanted in zip(results, expected) if several else [(results, expected)]:
        assert same(result, wanted), (result - wanted).abs().max()


@pytest.mark.parametrize("rows", [1, 48])
def test_a_bias_of_attention_is_not_scaled(rows):
    """tenstorrent/tt-metal#55337: softmax(q k * scale + bias), where a kernel multiplied the bias, too."""
    generator = torch.Generator().manual_seed(5)
    q, k, v = (torch.randn(2, 4, size, 64, generator=generator).bfloat16().to(DEVICE) for size in (rows, 96, 96))
    bias = torch.randn(1, 4, rows, 96, generator=generator).bfloat16().to(DEVICE) * 3
    function = lambda q, k, v, bias: F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=0.02)
    with torch.no_grad():
        compiled, _ = passed(function)
        exact = function(*(x.double() for x in (q, k, v, bias)))
        assert verify.difference(compiled(q, k, v, bias), exact.to(q.dtype), 2e-2)[1]


def test_values_that_a_mask_hides_may_be_nan():
    """pytorch/pytorch#101967: a NaN in a row of values that no query sees reached the result through 0 times NaN."""
    generator = torch.Generator().manual_seed(6)
    q, k, v = (torch.randn(1, 2, 48, 64, generator=generator).bfloat16().to(DEVICE) for _ in range(3))
    mask = torch.ones(48, 48, dtype=torch.bool, device=DEVICE)
    mask[:, 40:] = False
    function = lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    with torch.no_grad():
        compiled, _ = passed(function)
        assert verify.difference(compiled(q, k, v, mask), function(q, k, v, mask), 2e-2)[1]
