"""Partitions whose plans cannot be made: the op that fails is left by name, and the rest is replanned."""

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

import sinter
import sinter.torch
from sinter.torch.backend import planner
from sinter.torch.runtime.options import Options, target_context

from test_torch_attention import Attending
from test_torch_backend import half, planned_with

N, F = torch.nn, torch.nn.functional
FOUND = sinter.Search(
    bucket=64, kernel_count=1, predicted_us=0.5, unfused_us=0.5, workspace_size=0, choice="fused", measured=False, name="fused", note=""
)


class Pending:
    """A prepare whose build fails."""

    def __init__(self, error):
        self.error = error

    def done(self):
        return False

    def add_done_callback(self, f):
        pass

    def result(self, timeout=None):
        raise self.error

    def close(self):
        pass


class Failing:
    """A context for an H200 in which chains have plans, and builds fail, whose text `fails` says so of."""

    def __init__(self, fails, code, message):
        self.context, self.fails, self.failed = target_context("h200"), fails, 0
        self.code, self.message, self.op = code, message, None

    def __getattr__(self, name):
        return getattr(self.context, name)

    def search(self, chain, m=None, *, timeout):
        if not self.fails(str(chain)):
            return self.context.search(chain, m, timeout=timeout)
        self.failed += 1
        return FOUND

    def prepare_async(self, chain, m=None):
        if not self.fails(str(chain)):
            return self.context.prepare_async(chain, m)
        return Pending(sinter.Error(self.code, self.message, op=self.op))


@pytest.fixture
def failing(monkeypatch):
    """Makes builds of the next graphs fail, and has every part that plans taken."""

    def make(fails, code=sinter.Status.COMPILE_FAILED, message="plan 'fused': kernel 0: ptxas refused it (C7511)"):
        context = Failing(fails, code, message)
        monkeypatch.setattr(planner, "context_of", lambda options, device: context)
        return context

    monkeypatch.setattr(planner, "worth_a_try", lambda *_: True)
    monkeypatch.setattr(planner, "inductor_us", lambda *_: 1e6)
    monkeypatch.setattr(planner, "attention_us", lambda *_: 1e6)
    return make


def of(reports):
    """{operator: why} of the operators left, and the operators that partitions took."""
    return {name: why for name, why in reports[0].left}, [str(node.target) for part in reports[0].taken for node in part.nodes]


class Model(N.Module):
    """Two products, with a sine that no other op is."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = N.Linear(64, 128), N.Linear(128, 64), N.LayerNorm(64)

    def forward(self, x):
        return self.norm(self.second(F.relu(self.first(x)).sin()) + x).exp() * 2


X = torch.randn(64, 64).bfloat16()


@pytest.mark.parametrize("code", [sinter.Status.COMPILE_FAILED, sinter.Status.NO_LEGAL_PLAN])
def test_the_op_whose_build_fails_is_found_and_the_rest_is_taken(need_compiler, failing, code):
    context = failing(lambda chain: "sin" in chain, code)
    left, taken = of(planned_with(Options("block", target="h200"), half(Model()), X))
    assert set(left) == {"aten.sin.default"} and "C7511" in left["aten.sin.default"], left
    assert taken.count("aten.addmm.default") == 2 and "aten.exp.default" in taken and 0 < context.failed < 16


def test_an_op_that_a_build_names_is_left_at_once(need_compiler, failing, monkeypatch):
    from sinter.torch.convert.converter import Converter

    context = failing(lambda chain: "sin" in chain)
    own = Converter.convert

    def convert(self):
        made = own(self)
        if "sin" in str(made.chain):
            context.op = next(i for i, node in enumerate(made.nodes) if str(getattr(node, "target", "")) == "aten.sin.default")
            context.message = f"plan 'fused': kernel 0: ptxas stopped at loop 3; no other takes its place: op {context.op}: no kernel"
        return made

    monkeypatch.setattr(Converter, "convert", convert)
    left, taken = of(planned_with(Options("block", target="h200"), half(Model()), X))
    assert set(left) == {"aten.sin.default"} and taken.count("aten.addmm.default") == 2 and context.failed == 1


def test_attention_whose_build_fails_is_left_in_each_of_equal_layers(need_compiler, failing):
    failing(lambda chain: "max" in chain)
    model, x = half(*[Attending(packed=True) for _ in range(3)]), torch.randn(4, 6, 64).bfloat16()
    left, taken = of(planned_with(Options("block", target="h200"), model, x))
    assert len(left) == 1 and all("_scaled_dot_product" in name and "C7511" in why for name, why in left.items()), left
    assert sum("mm.default" in name for name in taken) == 6, taken


def test_ops_that_fail_together_alone_are_taken_apart(need_compiler, failing):
    failing(lambda chain: "sin" in chain and "exp" in chain)
    left, taken = of(planned_with(Options("block", target="h200"), half(Model()), X))
    assert not left and {"aten.sin.default", "aten.exp.default"} <= set(taken), left


@pytest.mark.parametrize("code", [sinter.Status.RESOURCE_EXHAUSTED, sinter.Status.UNAVAILABLE])
def test_what_is_no_ops_fault_leaves_the_part_and_builds_no_smaller_ones(need_compiler, failing, code):
    context = failing(lambda chain: True, code, "no memory")
    left, taken = of(planned_with(Options("block", target="h200"), half(Model()), X))
    assert not taken and "no memory" in left["aten.sin.default"] and "no memory" in left["aten.exp.default"] and context.failed == 1


def test_where_all_fails_the_search_for_the_op_ends(need_compiler, failing):
    context = failing(lambda chain: True)
    left, taken = of(planned_with(Options("block", target="h200"), half(*[Model() for _ in range(4)]), X))
    assert not taken and left and context.failed <= 2 * planner._MOST_FAULTS


@pytest.mark.parametrize("fails", [False, True])
def test_beit_of_one_layer_is_taken_but_for_attention_that_fails(need_compiler, failing, fails):
    """Its heads have 16 columns: a compiler refused all schedules of its attention, and with it all 50 ops."""
    transformers = pytest.importorskip("transformers", reason="no transformers here: no BEiT is planned")
    sizes = dict(hidden_size=64, intermediate_size=128, num_attention_heads=4, num_hidden_layers=1, image_size=64, patch_size=16)
    failing(lambda chain: fails and "max" in chain)
    torch.manual_seed(1)
    model = transformers.BeitModel(transformers.BeitConfig(**sizes)).eval().bfloat16()
    left, taken = of(planned_with(Options("block", target="h200"), model, torch.randn(2, 3, 64, 64).bfloat16()))
    of_attention = [name for name in left if "_scaled_dot_product" in name]
    assert len(of_attention) == fails and all("C7511" in left[name] for name in of_attention), left
    assert sum("mm.default" in name for name in taken) == 6 and "aten.convolution.default" in taken, taken
    assert all(why == "dtype int64" for name, why in left.items() if name not in of_attention), left
