"""Sums of rows whose elements are equal except one, as gradients of cross entropies are."""

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx

from sinter.torch.backend import graph_pass
from sinter.torch.graph.sums_of_one_hot import sum_one_hots

from graphs import DEVICE, passed

ROWS, CLASSES = 8, 50
LABELS = torch.tensor([0, 3, 49, 50, -1, 7, -100, 9])  # three of them name no class


def summed(f, *given):
    """(sums that were replaced, what f gives, what its graph gives then, the graph's operators)."""
    made = make_fx(f, decomposition_table=select_decomp_table(), tracing_mode="fake")(*given)
    found = sum_one_hots(made.graph, "cpu")
    made.graph.lint()
    made.recompile()
    return found, f(*given), made(*given), [str(node.target) for node in made.graph.nodes]


def hot(labels, axis=-1):
    places = torch.arange(CLASSES)
    return labels.unsqueeze(axis) == (places[:, None] if axis == 0 else places)


def test_the_sum_of_a_one_hot_is_computed_from_its_two_values():
    def of_rows(c, w, labels):
        return (c[:, None].expand(ROWS, CLASSES) + torch.where(hot(labels), -1.0, 0.0) * w[:, None]).sum(1, keepdim=True)

    def of_columns(c, w, labels):
        return (c + hot(labels, axis=0).float() * w).sum(0)

    for f in (of_rows, of_columns):
        found, expected, result, names = summed(f, torch.randn(ROWS), torch.randn(ROWS), LABELS)
        assert found == 1 and not any("sum" in name or "iota" in name for name in names)
        torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


def test_each_place_is_rounded_before_it_is_summed():
    def f(c, w, labels):
        return (c[:, None] + torch.where(hot(labels), -1.0, 0.0) * w[:, None]).bfloat16().float().sum(1)

    found, expected, result, _ = summed(f, torch.randn(ROWS), torch.randn(ROWS), LABELS)
    assert found == 1
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


def test_equal_values_are_multiplied():
    found, expected, result, _ = summed(lambda c: c[:, None].expand(ROWS, CLASSES).exp().sum(1), torch.randn(ROWS))
    assert found == 1
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "f",
    [
        lambda c, labels: (torch.where(hot(labels), 1.0, 0.0) * torch.where(hot(labels + 1), 1.0, 0.0)).sum(1),  # two labels
        lambda c, labels: torch.where(hot(labels), 1.0, 0.0).sum(0),  # along the other axis
        lambda c, labels: torch.where(labels[:, None] == 2 * torch.arange(CLASSES), 1.0, 0.0).sum(1),  # no places
        lambda c, labels: torch.where(hot(labels), 1.0, 0.0).sum((0, 1)),
        lambda c, labels: torch.where(hot(labels), 1.0, 0.0).half().sum(1),
        lambda c, labels: (torch.where(hot(labels), 1.0, 0.0) + torch.randn(ROWS, CLASSES)).sum(1),
        lambda c, labels: torch.where(hot(labels).flip(0), 1.0, 0.0).cumsum(0).sum(1),
    ],
)
def test_other_sums_stay(f):
    assert summed(f, torch.randn(ROWS), LABELS)[0] == 0


def test_places_along_another_axis_choose_nothing():
    def f(labels):
        return torch.where(torch.arange(ROWS)[:, None].expand(ROWS, ROWS) == labels[:, None], 1.0, 0.0).sum(1)

    found, expected, result, _ = summed(f, LABELS)
    assert found == 1 and torch.equal(result, expected)  # each row is equal


def test_the_gradient_of_a_smoothed_cross_entropy_sums_no_row(monkeypatch):
    seen = []
    monkeypatch.setattr(graph_pass, "sum_one_hots", lambda *given: seen.append(sum_one_hots(*given)))
    logits = torch.randn(ROWS, CLASSES, device=DEVICE, requires_grad=True)
    labels = torch.randint(CLASSES, (ROWS,), device=DEVICE)

    def f(x):
        return torch.nn.functional.cross_entropy(x, labels, label_smoothing=0.1)

    (expected,) = torch.autograd.grad(f(logits), logits)
    (found,) = torch.autograd.grad(passed(f)[0](logits), logits)
    assert seen == [0, 1]
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)
