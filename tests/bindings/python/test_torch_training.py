"""Graphs of training through the backend's pass: casts that autocast makes of weights, steps of optimisers."""

import importlib
import itertools

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx

import sinter
import sinter.torch
from sinter.torch.backend import graph_pass, planner
from sinter.torch.gate import gate, generated_kernels
from sinter.torch.graph import few_elements, weight_casts
from sinter.torch.graph.nodes import memory_of
from sinter.torch.runtime import run_chain, verify as verify_module
from sinter.torch.gate.sizes import plain_hint

from everyday import sampled
from graphs import DEVICE, passed

N = torch.nn


@pytest.fixture
def whatever_it_gains(monkeypatch):
    """Parts of any size are taken, also where nothing is verified."""
    monkeypatch.setattr(planner, "worth_a_try", lambda nodes, hint, small: gate.worth_a_try(nodes, hint, True))
    monkeypatch.setattr(planner, "inductor_us", lambda *_: 1e9)


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
    assert all(c.within for c in verify_module.comparisons)
    assert all(verify_module.difference(a, b, 3e-2)[1] for a, b in zip(found, expected))


@pytest.mark.parametrize("taken", [False, True])
def test_results_of_one_memory_are_computed_once(monkeypatch, whatever_it_gains, taken):
    """Queries, keys and values of one projection, which attention reads and gradients need. If no part takes them, the graph's results are the views
    that attention reads; else Inductor would compute all three once more at the end."""
    torch.manual_seed(1)
    model, shared, own = N.MultiheadAttention(64, 2, batch_first=True).to(DEVICE), [], graph_pass.SinterPass.__call__

    def watched(self, graph):
        own(self, graph)
        results, memories = graph.output_node().all_input_nodes, [memory_of(i.meta.get("val")) for i in graph.output_node().all_input_nodes]
        shared.append([len(result.users) for result, memory in zip(results, memories) if memories.count(memory) > 1])

    def step(x):
        with torch.autocast(DEVICE, torch.bfloat16):
            return model(x, x, x, need_weights=False)[0].float().square().sum()

    if not taken:  # but weights' casts
        monkeypatch.setattr(planner, "partition", lambda *_: [])
    monkeypatch.setattr(graph_pass.SinterPass, "__call__", watched)
    x = torch.randn(4, 32, 64, device=DEVICE)
    expected = torch.autograd.grad(step(x), tuple(model.parameters()))
    compiled, reports = passed(step, {"verify": False})
    found = torch.autograd.grad(compiled(x), tuple(model.parameters()))
    assert len(reports[0].taken) > taken and len(shared[0]) == 3
    assert all(count > 1 for count in shared[0]), shared
    assert all(verify_module.difference(a, b, 3e-2)[1] for a, b in zip(found, expected))


def test_rows_of_a_weight_are_cast_beside_whole_weights(whatever_it_gains):
    """An example is the matrix that makes queries from one tensor, and keys and values from another."""
    torch.manual_seed(1)
    model = N.MultiheadAttention(64, 2, batch_first=True).to(DEVICE)

    def step(x, y):
        with torch.autocast(DEVICE, torch.bfloat16):
            return model(x, y, y, need_weights=False)[0].float().square().sum()

    x, y = torch.randn(4, 32, 64, device=DEVICE), torch.randn(4, 48, 64, device=DEVICE)
    expected = torch.autograd.grad(step(x, y), tuple(model.parameters()))
    compiled, reports = passed(step)
    found = torch.autograd.grad(compiled(x, y), tuple(model.parameters()))
    (casts,) = [part for part in reports[0].taken if set(targets(part)) == {"prims.convert_element_type.default"}]
    assert {(64, 64), (128, 64)} <= {tuple(node.meta["val"].shape) for node in casts.nodes} and len(casts.nodes) >= 3
    assert verify_module.comparisons and all(c.within for c in verify_module.comparisons)
    assert all(verify_module.difference(a, b, 3e-2)[1] for a, b in zip(found, expected))


def rewritten(f, *inputs):
    """The graph of `f` after `few_elements`, and what it computes then and before."""
    with torch.no_grad():
        graph = make_fx(f, decomposition_table=select_decomp_table(), tracing_mode="fake")(*inputs)
        before = graph(*inputs)
        few_elements.few_elements(graph.graph)
        graph.graph.lint()
        graph.recompile()
        return graph, graph(*inputs), before


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_cross_entropy_picks_logits_and_not_their_logarithms(smoothing):
    torch.manual_seed(1)
    labels = torch.randint(0, 96, (32,))
    labels[3] = -100
    loss = lambda x, labels: N.functional.cross_entropy(x.float(), labels, label_smoothing=smoothing)
    graph, found, expected = rewritten(loss, torch.randn(32, 96).bfloat16(), labels)
    (gather,) = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.gather.default)
    assert torch.equal(found, expected) and gather.args[0].op == "placeholder"
    wide = [node for node in graph.graph.nodes if "aten.sub" in str(node.target) and node.meta["val"].shape == (32, 96)]
    assert len(wide) == (2 if smoothing else 1), "what else reads them still does"


@pytest.mark.parametrize(
    "f, shape, few",
    [
        (lambda x, ids, y: (x * y).gather(1, ids), (32, 1), True),
        (lambda x, ids, y: (x * 2 + 1).gather(-1, ids), (32, 2), True),
        (lambda x, ids, y: (x.exp() / x.exp().sum(1, keepdim=True)).gather(1, ids), (32, 1), True),
        (lambda x, ids, y: x.add(x.sin(), alpha=2).gather(0, ids), (1, 96), True),
        (lambda x, ids, y: (x * 2).gather(1, ids), (32, 64), False),  # many
        (lambda x, ids, y: (x * 2).gather(1, ids), (8, 1), False),  # of some rows
        (lambda x, ids, y: (x * y[:1]).gather(1, ids), (32, 1), False),  # by a factor of each column
        (lambda x, ids, y: x.sum(0, keepdim=True).expand(32, 96).gather(1, ids), (32, 1), False),
        (lambda x, ids, y: (x * 2).clone(memory_format=torch.contiguous_format).gather(1, ids), (32, 1), False),
    ],
)
def test_few_elements_are_computed_of_few_elements(f, shape, few):
    torch.manual_seed(1)
    x, y, ids = torch.randn(32, 96), torch.randn(32, 96), torch.randint(0, 32, shape)
    graph, found, expected = rewritten(f, x, ids, y)
    gathers = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.gather.default)
    assert torch.equal(found, expected)
    assert all(node.args[0].op == "placeholder" for node in gathers) == few


def test_a_part_before_a_cross_entropy_writes_no_logarithm_of_each_class(whatever_it_gains):
    torch.manual_seed(1)
    model, x, labels = N.Linear(64, 512).to(DEVICE), torch.randn(32, 64, device=DEVICE), torch.randint(0, 512, (32,), device=DEVICE)

    def step(x):
        with torch.autocast(DEVICE, torch.bfloat16):
            return N.functional.cross_entropy(model(x).float(), labels, label_smoothing=0.1)

    expected = torch.autograd.grad(step(x), tuple(model.parameters()))
    compiled, reports = passed(step, {"verify": False})
    found = torch.autograd.grad(compiled(x), tuple(model.parameters()))
    written = [border.node.meta["val"] for part in reports[0].taken for border in part.made.outputs]
    assert any(val.shape == (32, 512) for val in written) and not any(val.shape == (32, 512) and val.dtype == torch.float32 for val in written)
    assert all(verify_module.difference(a, b, 3e-2)[1] for a, b in zip(found, expected))


def test_gradients_of_weights_are_products_of_rows_as_they_lie(context, need_compiler):
    """That includes rows that the part computes: no kernel transposes them."""

    class Model(N.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.second = N.Linear(64, 128), N.LayerNorm(128), N.Linear(128, 64)

        def forward(self, x):
            with torch.autocast(DEVICE, torch.bfloat16):
                return self.second(N.functional.gelu(self.norm(self.first(x)))).float().square().sum()

    torch.manual_seed(1)
    compiled, reports = passed(Model().to(DEVICE))
    compiled(torch.randn(4, 8, 64, device=DEVICE)).backward()
    assert all(c.within for c in verify_module.comparisons)
    kernels = [kernel for part in reports[1].taken for kernel in context.prepare(part.made.chain).to_json()["kernels"]]
    rows = [kernel["sequence"].get("rows") for kernel in kernels if kernel["family"] == "product"]
    assert rows.count("transposed") == 2, rows


def test_weights_are_cast_no_sooner_than_their_memory_allows(monkeypatch, whatever_it_gains):
    """All at the start would hold a second copy of the whole model."""

    class Model(N.Module):
        def __init__(self):
            super().__init__()
            self.layers = N.ModuleList(N.Sequential(N.Linear(64, 128), N.GELU(), N.Linear(128, 64)) for _ in range(3))

        def forward(self, x):
            with torch.autocast(DEVICE, torch.bfloat16):
                for layer in self.layers:
                    x = layer(x).cumprod(0)
            return x

    orders, own, layer_bytes = [], graph_pass.stable_topological_sort, 2 * (2 * 64 * 128 + 64 + 128)
    monkeypatch.setattr(weight_casts, "_MOST_BYTES", layer_bytes)
    monkeypatch.setattr(graph_pass, "stable_topological_sort", lambda graph: own(graph) or orders.append(list(graph.nodes)))
    model, x = Model().to(DEVICE), torch.randn(32, 64, device=DEVICE)
    with torch.no_grad():
        compiled, reports = passed(model, {"verify": False})
        assert verify_module.difference(compiled(x), model(x), 3e-2)[1]
    casts = [part for part in reports[0].taken if set(targets(part)) == {"prims.convert_element_type.default"}]
    assert [len(part.nodes) for part in casts] == [4] * 3
    scans = [i for i, node in enumerate(orders[-1]) if str(node.target) == "aten.cumprod.default"]
    calls = [i for i, node in enumerate(orders[-1]) if str(node.target) == "sinter.run_chain.default"]
    of_weights = [i for i in calls if all(given.op == "placeholder" for given in orders[-1][i].args[0])]
    assert len(scans) == len(of_weights) == 3 and of_weights[0] < scans[0] < of_weights[1] < scans[1] < of_weights[2]


def test_casts_of_what_the_caller_gives_stay_with_who_reads_them():
    class Model(N.Module):
        def forward(self, x, w, v):
            return (x @ w.bfloat16() + 1).relu(), (x @ v.bfloat16() + 1).relu()

    with torch.no_grad():
        compiled, reports = passed(Model())
        compiled(torch.randn(8, 64).bfloat16(), torch.randn(64, 64), torch.randn(64, 64))
    assert not any(set(targets(part)) == {"prims.convert_element_type.default"} for part in reports[0].taken)


SIZES = [(96, 64), (64,), (33, 5)]


def drawn():
    torch.manual_seed(1)
    parameters = [torch.randn(size, device=DEVICE) for size in SIZES]
    parameters.append(torch.randn(8, 6, 3, 3, device=DEVICE).contiguous(memory_format=torch.channels_last))
    gradients = [torch.randn_like(p) for p in parameters]
    return parameters, gradients


def stepped(make, compiled_by=lambda step: step, steps=3):
    """Parameters after some steps."""
    parameters, gradients = drawn()
    for p, gradient in zip(parameters, gradients):
        p.requires_grad_().grad = gradient
    optimizer = make(parameters)
    step = compiled_by(optimizer.step)
    for _ in range(steps):
        step()
    return [p.detach() for p in parameters]


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-2, foreach=True, capturable=True)


OPTIMIZERS = {
    "adamw": adamw,
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-2, momentum=0.9, foreach=True),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, lr=1e-2, foreach=True, capturable=True),
}


@pytest.fixture
def capturable_anywhere(monkeypatch):
    """An optimiser whose counts of steps are on its parameters' device, as on a GPU."""
    for name in ("adam", "rmsprop"):
        module = importlib.import_module(f"torch.optim.{name}")
        monkeypatch.setattr(module, "_get_capturable_supported_devices", lambda *_, **__: ["cpu", "cuda"])


@pytest.mark.parametrize("name, verify", sampled(itertools.product(OPTIMIZERS, [True, False]), 2))
def test_a_step_of_an_optimizer_is_one_part_that_writes_in_place(name, verify, whatever_it_gains, capturable_anywhere):
    expected = stepped(OPTIMIZERS[name])
    reports = []

    def compiled_by(step):
        compiled, found = passed(step, {"verify": verify})
        reports.append(found)
        return compiled

    found = stepped(OPTIMIZERS[name], compiled_by)
    for a, b in zip(found, expected):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-6)
    last = reports[0][-1]
    assert len(last.taken) == 1 and last.taken[0].made.over, last.left
    assert len(last.taken[0].made.over) == len(last.taken[0].made.outputs)
    if verify:
        assert verify_module.comparisons and all(c.within for c in verify_module.comparisons)
    else:
        written = {name for name, _ in last.left}
        assert "aten._foreach_mul.Scalar" not in written


@pytest.mark.skipif(DEVICE != "cuda", reason="only a GPU captures")
def test_a_captured_step_writes_in_place_at_each_replay(whatever_it_gains):
    replayed, reports = [], []

    def compiled_by(step):
        compiled, found = passed(step, {"verify": False})
        reports.append(found)

        def run():
            if len(replayed) < 3:  # the state is made, and what Dynamo compiles for it
                replayed.append(compiled())
                return
            if len(replayed) == 3:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    compiled()
                replayed.append(graph)
            replayed[3].replay()

        return run

    found, expected = stepped(adamw, compiled_by, 6), stepped(adamw, steps=6)
    assert len(reports[0][-1].taken) == 1 and reports[0][-1].taken[0].made.over, reports[0][-1].left
    for a, b in zip(found, expected):
        assert torch.allclose(a, b, rtol=1e-5, atol=1e-6)


def test_lists_that_are_not_written_over_inputs_stay_inductors(whatever_it_gains):
    def f(a, b):
        return torch._foreach_add(torch._foreach_mul([a, b], 2.0), 1.0)

    with torch.no_grad():
        compiled, reports = passed(f)
        x = torch.randn(8, 64, device=DEVICE)
        assert torch.equal(compiled(x, x)[0], f(x, x)[0])
    assert not reports[0].taken
    assert any("not all written" in why for _, why in reports[0].left)


def test_what_is_read_behind_its_step_keeps_the_value_that_it_had(whatever_it_gains):
    """Another op of the graph reads the old value, so the operator must not have written over it."""

    def f(w, g):
        before = w.flip(0)
        torch._foreach_add_([w], torch._foreach_mul([g], 0.5))
        return before

    torch.manual_seed(1)
    w, g = torch.randn(16, 64, device=DEVICE), torch.randn(16, 64, device=DEVICE)
    own = w.clone()
    with torch.no_grad():
        compiled, _ = passed(f, {"verify": False})
        before, expected = compiled(w, g), f(own, g)
    assert torch.equal(before, expected) and torch.allclose(w, own)


def averaged(parameters, gradients, averages):
    """The average reads parameters that the step, which Inductor has, writes over."""
    torch._foreach_add_(averages, torch._foreach_sub(parameters, averages), alpha=0.1)
    for p, gradient in zip(parameters, gradients):
        p.sub_(gradient)


def stepped_and_zeroed(gradients, parameters, _):
    torch._foreach_sub_(parameters, torch._foreach_mul(gradients, 0.1))
    torch._foreach_zero_(gradients)


def halved_and_moved(parameters, gradients, _):
    torch._foreach_mul_(parameters, 0.5)
    torch._foreach_add_(parameters, gradients)


def lists(shape=(16, 64)):
    torch.manual_seed(1)
    return [[torch.randn(shape, device=DEVICE) for _ in range(2)] for _ in range(3)]


def same(found, expected):
    return all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for one, other in zip(found, expected) for a, b in zip(one, other))


@pytest.mark.parametrize("f", [averaged, stepped_and_zeroed])
def test_what_a_step_reads_is_what_was_given_also_where_the_graph_writes_over_it(f, whatever_it_gains):
    found, expected = lists(), lists()
    f(*expected)
    with torch.no_grad():
        compiled, reports = passed(f, {"verify": False})
        compiled(*found)
    assert same(found, expected)
    assert len(reports[0].taken) == 1 and reports[0].taken[0].made.over, reports[0].left


def test_a_step_that_is_verified_writes_over_no_input_itself(monkeypatch, whatever_it_gains):
    """The graph does not show Inductor such a write, so Inductor would then read overwritten values."""
    told, carried, by_reference = [], run_chain.carried, run_chain.by_reference

    def as_on_a_gpu(chain, inputs, m):
        made = by_reference(chain, inputs, m)
        for at, result in zip(told[-1].over, made):
            inputs[at].copy_(result)
        return [inputs[at] for at in told[-1].over] or made

    monkeypatch.setattr(run_chain, "carried", lambda chain: told.append(carried(chain)) or told[-1])
    monkeypatch.setattr(run_chain, "by_reference", as_on_a_gpu)
    found, expected = lists(), lists()
    halved_and_moved(*expected)
    how = {"prepare": "block"} if DEVICE == "cuda" else {"target": "h200"}
    torch._dynamo.reset()
    verify_module.comparisons.clear()
    with torch.no_grad():
        torch.compile(halved_and_moved, backend=sinter.torch.sinter_backend, options={**how, "verify": True})(*found)
    assert verify_module.comparisons and all(c.within for c in verify_module.comparisons), verify_module.comparisons
    assert same(found, expected)


@pytest.mark.parametrize("shape", [(16, 64), (77,)])
def test_lists_with_a_symbolic_size_stay_inductors(shape, whatever_it_gains):
    found, expected = lists(shape), lists(shape)
    halved_and_moved(*expected)
    with torch.no_grad():
        compiled, reports = passed(halved_and_moved, {"verify": False}, dynamic=True)
        compiled(*found)
    assert same(found, expected)
    assert not reports[0].taken and any("symbolic size" in why for _, why in reports[0].left)


def test_an_operator_that_writes_in_place_says_so():
    schema = torch.ops.sinter.run_chain_over.default._schema
    assert schema.is_mutable and [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write] == ["written"]


def estimated_us(f, *shapes):
    """The estimated time of Inductor's kernels for `f` of f32 tensors on an H100."""
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    with FakeTensorMode():
        graph = make_fx(f)(*(torch.empty(shape) for shape in shapes)).graph
    nodes = [node for node in graph.nodes if node.op == "call_function"]
    return gate.inductor_us(nodes, sinter.Context(target="h100").describe()["model"], plain_hint)


def test_sums_of_rows_are_counted_as_kernels_that_read_once_more():
    """A bias's gradient and an element-wise result: Inductor sums in a kernel of its own and joins the blocks' sums in another."""
    shape = (8192, 4096)

    def doubled(and_then):
        def f(x):
            y = x * 2
            return y, and_then(y)

        return f

    alone = estimated_us(lambda x: x * 2, shape)
    sums = estimated_us(lambda x: (x * 2).sum(0), shape)
    both = estimated_us(doubled(lambda y: y.sum(0)), shape)
    of_rows = estimated_us(doubled(lambda y: y.sum(1)), shape)
    assert alone / 2 < sums < alone * 0.6
    assert both == pytest.approx(alone + sums, rel=1e-2)
    assert of_rows == pytest.approx(alone, rel=1e-2)
    short, wide = (estimated_us(lambda x: x.sum(0), of) for of in ((64, 4096), (1024, 32768)))
    assert short == pytest.approx(estimated_us(lambda x: x.sum(1), (4096, 64)), rel=1e-2), "few rows, which one block sums, or many columns"
    assert wide == pytest.approx(estimated_us(lambda x: x.sum(1), (32768, 1024)), rel=1e-2)
    of_batch = estimated_us(lambda x: torch.var_mean(x, 0, correction=0), shape)
    assert of_batch == pytest.approx(estimated_us(lambda x: x.sum(0), shape), rel=1e-2)
    normed = estimated_us(lambda x: x - x.mean(0), shape)
    assert normed == pytest.approx(1.16 * (alone + sums), rel=2e-2), "the mean comes first, in a sum that reaches less of the memory's rate than the fused one"


def estimated_adamw_us(shapes):
    """The estimated time of Inductor's kernels for a step of AdamW on tensors of `shapes` on an H100."""

    def step(*given):
        p, g, m, v = ([*given[i :: 4]] for i in range(4))
        m = torch._foreach_add(m, torch._foreach_mul(torch._foreach_sub(g, m), 0.1))
        v = torch._foreach_add(torch._foreach_mul(v, 0.99), torch._foreach_mul(torch._foreach_mul(g, g), 0.01))
        p = torch._foreach_sub(torch._foreach_mul(p, 0.999), torch._foreach_div(m, torch._foreach_add(torch._foreach_sqrt(v), 1e-8)))
        return (*p, *m, *v)

    return estimated_us(step, *(shape for shape in shapes for _ in range(4)))


def test_a_list_is_counted_as_kernels_of_so_many_values_each():
    """A tensor of the step above has 4 values that are read, 3 that are written and 11 in all that operators give: 18 of 250."""
    few, many = (estimated_adamw_us([(64,)] * count) for count in (13, 130))
    assert few == pytest.approx(gate.MEMORY_START_US, rel=0.1)
    assert many == pytest.approx(10 * gate.MEMORY_START_US, rel=0.1)
    figures = sinter.Context(target="h100").describe()["model"]
    one = estimated_adamw_us([(8192, 4096)])
    assert one == pytest.approx(28 * 8192 * 4096 / (generated_kernels._LIST_SHARE * figures["hbm_bytes_per_us"]) + gate.MEMORY_START_US, rel=1e-3)


@pytest.mark.parametrize("sizes", [[(64, 64)] * 30, [(768, 768), (768,), (3072, 768), (3072,)] * 4], ids=["small", "layers"])
def test_a_step_of_many_tensors_is_taken_by_its_estimate(sizes, capturable_anywhere, monkeypatch):
    """Inductor's kernels name few tensors each, and a plan's kernels all."""
    parameters = [torch.zeros(size, device=DEVICE, requires_grad=True) for size in sizes]
    for p in parameters:
        p.grad = torch.zeros_like(p)
    compiled, reports = passed(adamw(parameters).step, {"verify": False})
    compiled()
    last = reports[-1]
    assert len(last.taken) == 1 and last.taken[0].made.over, last.left


_GELU = N.functional.gelu
_rows_of_8 = lambda x: torch.arange(8, device=x.device)[:, None].expand(8, 64)
_COMPARED = {
    "two": lambda x: _GELU(x).amax(-1).sum() + N.functional.silu(x).amin(0).sum(),
    "transposed": lambda x: _GELU(x).t().amax(-1).sum(),
    "sliced": lambda x: _GELU(x)[:, 8:32].amax(-1).sum(),
    "chunk": lambda x: _GELU(x).chunk(2, -1)[0].amax(-1).sum(),
    "written twice": lambda x: (_GELU(x) - _GELU(x).amax(-1, keepdim=True)).sum(),
    "norm": lambda x: torch.linalg.vector_norm(_GELU(x), float("inf"), dim=-1).sum(),
    "all": lambda x: _GELU(x).max(),
    "median": lambda x: _GELU(x).median(),
    "by ids": lambda x: _GELU(x).new_zeros(4, 64).scatter_reduce(0, _rows_of_8(x) % 4, _GELU(x), "amax", include_self=False).sum(),
}


@pytest.mark.parametrize("name, dynamic", sampled(itertools.product(_COMPARED, [False, True]), 6))
def test_what_the_backward_pass_compares_with_a_maximum_is_kept(name, dynamic):
    """Computed again by other kernels, no element may equal it, and the gradient is divided by 0."""
    seen, step = [], _COMPARED[name]
    watch = lambda graph: seen.append([str(node.target) for node in graph.nodes].count("aten.eq.Tensor"))
    compiled, _ = passed(step, dynamic=dynamic)
    x = torch.randn(8, 64, device=DEVICE, requires_grad=True)
    with torch._inductor.config.patch(post_grad_custom_pre_pass=watch):
        gradient = torch.autograd.grad(compiled(x), x)[0]
    assert torch.allclose(gradient, torch.autograd.grad(step(x), x)[0], atol=1e-5)
    assert seen[0] > 0 and seen[1] == 0  # forward, backward


def test_what_checkpointing_computes_again_is_not_kept():
    block = lambda y: (lambda z: (z / z.abs().amax(-1, keepdim=True)).sin().sum())(_GELU(y))
    step = lambda x: torch.utils.checkpoint.checkpoint(block, x.sin(), use_reentrant=False)
    sizes = []
    watch = lambda graph: sizes.append([node.meta["val"].shape for node in graph.nodes if node.op == "placeholder"])
    compiled, _ = passed(step)
    x = torch.randn(8, 64, device=DEVICE, requires_grad=True)
    with torch._inductor.config.patch(post_grad_custom_pre_pass=watch):
        gradient = torch.autograd.grad(compiled(x), x)[0]
    assert torch.allclose(gradient, torch.autograd.grad(step(x), x)[0], atol=1e-5)
    assert sizes[1].count((8, 64)) == 1  # x
