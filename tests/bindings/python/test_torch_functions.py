"""Operators that no op of a chain computes, and that a chain says by several: by the reference, against torch's in float64."""

import math

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

from sinter.torch.backend import planner
from sinter.torch.runtime import verify

from graphs import DEVICE, passed

#: Where functions are undefined, infinite, overflow, cancel or change their sign, and in the middle.
POINTS = [0.0, -0.0, 0.5, 1.0, 1.001, 0.999, 2.0**-14, 1e-30, 20.0, 88.5, 100.0, 1e4, 1e8, 1e9, 1e19, 3e38, math.inf, math.nan]


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


FUNCTIONS = ["sign", "trunc", "tan", "sinh", "cosh", "asinh", "acosh", "atanh", "hypot", "copysign"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_as_exact_as_torchs(monkeypatch, name):
    f, x = getattr(torch, name), points()
    if name == "tan":
        x = x[~(x.abs() > 1e4)]  # of larger numbers torch itself reduces by other constants on each machine
    inputs = [x, x[torch.randperm(len(x))]][: 1 + (name in ("hypot", "copysign"))]
    (found,), (own,) = run(monkeypatch, f, *inputs)
    exact, found, own = f(*(x.double() for x in inputs)), found.double().cpu(), own.double().cpu()
    assert torch.equal(found.isnan(), own.isnan()) and torch.equal(found.isinf(), own.isinf())
    finite = own.isfinite() & exact.isfinite()
    off = ((found - exact).abs() / exact.abs().clamp_min(1e-37))[finite].max() / torch.finfo(torch.float32).eps
    assert off <= 2.0, off


@pytest.mark.parametrize("f", [torch.sign, lambda x: torch.trunc(x) + 1, lambda x: torch.copysign(x.float(), -0.0)], ids=["sign", "trunc", "copysign"])
def test_integers_have_a_sign(monkeypatch, f):
    (found,), (expected,) = run(monkeypatch, f, torch.arange(-3, 4, dtype=torch.int32))
    assert torch.equal(found, expected)


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
