"""Models' own patterns through the pass of torch.compile's backend: adapters, masks, frozen weights, gradients of whole architectures."""

import base64
import itertools
import json
import types
import zlib

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

import sinter
import sinter.torch
from sinter.torch.graph import join_frozen
from sinter.torch.runtime import run_chain, verify

from everyday import sampled
from graphs import DEVICE, passed
from test_torch_backend import Gated, half, left, run

N = torch.nn


# ---------------------------------------------------------------- Products of several weights


@torch.library.custom_op("sinter_tests::attend", mutates_args=())
def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """Attention that stays torch's on any machine, as no pass sees what it is."""
    return N.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True).contiguous()


attend.register_fake(lambda q, k, v: q.new_empty(q.shape))


class Projected(N.Module):
    """Queries, keys and values of one value; `columns`: of each; `width`: of a head."""

    def __init__(self, columns=(64, 32, 32), k=64, bias=True, gives_keys=False, width=4, attend=attend):
        super().__init__()
        self.norm, self.out, self.gives_keys, self.width, self.attend = N.LayerNorm(k), N.Linear(k, k), gives_keys, width, attend
        self.linears = N.ModuleList(N.Linear(k, n, bias=bias) for n in columns)

    def forward(self, x):
        b, s, k = x.shape
        y = self.norm(x)
        q, key, value = (linear(y).view(b, s, -1, self.width).transpose(1, 2) for linear in self.linears)
        attended = self.attend(q, key, value)
        y = x + self.out(attended.transpose(1, 2).reshape(b, s, k))
        return (y, key) if self.gives_keys else y


#: Inductor's, without what it makes of products on a CPU that has instructions for them.
FREEZING = {"freezing": True, "cpp.weight_prepack": False}
#: Whether Inductor joins two or three products of equal extents itself before, as on a GPU it always does.
JOINED = [True] if DEVICE == "cuda" else [False, True]
JOINED_BEFORE = pytest.mark.parametrize("joined_before", JOINED)
PROJECTED = itertools.product([(64, 32, 32), (64, 64, 64)], [True, False], JOINED)


def frozen(model, *inputs, joined_before=False, **more):
    """Runs like ``run``, with Inductor's freezing. Returns the chains."""
    with torch._inductor.config.patch({**FREEZING, "cpp.enable_concat_linear": joined_before}):
        _, reports = run(model, *inputs, **more)
    return [part.made.chain for report in reports for part in report.taken]


@pytest.mark.parametrize("columns, bias, joined_before", sampled(PROJECTED, 3))
def test_products_of_frozen_weights_are_one(columns, bias, joined_before):
    x = torch.randn(2, 6, 64).bfloat16()
    first, _ = frozen(half(Projected(columns, bias=bias)), x, joined_before=joined_before)
    assert str(first).count("matmul") == 1 and [o.shape for o in first.outputs()] == [(12, sum(columns))]
    weights = [info for info in first.inputs() if info.shape == (sum(columns), 64)]
    assert len(weights) == 1 and weights[0].constant, "it lies as a linear layer's does, and nothing writes it"


def test_attention_reads_a_product_of_frozen_weights():
    model = Projected(width=16, attend=lambda q, k, v: N.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    (chain,) = frozen(half(model), torch.randn(2, 6, 64).bfloat16())
    assert str(chain).count("matmul") == 4, "queries, keys and values; attention's two; the last"


@JOINED_BEFORE
def test_gate_and_up_of_frozen_weights_stay_a_pair_in_a_kernel(context, need_compiler, joined_before):
    (chain,) = frozen(half(Gated()), torch.randn(2, 5, 64).bfloat16(), joined_before=joined_before)
    assert str(chain).count("matmul") == 2, "gate and up are joined"
    assert context.prepare(chain).kernel_count == 2, "a norm; gate, up and down"


def test_weights_that_may_change_are_apart():
    _, reports = run(half(Projected()), torch.randn(2, 6, 64).bfloat16())
    assert str(reports[0].taken[0].made.chain).count("matmul") == 3


class Oddly(N.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linears = N.LayerNorm(64), N.ModuleList(N.Linear(64, n) for n in (64, 36, 32))

    def forward(self, x):
        return tuple(linear(self.norm(x)).softmax(-1) for linear in self.linears)


class Chunked(N.Module):
    """Gives out half of one product as a view; the other two are joined."""

    def __init__(self):
        super().__init__()
        self.norm, self.linears = N.LayerNorm(64), N.ModuleList(N.Linear(64, n) for n in (64, 48, 32))

    def forward(self, x):
        first, *rest = (linear(self.norm(x)) for linear in self.linears)
        a, b = first.chunk(2, -1)
        return (a, *(part.softmax(-1) for part in (b, *rest)))


@pytest.mark.parametrize("make", [lambda: Projected(gives_keys=True), Oddly, Chunked], ids=["result", "odd", "chunk"])
def test_products_that_the_graph_gives_out_or_that_lie_oddly_are_apart(make):
    model, x = half(make())[0].to(DEVICE), torch.randn(2, 6, 64).bfloat16().to(DEVICE)
    with torch.no_grad(), torch._inductor.config.patch(FREEZING):
        compiled, reports = passed(model)
        found, expected = compiled(x), model(x)
    assert all(verify.difference(a, b, 2e-2)[1] and a.stride() == b.stride() for a, b in zip(found, expected))
    assert all(c.within for c in verify.comparisons)
    assert str(reports[0].taken[0].made.chain).count("matmul") == 2, "the other two are joined"


class Many(N.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm, self.linears = N.LayerNorm(64), N.ModuleList(N.Linear(64, n) for n in columns)

    def forward(self, x):
        return torch.cat([linear(self.norm(x)).softmax(-1) for linear in self.linears], -1)


def test_more_than_four_products_stay_apart():
    """If one GEMM read a value for all layers of a decoder, its results would live until the last layer."""
    x = torch.randn(6, 64).bfloat16()
    for columns, products in (((8, 16, 24, 32), 1), ((8, 16, 24, 32, 40), 5)):
        chains = frozen(half(Many(columns)), x)
        assert sum(str(chain).count("matmul") for chain in chains) == products


def test_frozen_weights_are_joined_on_another_way_than_inductors_own():
    """Inductor may have joined weights of equal extents: partitions follow the resulting layout."""

    class Joined(N.Module):
        def __init__(self):
            super().__init__()
            self.linear = N.Linear(64, 96)

        def forward(self, x):
            return N.functional.scaled_dot_product_attention(*(part.view(1, 12, 2, 16) for part in (x + 1).matmul(self.linear.weight.t()).chunk(3, 1)))

    model, x = half(Joined()), torch.randn(12, 64).bfloat16()
    frozen(model, x)


def test_a_frozen_graph_of_inductors_cache_takes_the_weights_of_its_own_module(tmp_path, monkeypatch):
    from torch._dynamo.utils import counters

    class Apart(N.Module):
        def __init__(self):
            super().__init__()
            self.linears = N.ModuleList(N.Linear(64, n) for n in (32, 16, 16))

        def forward(self, x):
            return torch.cat([linear(x).relu() for linear in self.linears], -1)

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    counters.clear()
    joined, own = [], join_frozen.join_products
    monkeypatch.setattr(join_frozen, "join_products", lambda graph, given: own(graph, given) or joined.append(str(graph).count("addmm.default")))
    for _ in range(2):
        model, x = Apart().eval().bfloat16(), torch.randn(8, 64).bfloat16()
        torch._dynamo.reset()
        compiled = torch.compile(model, backend=sinter.torch.sinter_backend, options={"target": "h200"})
        with torch.no_grad(), torch._inductor.config.patch(FREEZING):
            assert verify.difference(compiled(x), model(x), 2e-2)[1]
    assert joined == [1, 1] and counters["inductor"]["fxgraph_cache_hit"] == 1


class Attending(N.Module):
    def __init__(self, k=64, columns=(64, 32, 32), bias=True):
        super().__init__()
        self.norm, self.out = N.LayerNorm(k), N.Linear(k, k)
        self.q_proj, self.k_proj, self.v_proj = (N.Linear(k, n, bias=bias) for n in columns)

    def forward(self, x):
        b, s, k = x.shape
        y = self.norm(x)
        q, key, value = (linear(y).view(b, s, -1, 4).transpose(1, 2) for linear in (self.q_proj, self.k_proj, self.v_proj))
        attended = attend(q, key, value)
        return x + self.out(attended.transpose(1, 2).reshape(b, s, k))


def beside(**more):
    model = half(Attending(**more))[0].to(DEVICE)
    weights = {name: (p, p.clone()) for name, p in model.named_parameters()}
    assert sinter.torch.lay_beside(model) == 1
    assert all(weights[name][0] is p and torch.equal(weights[name][1], p) for name, p in model.named_parameters())
    return model


@pytest.mark.parametrize("bias", [True, False])
def test_products_of_weights_behind_each_other_are_one(bias):
    _, reports = run(beside(bias=bias), torch.randn(2, 6, 64).bfloat16())
    chain = reports[0].taken[0].made.chain
    assert str(chain).count("matmul") == 1 and [o.shape for o in chain.outputs()] == [(12, 128)]
    assert [info.constant for info in chain.inputs()].count(False) == 1, "x alone is no weight"
    assert sinter.torch.lay_beside(half(Attending())[0]) == 1


def test_weights_behind_each_other_may_change(monkeypatch):
    from sinter.torch.backend import planner

    monkeypatch.setattr(planner, "worth_a_try", lambda *_: True)
    monkeypatch.setattr(planner, "inductor_us", lambda *_: 1e6)
    model, x = beside(), torch.randn(2, 6, 64).bfloat16().to(DEVICE)
    with torch.no_grad():
        compiled, reports = passed(model, {"verify": False})
        right = lambda: verify.difference(compiled(x), model(x), 2e-2)[1]
        assert right() and len(reports[0].taken) == 2
        model.k_proj.weight.mul_(-2)
        assert right(), "written in place"
        model.v_proj.weight.data = torch.randn_like(model.v_proj.weight)
        assert right(), "moved away: copied together in each call"
        model.q_proj.weight = N.Parameter(torch.randn_like(model.q_proj.weight))
        assert right(), "another parameter"


def test_products_that_no_part_takes_are_apart_again(monkeypatch):
    from sinter.torch.backend import graph_pass

    graphs, own = [], graph_pass.SinterPass._take
    monkeypatch.setattr(graph_pass.SinterPass, "_take", lambda self, graph: (own(self, graph), graphs.append(str(graph)))[0])
    model, x = beside(), torch.randn(2, 6, 64).bfloat16().to(DEVICE)
    with torch.no_grad():
        compiled, reports = passed(model, {"verify": False})
        assert verify.difference(compiled(x), model(x), 2e-2)[1]
    assert not reports[0].taken, "too small"
    assert "aten.cat" not in graphs[0] and graphs[0].count("aten.addmm") == 4


def test_products_are_apart_again_behind_parts_that_became_operators():
    """Here the node that made x was replaced, and views of the weights were erased with a part that also read them."""
    from sinter.torch.graph.join_adjacent import _join, part_again
    from sinter.torch.graph.nodes import add_call

    graph, aten = torch.fx.Graph(), torch.ops.aten
    given = [graph.placeholder(name) for name in ("x", "first", "second")]
    for node, rows in zip(given, (4, 16, 8)):
        node.meta["val"] = torch.empty(rows, 8, device="meta")
    x = add_call(graph, aten.relu.default, given[0])
    products = [add_call(graph, aten.mm.default, x, add_call(graph, aten.permute.default, weight, [1, 0])) for weight in given[1:]]
    graph.output(tuple(add_call(graph, aten.neg.default, product) for product in products))
    views = [product.args[1] for product in products]
    joined = _join(graph, products)
    with graph.inserting_before(x):
        own = add_call(graph, aten.sigmoid.default, given[0])
    x.replace_all_uses_with(own)
    for node in (x, *views):
        graph.erase_node(node)
    part_again(graph, joined)
    graph.lint()
    x, first, second = torch.randn(4, 8), torch.randn(16, 8), torch.randn(8, 8)
    for found, weight in zip(torch.fx.GraphModule({}, graph)(x, first, second), (first, second)):
        assert torch.allclose(found, -(x.sigmoid() @ weight.t()), atol=1e-5)
    assert "cat" not in str(graph)


def test_torch_computes_with_joined_weights_where_an_input_is_refused(monkeypatch):
    b = sinter.Builder()
    x, weight = b.input("bf16", [8, 64]), b.input("bf16", [32, 64])
    b.output((x @ weight.T).cast("bf16"))
    chain = b.finish()

    def refuse(*_):
        raise sinter.Error(sinter.Status.INVALID_ARGUMENT, "no such M")

    monkeypatch.setattr(run_chain.Carried, "declared", refuse)
    x, first, second = (torch.randn(rows, 64).bfloat16() for rows in (8, 16, 16))
    found = run_chain._run_cuda([x, first, second], 0, run_chain.pack(chain, (), (1, 2)), "")
    assert torch.equal(found[0], x @ torch.cat([first, second]).t())


def test_what_was_packed_before_inputs_could_be_several_tensors_is_read():
    chain = sinter.Chain.from_text("softmax rows=M cols=64 dtype=bf16")
    text = json.dumps({"chain": json.loads(chain.to_json()), "limits_us": [2.0]})
    assert run_chain.carried(base64.b85encode(zlib.compress(text.encode())).decode()).chain.digest == chain.digest


def test_weights_that_are_shared_stay_where_they_are():
    tied, other, own = (half(Attending(columns=(64, 64, 64)))[0] for _ in range(3))
    tied.k_proj.weight = tied.q_proj.weight
    other.k_proj.double()
    whole = torch.randn(128, 64).bfloat16()
    own.k_proj.weight.data = whole[:64]
    assert [sinter.torch.lay_beside(model) for model in (tied, other, own)] == [0, 0, 0]
    for share in (lambda model, weight: setattr(model.out, "weight", N.Parameter(weight)), lambda model, weight: model.register_buffer("same", weight)):
        model = half(Attending(columns=(64, 64, 64)))[0]
        share(model, model.q_proj.weight.detach())
        assert sinter.torch.lay_beside(model) == 0, "another parameter or buffer has the whole of one's memory"


def test_what_launches_save_is_counted(monkeypatch):
    monkeypatch.setattr(run_chain, "run_plan", lambda *_: [])
    plan = types.SimpleNamespace(predicted_us=1.0, kernel_count=2, workspace_size=0)
    before = sinter.torch.graph_counts()
    for limit_us in (5.0, 1.0):
        run_chain._launch(types.SimpleNamespace(chain=None, over=()), plan, [], 0, limit_us, False, 0)
    after = sinter.torch.graph_counts()
    assert after.launches == before.launches + 2
    assert after.saved_us - before.saved_us == pytest.approx(5.0 - run_chain.expected_us(plan)), "a plan that is slower saves nothing"


# ---------------------------------------------------------------- Adapters, masks, ids, groups


def test_small_products_of_an_adapter():
    class Adapted(N.Module):
        def __init__(self, k=64, rank=8):
            super().__init__()
            self.norm, self.linear, self.down, self.up = N.RMSNorm(k), N.Linear(k, k), N.Linear(k, rank, bias=False), N.Linear(rank, k, bias=False)

        def forward(self, x):
            y = self.norm(x)
            return x + self.linear(y) + self.up(self.down(y)) * 0.5

    _, reports = run(half(Adapted()), torch.randn(2, 8, 64).bfloat16())
    assert "aten.mm.default" not in left(reports), left(reports)
    assert [str(part.made.chain).count("matmul") for part in reports[0].taken] == [3]


def test_what_masks_of_64_bits_compute_is_left_and_cuts_no_part():
    class Masked(N.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = N.Linear(64, 64), N.Linear(64, 64)

        def forward(self, x, mask):
            y = self.first(x)
            return self.second(y.masked_fill(mask[:, None] == 0, 0).relu() + (1 - mask[:, None].to(x.dtype)))

    mask = torch.randint(0, 2, (8,))
    _, reports = run(half(Masked())[0], torch.randn(8, 64).bfloat16(), mask)
    (part,) = reports[0].taken
    assert str(part.made.chain).count("matmul") == 2
    assert set(left(reports).values()) == {"dtype int64"}


class Indexed(N.Module):
    def __init__(self, f, rows=16):
        super().__init__()
        self.table, self.norm, self.f = N.Parameter(torch.randn(rows, 64)), N.LayerNorm(64), f

    def forward(self, ids):
        return self.norm(self.f(self.table, ids)).relu()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
@pytest.mark.parametrize("ids", [[-1, 0, -16, 15], [[3, -2], [1, -1]]])
def test_negative_ids_count_from_the_end(ids, dtype):
    _, reports = run(half(Indexed(lambda table, ids: table[ids])), torch.tensor(ids, dtype=dtype))
    (part,) = reports[0].taken
    assert "gather" in str(part.made.chain)
    assert {"aten.lt.Scalar", "aten.add.Tensor", "aten.where.self"} >= set(left(reports)), "the extent is added by Inductor"


def test_index_select_takes_rows():
    """Eager PyTorch refuses negative ids there, and Inductor, which knows one operator for both, counts them from the end."""
    _, reports = run(half(Indexed(lambda table, ids: table.index_select(0, ids))), torch.tensor([1, 0, 15]))
    assert "gather" in str(reports[0].taken[0].made.chain)


def doubled(ids, times):
    """Zeros made only from `ids`, in a chain of sums each of which reads the one before twice."""
    ids = ids * 0
    for _ in range(times):
        ids = ids + ids
    return ids


@pytest.mark.parametrize(
    "f, never_negative",
    [
        (lambda table, ids: table[torch.arange(8, device=ids.device) + 2], True),
        (lambda table, ids: table[ids.float().topk(2)[1] % 4], True),
        (lambda table, ids: table[(ids.sort()[1] // 2).view(2, 2)], True),
        (lambda table, ids: table[ids.float().argmax(0, keepdim=True)], True),
        (lambda table, ids: table[doubled(ids % 2, 40)], True),
        (lambda table, ids: table[ids - 1], False),
        (lambda table, ids: table[torch.arange(8, device=ids.device) * -1], False),
        (lambda table, ids: table[ids.float().to(torch.int64)], False),
    ],
    ids=["arange", "topk", "sort", "argmax", "doubled", "difference", "backward", "cast"],
)
def test_ids_that_cannot_be_negative_are_taken_as_they_are(f, never_negative):
    _, reports = run(half(Indexed(f)), torch.tensor([2, 0, 3, 1]))
    assert "gather" in str(reports[0].taken[0].made.chain)
    assert ("aten.where.self" in left(reports)) == (not never_negative)


@pytest.mark.parametrize("f", [lambda table, ids: table[ids.view(-1)], lambda table, ids: table[(ids * ids.shape[0] + 1).view(-1) % 16]])
def test_ids_of_a_dynamic_graph_are_taken_as_rows(f):
    _, reports = run(half(Indexed(f)), torch.randint(0, 16, (3, 5)), dynamic=True)
    assert "gather" in str(reports[0].taken[0].made.chain)


def test_ids_that_are_made_for_a_part_count_against_it(monkeypatch):
    from sinter.torch.backend import planner
    from sinter.torch.gate import gate

    found = []
    own = gate.inductor_us
    monkeypatch.setattr(planner, "inductor_us", lambda *given: found.append(own(*given)) or found[-1])
    for f in (lambda table, ids: table[ids], lambda table, ids: N.functional.embedding(ids, table)):
        run(half(Indexed(f)), torch.tensor([2, 0, 3, 1]))
    assert found[1] - found[0] == pytest.approx(gate.MEMORY_START_US)


def test_rows_by_several_ids_or_of_other_axes_are_left_by_name():
    for f in (lambda t, ids: t[ids, ids], lambda t, ids: t[:, ids], lambda t, ids: t.view(4, 4, 64)[ids]):
        model = half(N.Linear(64, 64), N.ReLU(), N.LayerNorm(64), Indexed(lambda t, ids: t))[:3]

        class Both(N.Module):
            def __init__(self):
                super().__init__()
                self.model, self.table = model, N.Parameter(torch.randn(16, 64).bfloat16())

            def forward(self, x, ids):
                return self.model(x) + f(self.table, ids).sum().to(x.dtype)

        _, reports = run(Both(), torch.randn(8, 64).bfloat16(), torch.tensor([2, 0, 3, 1]))
        assert left(reports)["aten.index.Tensor"] == "rows by indices"


def test_convolutions_in_groups_that_no_kernel_takes_are_inductors_and_named():
    point = lambda: (N.Conv2d(24, 24, 1), N.ReLU())
    model = half(*point(), N.Conv2d(24, 24, 3, padding=1, groups=6), N.Conv2d(24, 24, 1), N.ReLU(), N.Conv2d(24, 6, 3, groups=2), N.Conv2d(6, 24, 1))
    _, reports = run(model, torch.randn(2, 24, 8, 8).bfloat16())
    assert ("aten.convolution.default", "a convolution in groups of 12 channels") in reports[0].left, reports[0].left
    assert any("groups" in part.made.chain.to_json() for part in reports[0].taken), "those of 4 channels"


# ---------------------------------------------------------------- Gradients of whole architectures


def bert():
    from transformers import BertConfig, BertModel

    sizes = dict(hidden_size=64, intermediate_size=128, num_attention_heads=4, vocab_size=512, max_position_embeddings=32)
    return BertModel(BertConfig(num_hidden_layers=2, **sizes)), (torch.randint(0, 500, (2, 16)),)


def gpt2():
    from transformers import GPT2Config, GPT2Model

    return GPT2Model(GPT2Config(n_layer=2, n_embd=64, n_head=4, vocab_size=512, n_positions=32, use_cache=False)), (torch.randint(0, 500, (2, 16)),)


def vit():
    from transformers import ViTConfig, ViTModel

    sizes = dict(hidden_size=64, intermediate_size=128, num_attention_heads=4, image_size=64, patch_size=16)
    return ViTModel(ViTConfig(num_hidden_layers=2, **sizes)), (torch.randn(2, 3, 64, 64).bfloat16(),)


def check_gradients(model, inputs):
    """Checks gradients of partitions against torch's operators in the same graph, and of the model against eager's and float32's.
    Returns the reports."""
    model, inputs = model.bfloat16().eval().to(DEVICE), [x.to(DEVICE) for x in inputs]  # without dropout, whose numbers each run draws
    parameters = [p for p in model.parameters() if p.requires_grad]
    weights = torch.randn(model(*inputs)[0].shape).to(DEVICE)

    def gradients(f, *inputs):
        found = torch.autograd.grad((f(*inputs)[0].float() * weights).sum(), parameters, allow_unused=True)
        return [torch.zeros(1, device=DEVICE) if g is None else g.float() for g in found]

    compiled, reports = passed(model)
    eager, found = gradients(model, *inputs), gradients(compiled, *inputs)
    assert len(reports) == 2 and all(report.taken for report in reports), "forward and backward"
    assert verify.comparisons and all(c.within for c in verify.comparisons), [c for c in verify.comparisons if not c.within]
    assert any("aten.mm.default" in str(node.target) for part in reports[1].taken for node in part.nodes), "gradients of weights"
    model.float()
    exact = gradients(model, *(x.float() if x.is_floating_point() else x for x in inputs))
    for a, b, e in zip(found, eager, exact):
        assert (a - e).norm() <= 1.5 * (b - e).norm() + 2e-2 * e.norm()
    return reports


@pytest.mark.parametrize("make", [bert, gpt2, vit])
def test_backward_graphs_pass_the_same_hook_and_are_right(make):
    pytest.importorskip("transformers", reason="no transformers here: no whole model is trained")
    torch.manual_seed(1)
    check_gradients(*make())
