"""Functions of numbers, by ops of a chain: by the reference, against torch's in float64."""

import math

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

import sinter
from sinter import _abi
from sinter.torch.backend import planner
from sinter.torch.runtime import eager, run_chain, verify

from graphs import DEVICE, passed

#: Where functions are undefined, infinite, overflow, cancel or change their sign, and in the middle.
POINTS = [0.0, -0.0, 0.5, 1.0, 1.001, 0.999, 2.0**-14, 1e-30, 8.0, 20.0, 88.5, 100.0, 1e3, 1e4, 1e8, 1e9, 1e19, 3e38, math.inf, math.nan]


def run(monkeypatch, f, *inputs, captured=True):
    """Results of the captured operators and of torch's."""
    monkeypatch.setattr(planner, "worth_a_try", lambda *_, **__: True)
    inputs = [x.to(DEVICE) for x in inputs]
    with torch.no_grad():
        compiled, reports = passed(f)
        found, expected = compiled(*inputs), f(*inputs)
    assert (sum(len(report.taken) for report in reports) > 0) == captured, [report.left for report in reports]
    assert all(c.within for c in verify.comparisons), [c for c in verify.comparisons if not c.within]
    found, expected = (each if isinstance(each, tuple) else (each,) for each in (found, expected))
    for a, b in zip(found, expected):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
    return found, expected


def points():
    torch.manual_seed(0)
    return torch.tensor([sign * x for x in POINTS for sign in (1, -1)] + [*(torch.randn(64) * 3), *(torch.randn(64) * 1e-3)])


def pairs():
    """Each point with each other, and numbers near one another."""
    x = points()
    first, second = (each.flatten() for each in torch.meshgrid(x, x[: 2 * len(POINTS) + 16], indexing="ij"))
    whole = torch.randint(-6, 7, (2, 512)).float()
    return torch.cat([first, whole[0] / 4]), torch.cat([second, whole[1] / 4])


def divides(x, y):
    """Where torch's remainders on the CPU are right: not of numbers whose quotient overflows."""
    return (x / y).isfinite() | ~x.isfinite() | ~y.isfinite() | (y == 0)


def floor_quotient(x, y):
    return torch.div(x, y, rounding_mode="floor")


def whole_quotient(x, y):
    return torch.div(x, y, rounding_mode="trunc")


OF_ONE = [
    *(torch.sign, torch.sgn, torch.trunc, torch.fix, torch.frac, torch.square, torch.deg2rad, torch.rad2deg, torch.signbit, torch.isinf, torch.isposinf),
    *(torch.isneginf, torch.isfinite, torch.sin, torch.cos, torch.tan, torch.asin, torch.acos, torch.atan, torch.sinh, torch.cosh, torch.tanh),
    *(torch.asinh, torch.acosh, torch.atanh, torch.erf, torch.erfc, torch.exp, torch.exp2, torch.expm1, torch.log, torch.log1p, torch.log2, torch.log10),
]
OF_TWO = [
    *(torch.remainder, torch.fmod, floor_quotient, whole_quotient, torch.floor_divide, torch.copysign, torch.atan2, torch.hypot, torch.xlogy),
    *(torch.special.xlog1py, torch.logaddexp, torch.logaddexp2),
]
#: Functions that step: of a quotient that f32 rounds to an integer, torch's result in float64 may be another integer.
OF_STEPS = (floor_quotient, whole_quotient, torch.floor_divide)
#: Where the result is near 0 a sum cancels.
OF_SUMS = (torch.logaddexp, torch.logaddexp2)
REMAINDERS = (torch.remainder, torch.fmod, *OF_STEPS)


def name_of(f):
    return f.__name__


def units(found, exact, finite, dtype=torch.float32):
    """The largest relative error, in units of `dtype`."""
    return ((found - exact).abs() / exact.abs().clamp_min(torch.finfo(dtype).tiny))[finite].max() / torch.finfo(dtype).eps


def check(monkeypatch, f, *inputs):
    (found,), (own,) = run(monkeypatch, f, *inputs)
    found, own = found.cpu(), own.cpu()
    if found.dtype == torch.bool:
        assert torch.equal(found, own)
        return
    exact, found, own = f(*(x.double() for x in inputs)), found.double(), own.double()
    assert torch.equal(found.isnan(), own.isnan()) and torch.equal(found.isinf(), own.isinf())
    zero = (found == 0) & (own == 0) & (f is not torch.frac)  # Inductor's decomposition gives frac(-1.0) another sign
    assert torch.equal(found[zero].signbit(), own[zero].signbit())
    finite = own.isfinite() & exact.isfinite()
    if f in OF_SUMS:
        assert torch.allclose(found[finite], exact[finite], rtol=1e-6, atol=1e-6)
    else:
        assert units(found, own if f in OF_STEPS else exact, finite) <= 2.0


@pytest.mark.parametrize("f", OF_ONE, ids=name_of)
def test_a_function_is_as_exact_as_torchs(monkeypatch, f):
    x = points()
    if f in (torch.sin, torch.cos, torch.tan):
        x = x[~(x.abs() > 1e4)]  # of larger numbers torch itself reduces by other constants on each machine
    check(monkeypatch, f, x)


@pytest.mark.parametrize("f", OF_TWO, ids=name_of)
def test_a_function_of_two_is_as_exact_as_torchs(monkeypatch, f):
    x, y = pairs()
    right = divides(x, y) if f in REMAINDERS else x == x
    check(monkeypatch, f, *(each[right | x.isnan()] for each in (x, y)))


@pytest.mark.parametrize("by", [0.3, -0.3, 3, 0.0, -0.0, math.inf])
@pytest.mark.parametrize("f", [torch.remainder, torch.fmod, floor_quotient, whole_quotient, torch.copysign], ids=name_of)
def test_a_number_divides(monkeypatch, f, by):
    x = points()
    (found,), (own,) = run(monkeypatch, lambda x: f(x, by), x[divides(x, torch.tensor(float(by)))])
    assert torch.equal(found.isnan(), own.isnan())
    apart = (found - own)[own.isfinite()].abs()
    assert (apart <= (3e-7 * own[own.isfinite()].abs()).clamp_min(1.0) * (f in OF_STEPS)).all() and torch.equal(found.isinf(), own.isinf())


@pytest.mark.parametrize("number", [0.3, -3, math.inf])
def test_a_number_is_divided(monkeypatch, number):
    x = points()
    (found,), (own,) = run(monkeypatch, lambda x: torch.remainder(number, x), x[divides(torch.tensor(float(number)), x)])
    assert torch.equal(found.isnan(), own.isnan()) and torch.equal(found[~found.isnan()], own[~own.isnan()])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("f", [torch.remainder, torch.fmod, torch.atan2, torch.hypot, torch.copysign], ids=name_of)
def test_a_function_of_two_rounds_once(monkeypatch, f, dtype):
    x, y = (each.to(dtype) for each in pairs())
    x, y = (each[divides(x.float(), y.float())] for each in (x, y))
    (found,), _ = run(monkeypatch, f, x, y)
    exact = f(x.double(), y.double()).to(dtype).double()
    finite = exact.isfinite() & found.double().isfinite()
    assert torch.equal(found.isnan(), exact.isnan())
    assert units(found.double(), exact, finite, dtype) <= 1.0


@pytest.mark.parametrize("f", [torch.atan, torch.sinh, torch.log2, torch.erfc], ids=name_of)
def test_integers_become_floats(monkeypatch, f):
    (found,), (own,) = run(monkeypatch, f, torch.arange(1, 40, dtype=torch.int32))
    assert torch.allclose(found, own, rtol=1e-6)


def test_a_number_is_scaled_by_a_power_of_two(monkeypatch):
    x, power = torch.randn(64), torch.arange(-32, 32, dtype=torch.int32)
    (found,), (own,) = run(monkeypatch, torch.ldexp, x, power)
    assert torch.equal(found, own)


@pytest.mark.parametrize("f", [torch.remainder, torch.fmod, torch.floor_divide], ids=name_of)
def test_divisions_of_integers_are_left(monkeypatch, f):
    run(monkeypatch, f, torch.arange(-8, 8, dtype=torch.int32), torch.full((16,), 3, dtype=torch.int32), captured=False)


@pytest.mark.parametrize("f", [torch.sign, lambda x: torch.trunc(x) + 1, lambda x: torch.copysign(x.float(), -0.0)], ids=["sign", "trunc", "copysign"])
def test_integers_have_a_sign(monkeypatch, f):
    (found,), (expected,) = run(monkeypatch, f, torch.arange(-3, 4, dtype=torch.int32))
    assert torch.equal(found, expected)


@pytest.mark.parametrize("name", [*_abi.UNARY, *_abi.BINARY])
def test_the_fallback_computes_a_function_as_the_reference_does(name):
    if name == "ceil_pow2":
        pytest.skip("torch has no such function")
    b = sinter.Builder()
    dtype = "pred" if name in ("not", "and", "or") else "f32"
    x, y = b.input(dtype, (4, 8)), b.input(dtype, (4, 8))
    if name in _abi.UNARY:
        chain = b.finish(b._unary(name, x), b._binary("or" if dtype == "pred" else "add", x, y))
    else:
        chain = b.finish(b._binary(name, x, y))
    given = [torch.rand(4, 8).add(0.125).to(eager.DTYPES[dtype]) for _ in range(2)]
    for a, b in zip(eager.by_torch(chain)(given, 0), run_chain.by_reference(chain, given, 0)):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("dim, keep", [(0, False), (1, True), (-1, False), (None, False), (None, True)])
@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_the_first_of_equal_values_and_a_nan_are_found(monkeypatch, name, dim, keep):
    torch.manual_seed(0)
    x = torch.randint(0, 4, (5, 6, 24)).bfloat16()
    x[1, 2, 3] = math.nan
    (found,), (expected,) = run(monkeypatch, lambda x: getattr(torch, name)(x.transpose(0, 1), dim, keepdim=keep), x)
    if dim is not None:
        assert torch.equal(found, expected)
    else:
        assert x.transpose(0, 1).flatten()[found.flatten()].isnan().all()


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_sums_run_along_an_axis(monkeypatch, dim):
    x = torch.randn(5, 6, 24).bfloat16()
    (found,), _ = run(monkeypatch, lambda x: torch.cumsum(x.transpose(0, 1), dim), x)
    exact = torch.cumsum(x.double().transpose(0, 1), dim)
    assert (found.double() - exact).abs().max() <= 2.0**-8 * exact.abs().max()


@pytest.mark.parametrize("dim, k", [(0, 2), (1, 5), (-1, 24)])
def test_the_largest_values_fall(monkeypatch, dim, k):
    x = torch.stack([torch.randperm(30).view(5, 6) for _ in range(24)], -1).bfloat16() + torch.arange(24) / 64
    (values, places), (own, own_places) = run(monkeypatch, lambda x: torch.topk(x.abs(), k, dim), x.float())
    assert torch.equal(values, own) and torch.equal(places, own_places)


@pytest.mark.parametrize("more", [(33, -1), (3, -1, False)], ids=["33", "least"])
def test_other_largest_values_are_left(monkeypatch, more):
    run(monkeypatch, lambda x: torch.topk(x, *more), torch.randn(4, 64), captured=False)
