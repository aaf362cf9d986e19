"""Loops over steps that PyTorch unrolls, through the backend's pass: steps share parts, weights and plans."""

import functools

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from sinter.torch.backend import graph_pass, planner
from sinter.torch.gate import gate
from sinter.torch.graph import sums_over_steps
from sinter.torch.partition import partition
from sinter.torch.runtime import verify as verify_module

from graphs import DEVICE, passed

N = torch.nn


class Lstm(N.Module):
    """An LSTM with layer norms over its gates, whose states are stacked."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.of_input, self.of_state, self.norm = N.Linear(inputs, 4 * hidden), N.Linear(hidden, 4 * hidden, bias=False), N.LayerNorm(4 * hidden)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[1], self.of_state.in_features)
        states = []
        for step in self.of_input(x).unbind():
            i, f, g, o = self.norm(step + self.of_state(h)).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            states.append(h)
        return torch.stack(states)


class Gru(N.Module):
    def __init__(self, inputs, hidden):
        super().__init__()
        self.of_input, self.of_state = N.Linear(inputs, 3 * hidden), N.Linear(hidden, 3 * hidden)

    def forward(self, x):
        h = x.new_zeros(x.shape[1], self.of_state.in_features)
        states = []
        for step in self.of_input(x):
            (xr, xz, xn), (hr, hz, hn) = step.chunk(3, -1), self.of_state(h).chunk(3, -1)
            n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
            h = h + (1 - torch.sigmoid(xz + hz)) * (n - h)
            states.append(h)
        return torch.stack(states)


def half(*modules):
    torch.manual_seed(1)
    return N.Sequential(*modules).eval().bfloat16().to(DEVICE)


def compiled(model, x, options=None):
    """The reports; asserts that every part is right, where parts are verified, and the result is."""
    x = x.bfloat16().to(DEVICE)
    with torch.no_grad():
        run, reports = passed(model, options)
        assert verify_module.difference(run(x), model(x), 3e-2)[1]
    assert all(c.within for c in verify_module.comparisons), verify_module.comparisons
    return reports


def test_steps_of_a_layer_are_one_part_and_equal_layers_share_its_plan():
    """Twelve steps of 20 ops are several times as many as a part of other ops may have."""
    (report,) = compiled(half(*(Lstm(128, 128) for _ in range(3))), torch.randn(12, 4, 128))
    assert verify_module.comparisons and not report.left, report.left
    assert len(report.taken) <= 3
    assert len({part.made.chain.digest for part in report.taken}) <= 2


def test_a_weight_of_many_steps_is_one_input():
    """Each step has a transposed view of it."""
    (report,) = compiled(half(Lstm(128, 128)), torch.randn(12, 4, 128))
    (part,) = report.taken
    shapes = [tuple(border.node.meta["val"].shape) for border in part.made.inputs]
    assert shapes.count((128, 512)) == 2, shapes  # of inputs and of states


def test_gates_of_a_step_enter_a_part_as_the_tensor_that_holds_them(monkeypatch):
    """One gate of 36 columns begins between 16 bytes, so that a launch would copy it first."""
    monkeypatch.setattr(partition, "MOST_WORK", 24)
    (report,) = compiled(half(Gru(36, 36)), torch.randn(6, 256, 36))
    entering = [border.node for part in report.taken for border in part.made.inputs]
    assert len(report.taken) >= 3 and all(node.meta["val"].storage_offset() % 8 == 0 for node in entering), entering
    assert any(node.meta["val"].storage_offset() for node in entering), "of a step, which is a view, too"


def test_a_small_step_is_one_kernel(context, need_compiler):
    """Threads multiply and sum, where tensor cores would need a kernel of their own, and one that pads 36 columns."""
    (report,) = compiled(half(Gru(36, 36)), torch.randn(4, 256, 36))
    kernels = [kernel for part in report.taken for kernel in context.prepare(part.made.chain).to_json()["kernels"]]
    assert len(kernels) <= 7, [kernel["family"] for kernel in kernels]  # steps, the product of inputs, the stack


def test_small_steps_are_taken_for_the_launches_that_they_save():
    """The gate accepts them: a step has a fiftieth of the multiplications, and of the bytes, that make other parts worth a plan."""
    (report,) = compiled(half(Gru(36, 36)), torch.randn(6, 256, 36), {"verify": False})
    taken = [node for part in report.taken for node in part.nodes]
    assert sum("tanh" in str(node.target) for node in taken) == 6, report.left


def test_launches_are_products_and_what_lies_between(monkeypatch):
    counted = []

    def worth_a_try(nodes, hint, small):
        counted.append((sum("mm" in str(node.target) for node in nodes), gate.launches_of(nodes)))
        return gate.worth_a_try(nodes, hint, small)

    monkeypatch.setattr(planner, "worth_a_try", worth_a_try)
    compiled(half(Gru(36, 36)), torch.randn(4, 256, 36), {"verify": False})
    products, launches = counted[0]
    assert products == 5 and launches in (2 * products - 1, 2 * products), counted


def test_gradients_of_a_weight_of_all_steps_are_one_product():
    """The gradients of its bias are one sum. The gradients of the steps' rows are adjacent in memory."""
    torch.manual_seed(1)
    model, x = Gru(36, 36).to(DEVICE), torch.randn(6, 32, 36, device=DEVICE)

    def step(x):
        with torch.autocast(DEVICE, torch.bfloat16):
            return model(x).float().square().sum()

    expected = torch.autograd.grad(step(x), tuple(model.parameters()))
    seen = []
    run, _ = passed(step, {"verify": False})
    own = sums_over_steps.join_sums_over_steps

    def watched(graph, device):
        found = own(graph, device)
        names = [str(node.target) for node in graph.nodes]
        seen.append((found, names.count("aten.mm.default"), names.count("aten.select_scatter.default")))
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_pass, "join_sums_over_steps", watched)
        found = torch.autograd.grad(run(x), tuple(model.parameters()))
    forward, backward = seen
    assert forward[0] == 0 and backward[0] == 3 and backward[2] == 0, seen  # of states' weight and bias, and of what inputs make
    assert backward[1] == 5 + 1 + 1, seen  # of states: of five steps, and of their weight; of inputs' weight
    assert all(verify_module.difference(a, b, 3e-2)[1] for a, b in zip(found, expected))


def test_few_steps_and_steps_of_many_rows_are_summed_as_they_are():
    def joined(steps, rows):
        def f(*given):
            return functools.reduce(torch.add, (g.t() @ h for g, h in zip(given[::2], given[1::2])))

        with FakeTensorMode():
            graph = make_fx(f)(*(torch.empty(rows, 8 + 8 * (i % 2), dtype=torch.bfloat16) for i in range(2 * steps))).graph
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.t.default):
            node.target, node.args = torch.ops.aten.permute.default, (node.args[0], [1, 0])
        return sums_over_steps.join_sums_over_steps(graph, "cpu"), [str(node.target) for node in graph.nodes].count("aten.mm.default")

    assert joined(8, 64) == (1, 1)
    assert joined(3, 64) == (0, 3) and joined(8, 1024) == (0, 8)
