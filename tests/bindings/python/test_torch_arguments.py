"""Operators over the arguments that people pass: the reference computes each partition, and the results are compared with torch's operators."""

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

from sinter.torch.runtime import verify

from graphs import DEVICE, passed

F = torch.nn.functional


def check(f, *inputs, dynamic=None, marked=()):
    """The reports of a compiled function; asserts that results and parts are right. `marked`: axes of the first input that are symbolic."""
    inputs = [x.to(DEVICE) for x in inputs]
    for axis in marked:
        torch._dynamo.mark_dynamic(inputs[0], axis)
    with torch.no_grad():
        compiled, reports = passed(f, dynamic=dynamic)
        results, expected = compiled(*inputs), f(*inputs)
    assert all(c.within for c in verify.comparisons), [c for c in verify.comparisons if not c.within]
    for a, b in zip(results, expected):
        bound = {torch.bfloat16: 2e-2, torch.float16: 4e-3}.get(b.dtype, 1e-5)
        assert a.dtype == b.dtype and a.shape == b.shape and verify.difference(a, b, bound)[1]
    return reports


def taken(reports):
    return sum(len(report.taken) for report in reports)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: (x.exp().sum(-1) + 1, x.neg().amax(0, keepdim=True) * 2),
        lambda x: (x.abs().mean(-1).sqrt(), (x > 0).any(0).logical_not()),
        lambda x: (x.exp().logsumexp(0) * 2,),
    ],
    ids=["sum", "mean", "logsumexp"],
)
def test_a_number_is_reduced_over_its_only_axis(f):
    assert taken(check(f, torch.tensor(1.5)))


def test_no_axes_of_any_reduce_nothing():
    assert taken(check(lambda x: ((x > 0).any(dim=()).logical_not(),), torch.randn(4, 8)))


def test_rows_of_two_axes_are_reduced_to_one_of_each():
    reports = check(lambda x: ((x > 1).any(dim=(0, 1), keepdim=True).logical_not(), x.abs() + 1), torch.randn(3, 4), dynamic=True)
    assert not any("became" in why for report in reports for _, why in report.left)


def test_a_select_of_two_types_has_that_of_both():
    def f(x, i):
        return torch.where(x > 0, i, x), torch.where(x > 0, x > 1, i), torch.where(x > 0, i, 0.5) + 1

    reports = check(f, torch.randn(4, 8), torch.arange(8, dtype=torch.int32))
    assert taken(reports) and not any(name == "aten.where.self" for report in reports for name, _ in report.left)


def test_a_number_that_fills_a_tensor_has_its_type():
    def f(x):
        return torch.full_like(x, 2.7) * x, torch.full_like(x, -0.5) + x, x.bool().logical_or(torch.full_like(x, 0.5, dtype=torch.bool))

    assert taken(check(f, torch.arange(8, dtype=torch.int32)))


def test_what_reads_a_symbolic_size_alone_is_no_row_of_nothing():
    reports = check(lambda x: (x.amax() * 2 + 1,), torch.randn(3, 4), marked=(0,))
    assert not any("rows of None" in why for report in reports for _, why in report.left)


def test_many_refusals_of_what_reads_a_symbol_leave_the_numbers_behind():
    def f(x):  # sorting is not in a partition, so the rows of M are those that the partition reads
        return (sum(torch.sort(x[:, i : i + 8], 0)[0].var(0) for i in range(8)),)

    assert taken(check(f, torch.randn(5, 16), marked=(0,)))
