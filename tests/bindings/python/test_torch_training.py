"""Graphs of training through the backend's pass: casts that autocast makes of weights, steps of optimisers."""

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

from sinter.torch import _verify

from graphs import DEVICE, passed

N = torch.nn


def targets(part):
    return [str(node.target) for node in part.nodes]


def test_weights_that_autocast_casts_are_cast_by_one_part_and_biases_are_products():
    torch.manual_seed(1)
    model = N.Sequential(N.Linear(64, 128), N.GELU(), N.Linear(128, 64)).to(DEVICE)

    def step(x):
        with torch.autocast(DEVICE, torch.bfloat16):
            return model(x).float().square().sum()

    x = torch.randn(32, 64, device=DEVICE)
    expected = torch.autograd.grad(step(x), tuple(model.parameters()))
    compiled, reports = passed(step)
    found = torch.autograd.grad(compiled(x), tuple(model.parameters()))
    casts = [part for part in reports[0].taken if set(targets(part)) == {"prims.convert_element_type.default"}]
    assert len(casts) == 1 and len(casts[0].nodes) == 4
    products = [part for part in reports[0].taken if "aten.addmm.default" in targets(part)]
    assert products and all(len(part.made.chain.inputs(0)) >= 3 for part in products)
    assert all(c.within for c in _verify.comparisons)
    assert all(_verify.difference(a, b, 3e-2)[1] for a, b in zip(found, expected))


def test_casts_of_what_the_caller_gives_stay_with_who_reads_them():
    class Model(N.Module):
        def forward(self, x, w, v):
            return (x @ w.bfloat16() + 1).relu(), (x @ v.bfloat16() + 1).relu()

    with torch.no_grad():
        compiled, reports = passed(Model())
        compiled(torch.randn(8, 64).bfloat16(), torch.randn(64, 64), torch.randn(64, 64))
    assert not any(set(targets(part)) == {"prims.convert_element_type.default"} for part in reports[0].taken)
