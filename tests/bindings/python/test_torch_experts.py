"""Mixtures of experts in compiled graphs: transformers' grouped_mm becomes one operator if it has the known form; otherwise it stays."""

import functools

import pytest

torch = pytest.importorskip("torch", minversion="2.11")
transformers = pytest.importorskip("transformers", minversion="5.0")

from torch._inductor.compile_fx import compile_fx, compile_fx_inner
from torch._inductor.custom_graph_pass import CustomGraphPass

from sinter.torch.graph import grouped_mm

from graphs import DEVICE, interpreted, passed
from test_experts import near


class Watch(CustomGraphPass):
    """Has experts replaced in each graph, and counts them."""

    def __init__(self):
        self.made = []

    def __call__(self, graph):
        self.made.append(grouped_mm.experts_as_operators(graph, "cpu"))
        graph.lint()
        self.graph = str(graph)
        self.left = [str(node.target) for node in graph.nodes if "grouped_mm" in str(node.target)]

    def uuid(self):
        return None


def block(**changed):
    from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

    config = transformers.Qwen3MoeConfig(hidden_size=64, moe_intermediate_size=32, num_experts=16, num_experts_per_tok=4, norm_topk_prob=True)
    config._experts_implementation = "grouped_mm"
    for name, value in changed.items():
        setattr(config, name, value)
    torch.manual_seed(0)
    made = Qwen3MoeSparseMoeBlock(config).bfloat16().eval()
    for weight in made.parameters():
        torch.nn.init.normal_(weight, std=0.2)
    return made


def compiled(module, *inputs, dynamic=False, grad=False, compile_graph=interpreted):
    """The results without the pass and with it, and what it found. C++ for the processor takes g++ some seconds a graph."""
    watch = Watch()
    backend = functools.partial(compile_fx, inner_compile=compile_graph)
    with torch.set_grad_enabled(grad), torch._inductor.config.patch(post_grad_custom_pre_pass=watch, fx_graph_cache=False):
        own = module(*inputs)
        torch._dynamo.reset()
        with torch._functorch.config.patch(enable_autograd_cache=False):  # it holds no interpreted graph
            return own, torch.compile(module, backend=backend, dynamic=dynamic)(*inputs), watch


def as_transformers(x, ids, weights, w1, w2, act=torch.nn.functional.silu, order=None, sorted_by=None, counted=None, masked=None):
    """The computation of transformers' function, with changes. `masked`: ids from there on name no expert, and their rows are zeros."""
    top, experts = ids.shape[1], len(w1)
    of_slot, by = torch.sort(sorted_by(ids.reshape(-1)) if sorted_by else ids.reshape(-1))
    zeroed = (lambda rows: rows.masked_fill((of_slot >= masked).unsqueeze(-1), 0.0)) if masked else (lambda rows: rows)
    counts = torch.histc(of_slot.float(), bins=experts, min=0, max=counted or experts - 1)
    ends = torch.cumsum(counts, 0, dtype=torch.int32)
    both = zeroed(torch._grouped_mm(zeroed(x[by // top]), w1.transpose(1, 2), offs=ends))
    gate, up = both.chunk(2, -1) if order is None else order(both)
    parts = zeroed(torch._grouped_mm(act(gate) * up, w2.transpose(1, 2), offs=ends)) * weights.reshape(-1)[by].unsqueeze(-1)
    back = torch.empty_like(by)
    back[by] = torch.arange(len(by))
    return parts[back].view(len(x), top, -1).sum(1).to(x.dtype)


def operands():
    torch.manual_seed(3)
    x, ids = torch.randn(6, 64).bfloat16(), torch.stack([torch.randperm(8)[:2] for _ in range(6)])
    return x, ids, torch.rand(6, 2).bfloat16(), torch.randn(8, 48, 64).bfloat16() / 8, torch.randn(8, 64, 24).bfloat16() / 5


@pytest.mark.parametrize("dynamic", [False, True])
def test_qwen3s_experts_become_an_operator(dynamic):
    own, ours, watch = compiled(block(), torch.randn(1, 5, 64).bfloat16(), dynamic=dynamic)
    if watch.made == [0] and not watch.left:
        pytest.skip("this version of transformers has no grouped product in its graph here")
    assert watch.made == [1] and watch.left == [], f"left: {watch.left} of this graph, which is spelled otherwise:\n{watch.graph}"
    assert near(ours, own.double())


def test_their_spelling_becomes_an_operator_that_inductors_code_calls():
    own, ours, watch = compiled(as_transformers, *operands(), compile_graph=compile_fx_inner)
    assert watch.made == [1] and near(ours, own.double())


def test_their_masks_of_other_gpus_experts_become_its_zeros():
    x, ids, *more = operands()
    given = (x, torch.where(ids % 3 == 1, 8, ids), *more)  # 8: an expert of another GPU
    own, ours, watch = compiled(lambda *inputs: as_transformers(*inputs, masked=8), *given)
    assert watch.made == [1] and watch.left == [] and near(ours, own.double())


def test_ids_of_another_type_stay():
    x, ids, *more = operands()
    own, ours, watch = compiled(as_transformers, x, ids.short(), *more)
    assert watch.made == [0] and near(ours, own.double())


OTHERS = {
    "another activation": dict(act=torch.nn.functional.gelu),
    "up first": dict(order=lambda both: both.chunk(2, -1)[::-1]),
    "interleaved": dict(order=lambda both: (both[:, ::2], both[:, 1::2])),
    "other ids": dict(sorted_by=lambda ids: 7 - ids),
    "other bins": dict(counted=8),
    "other masks": dict(masked=7),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_spelled_otherwise_stays(name):
    own, ours, watch = compiled(lambda *given: as_transformers(*given, **OTHERS[name]), *operands())
    assert watch.made == [0] and len(watch.left) == 2 and near(ours, own.double())


def test_what_a_backward_graph_reads_stays():
    module = block()
    own, ours, watch = compiled(module, torch.randn(1, 5, 64).bfloat16(), grad=True)
    ours.float().sum().backward()
    assert watch.made and not any(watch.made) and near(ours, own.double())


def by_ends(x, ids, weights, w1, w2, act, order):
    """Experts as other libraries write them: the pass for transformers' function recognises nothing here."""
    of_slot, by = torch.sort(ids.reshape(-1))
    ends = torch.searchsorted(of_slot, torch.arange(len(w1), device=x.device), right=True, out_int32=True)
    gate, up = order(torch._grouped_mm(x[by // ids.shape[1]], w1, offs=ends))
    return torch._grouped_mm(act(gate) * up, w2, offs=ends) * weights.reshape(-1)[by].unsqueeze(-1)


SPELLED = {
    "relu": (torch.nn.functional.relu, lambda both: both.chunk(2, -1)),
    "interleaved": (torch.nn.functional.silu, lambda both: (both[:, ::2], both[:, 1::2])),
    "up first": (torch.nn.functional.silu, lambda both: both.chunk(2, -1)[::-1]),
}


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("name", SPELLED)
def test_grouped_products_by_ends_are_parts_of_graphs(name, transposed):
    x, ids, weights, w1, w2 = (value.to(DEVICE) for value in operands())
    turned = (w1.transpose(1, 2), w2.transpose(1, 2))
    given = turned if transposed else tuple(value.contiguous() for value in turned)
    model = lambda *inputs: by_ends(*inputs, *given, *SPELLED[name])  # noqa: E731
    compiled_model, reports = passed(model)
    with torch.no_grad():
        own, ours = model(x, ids, weights), compiled_model(x, ids, weights)
    taken = [str(node.target) for report in reports for part in report.taken for node in part.nodes]
    assert sum("grouped_mm" in one for one in taken) == 2, [report.left for report in reports]
    assert near(ours, own.double())


def test_torch_computes_grouped_products_of_a_part_until_its_plan_is_there(monkeypatch):
    from sinter.torch.backend import planner
    from sinter.torch.gate import measure
    from sinter.torch.runtime import eager

    monkeypatch.setattr(planner, "inductor_us", lambda *_: 1e9)
    monkeypatch.setattr(planner, "worth_a_try", lambda *_: True)

    def experts(x, first, second, ends):
        halves = torch._grouped_mm(x, first, ends).chunk(2, 1)
        return torch._grouped_mm(torch.nn.functional.silu(halves[0]) * halves[1], second, ends)

    x, first, second = (torch.randn(shape).bfloat16() for shape in ((40, 64), (4, 64, 128), (4, 64, 64)))
    ends = torch.tensor([10, 10, 25, 40]).int()
    with torch.no_grad():
        compiled, reports = passed(experts, {"verify": False})
        compiled(*(value.to(DEVICE) for value in (x, first, second, ends)))
    (part,) = reports[0].taken
    given = measure.drawn(part.made.chain, 0, "cpu")
    given = [next(value for value in (x, first, second, ends) if value.shape == other.shape) for other in given]
    (found,) = eager.by_torch(part.made.chain)(given, 0)
    assert torch.equal(found, experts(x, first, second, ends))
