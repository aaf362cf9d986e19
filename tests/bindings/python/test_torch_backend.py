"""torch.compile(model, backend="sinter") without a GPU: partitions by the reference, compared with torch's own operators."""

import contextlib
import os
import pathlib
import subprocess
import sys
import threading
import time
import types
import weakref

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

import sinter
import sinter.torch
from sinter.torch.runtime import run_chain, verify, warn
from sinter.torch.backend.graph_pass import SinterPass
from sinter.torch.backend import split_options

from graphs import DEVICE, passed

N = torch.nn
ROOT = pathlib.Path(__file__).parents[3]


def half(*modules):
    torch.manual_seed(1)
    return N.Sequential(*modules).eval().bfloat16()


class Gated(N.Module):
    def __init__(self, k=64, n=128):
        super().__init__()
        self.norm, self.gate, self.up, self.down = N.RMSNorm(k), *(N.Linear(k, n, bias=False) for _ in range(2)), N.Linear(n, k, bias=False)

    def forward(self, x):
        y = self.norm(x)
        return x + self.down(N.functional.silu(self.gate(y)) * self.up(y))


class Scaled(N.Module):
    """A product of a value that no cast rounds."""

    def __init__(self, k=64):
        super().__init__()
        self.scale, self.out = N.Parameter(torch.ones(k)), N.Linear(k, k)

    def forward(self, x):
        return self.out((x.float() * 0.5).to(x.dtype) * self.scale)


class Heads(N.Module):
    """Attention by hand, with rotary positions: views, transposes, a batched product that is left."""

    def __init__(self, k=64, heads=4):
        super().__init__()
        self.heads, self.qkv, self.out = heads, N.Linear(k, 3 * k), N.Linear(k, k)

    def forward(self, x):
        b, s, k = x.shape
        q, v, t = self.qkv(x).view(b, s, 3, self.heads, k // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        half = q.shape[-1] // 2
        q = q * 0.5 + torch.cat([-q[..., half:], q[..., :half]], -1) * 0.25
        y = N.functional.scaled_dot_product_attention(q, v, t)
        return x + self.out(y.transpose(1, 2).reshape(b, s, k))


class Patches(N.Module):
    """Tokens of an image's patches, which leave a margin, as vision transformers have them."""

    def __init__(self):
        super().__init__()
        self.patches, self.norm, self.out = N.Conv2d(3, 32, 16, stride=16), N.LayerNorm(32), N.Linear(32, 64)

    def forward(self, x):
        return self.out(self.norm(self.patches(x).flatten(2).transpose(1, 2)))


class Lines(N.Module):
    """Convolutions along a line, then tokens, as speech encoders have them."""

    def __init__(self):
        super().__init__()
        self.first, self.second = N.Conv1d(8, 16, 3, padding=1), N.Conv1d(16, 32, 3, stride=2, padding=2, dilation=2, bias=False)
        self.norm = N.LayerNorm(32)

    def forward(self, x):
        gelu = N.functional.gelu
        return self.norm(gelu(self.second(gelu(self.first(x)))).permute(0, 2, 1))


def run(model, *inputs, options=None, dynamic=None):
    """The compiled model's result, and reports; asserts that every part is right."""
    model, inputs = model.to(DEVICE), [x.to(DEVICE) for x in inputs]
    with torch.no_grad():
        compiled, reports = passed(model, options, dynamic)
        result = compiled(*inputs)
        expected = model(*inputs)
    assert verify.comparisons, f"no part was taken: {left(reports)}"
    assert all(c.within for c in verify.comparisons), [c for c in verify.comparisons if not c.within]
    assert result.stride() == expected.stride()
    bound = {torch.bfloat16: 2e-2, torch.float16: 4e-3, torch.float32: 1e-4}[expected.dtype]
    assert verify.difference(result, expected, bound)[1]
    return result, reports


def left(reports):
    return {name: why for report in reports for name, why in report.left}


@pytest.mark.parametrize(
    "model, shape",
    [
        (half(N.Linear(64, 128), N.GELU(), N.Linear(128, 64), N.LayerNorm(64)), (8, 64)),
        (half(N.Linear(64, 128), N.GELU("tanh"), N.Linear(128, 64)), (2, 4, 64)),
        (half(Gated()), (2, 5, 64)),
        (half(Heads()), (2, 6, 64)),
        (half(N.Conv2d(8, 16, 3, padding=1, bias=False), N.BatchNorm2d(16), N.ReLU(), N.Conv2d(16, 8, 1)), (2, 8, 6, 6)),
        (half(Lines()), (2, 8, 12)),
        (half(Patches()), (2, 3, 40, 48)),
        (half(Patches()).to(memory_format=torch.channels_last), (2, 3, 40, 48)),
        (half(N.Softmax(-1), N.Hardswish(), N.Softplus()), (4, 64)),
    ],
    ids=["mlp", "gelu_tanh", "gated", "heads", "convolutions", "lines", "patches", "patches_channels_last", "rows"],
)
def test_parts_are_right(model, shape):
    _, reports = run(model, torch.randn(shape).bfloat16())
    assert reports[0].taken


def test_images_of_channels_last_keep_their_strides():
    model = half(N.Conv2d(8, 16, 3, padding=1), N.ReLU(), N.Conv2d(16, 16, 3, padding=1)).to(memory_format=torch.channels_last)
    x = torch.randn(2, 8, 6, 6).bfloat16().to(memory_format=torch.channels_last)
    _, reports = run(model, x)
    (part,) = [part.made.chain for report in reports for part in report.taken]
    assert "transpose" not in str(part), "a channels-last image is NHWC already"


def normed(*modules):
    """The modules, with batch norms whose parameters and statistics are not the initial ones."""
    model = half(*modules)
    for norm in (module for module in model.modules() if isinstance(module, N.BatchNorm2d)):
        for vector in (*norm.parameters(), norm.running_mean, norm.running_var):
            vector.data.uniform_(0.5, 2)
    return model


def test_batch_norms_are_a_scale_and_a_shift_that_follow_the_weights():
    model = normed(N.Conv2d(8, 16, 3), N.BatchNorm2d(16), N.ReLU(), N.Conv2d(16, 8, 1, bias=False), N.BatchNorm2d(8, affine=False)).to(DEVICE)
    x = torch.randn(2, 8, 8, 6).bfloat16().to(DEVICE)
    with torch.no_grad():
        compiled, reports = passed(model)
        compiled(x)
        model[1].running_var.add_(1)
        model[1].weight.data.mul_(-2)
        model[0].bias.data.add_(3)
        assert verify.difference(compiled(x), model(x), 2e-2)[1]
    (part,) = reports[0].taken
    assert all(c.within for c in verify.comparisons)
    assert "sqrt" not in str(part.made.chain) and [i.shape for i in part.made.chain.inputs()].count((16, 1, 1)) == 2


def test_what_a_part_reads_beside_a_batch_norm_is_not_copied(monkeypatch):
    from sinter.torch.backend import graph_pass as graph_pass_module

    class Model(N.Module):
        def __init__(self):
            super().__init__()
            self.convolution, self.norm, self.table = N.Conv2d(8, 16, 3, bias=False), N.BatchNorm2d(16), N.Parameter(torch.rand(16, 64))

        def forward(self, x):
            return self.norm(self.convolution(x) * self.table[:, :1, None]).relu().mean((2, 3)) @ self.table

    def made_together(graph, vectors):
        own(graph, vectors)
        copied.extend(node.meta["val"].shape for call in graph.find_nodes(op="call_function", target=many) for node in call.args[0])

    own, copied, many = graph_pass_module.made_together, [], torch.ops.aten._foreach_mul.Scalar
    monkeypatch.setattr(graph_pass_module, "made_together", made_together)
    run(half(Model()), torch.randn(2, 8, 8, 6).bfloat16())
    assert copied and set(copied) == {(16, 1, 1)}


def test_a_scale_that_a_weight_is_already_stays_as_it_is():
    class Model(N.Module):
        def __init__(self):
            super().__init__()
            self.convolution, self.scale = N.Conv2d(8, 8, 1, bias=False), N.Parameter(torch.ones(8, 1, 1))

        def forward(self, x):
            return (self.convolution(x) * self.scale).relu()

    _, reports = run(half(Model()), torch.randn(2, 8, 4, 4).bfloat16())
    assert not any(why.startswith("made of weights") for why in left(reports).values())


def test_images_lie_channels_last_between_parts_as_inductor_lays_them():
    between = N.Conv2d(16, 18, 3, stride=2, groups=2, bias=False)  # which is left
    model = normed(N.Conv2d(8, 16, 3), N.BatchNorm2d(16), N.ReLU(), between, N.Conv2d(18, 8, 3), N.BatchNorm2d(8), N.ReLU())
    _, reports = run(model, torch.randn(2, 8, 14, 14).bfloat16())
    first, second = [part.made.chain for part in reports[0].taken]
    assert second.inputs()[0].shape == (2, 5, 5, 18) and first.outputs()[0].shape == (2, 12, 12, 16)


@pytest.mark.parametrize("fails_at", [0, 1])
def test_a_graph_whose_images_cannot_be_laid_otherwise_stays_as_it_was(monkeypatch, fails_at):
    from sinter.torch.backend import graph_pass as graph_pass_module
    from sinter.torch.graph import channels_last

    class Model(N.Module):
        def __init__(self):
            super().__init__()
            self.first, self.norm, self.second = N.Conv2d(8, 16, 3), N.BatchNorm2d(16), N.Conv2d(16, 8, 3)

        def forward(self, x):
            y = self.norm(self.first(x)).relu()
            return y, self.second(y)

    def told(graph):
        return str(graph), [channels_last._strides(node.meta.get("val")) for node in graph.nodes]

    def lay(graph):
        before = told(graph)
        own_lay(graph)
        assert told(graph) == before and len(calls) == fails_at + 1
        laid.append(graph)

    def as_it_was(*arguments):
        calls.append(arguments)
        return own(*arguments) if len(calls) <= fails_at else 1 / 0

    own, own_lay, calls, laid = channels_last._as_it_was, channels_last.lay_channels_last, [], []
    monkeypatch.setattr(channels_last, "_as_it_was", as_it_was)
    monkeypatch.setattr(graph_pass_module, "lay_channels_last", lay)
    model, x = half(Model()).to(DEVICE), torch.randn(2, 8, 8, 8).bfloat16().to(DEVICE)
    with torch.no_grad():
        found, expected = passed(model)[0](x), model(x)
    assert laid and all(verify.difference(a, b, 2e-2)[1] and a.stride() == b.stride() for a, b in zip(found, expected))


@pytest.mark.parametrize("dynamic", [None, True])
def test_rows_of_tables_are_gathered(dynamic):
    class Model(N.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places, self.norm, self.out = N.Embedding(50, 64), N.Embedding(16, 64), N.LayerNorm(64), N.Linear(64, 64)

        def forward(self, ids, at):
            return self.out(self.norm(self.words(ids) + self.places(at)))

    ids = torch.randint(0, 50, (3, 7))
    torch.manual_seed(1)
    _, reports = run(Model().eval().bfloat16(), ids, torch.arange(7).expand(3, 7).contiguous(), dynamic=dynamic)
    (part,) = reports[0].taken
    assert str(part.made.chain).count("gather") == 2


def test_a_strided_view_of_all_elements_is_a_view():
    class Model(N.Module):
        def forward(self, x):
            y = x.softmax(-1) * 2
            return (y.as_strided((4, 8, 16), (16, 64, 1)) + 1).relu(), y.as_strided((4, 16), (64, 2)) * 3

    with torch.no_grad():
        compiled, reports = passed(Model())
        found, expected = compiled(x := torch.randn(8, 64, device=DEVICE)), Model()(x)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(found, expected))
    assert verify.comparisons and all(c.within for c in verify.comparisons)
    assert "aten.as_strided.default" not in left(reports)


@pytest.mark.parametrize("offset, taken", [(None, True), (0, False), (256, True)])
def test_a_strided_view_of_a_part_of_memory_begins_where_it_says(offset, taken):
    class Model(N.Module):
        def forward(self, x):
            y = x.softmax(-1) * 2
            return (y[4:].as_strided((4, 8, 8), (64, 1, 8), offset) + 1).sum(-1)

    with torch.no_grad():
        compiled, reports = passed(Model())
        x = torch.randn(8, 64, device=DEVICE)
        assert torch.allclose(compiled(x), Model()(x), atol=1e-5)
    assert all(c.within for c in verify.comparisons)
    assert ("aten.as_strided.default" in [str(n.target) for p in reports[0].taken for n in p.nodes]) == taken


def test_products_of_codes():
    class Model(N.Module):
        def __init__(self):
            super().__init__()
            self.w, self.scale = N.Buffer((torch.randn(32, 64) * 8).to(torch.float8_e4m3fn)), N.Buffer(torch.tensor(0.7))

        def forward(self, x):
            scale = x.abs().amax().float().clamp(min=1e-10) / 448
            codes = (x.float() / scale).clamp(-448, 448).to(torch.float8_e4m3fn)
            return torch._scaled_mm(codes, self.w.t(), scale, self.scale, out_dtype=torch.bfloat16).relu()

    _, reports = run(Model(), torch.randn(16, 64).bfloat16())
    assert any("scaled_matmul" in str(part.made.chain) for part in reports[0].taken)


def test_equal_layers_have_equal_chains():
    _, reports = run(half(Heads(), Heads(), Heads(), Heads()), torch.randn(2, 6, 64).bfloat16())
    chains = [part.made.chain.digest for part in reports[0].taken]
    assert len(chains) == 4 and len(set(chains)) <= 3, chains


def test_rows_are_m_in_dynamic_graphs():
    _, reports = run(half(Gated(), Heads(), Gated()), torch.randn(3, 7, 64).bfloat16(), dynamic=True)
    assert {part.made.chain.uses_m for report in reports for part in report.taken} == {True}
    with torch.no_grad():
        compiled, more = passed(model := half(Gated()), dynamic=True)
        for batch, rows in ((3, 7), (2, 9), (4, 5)):
            x = torch.randn(batch, rows, 64).bfloat16()
            assert verify.difference(compiled(x), model(x), 2e-2)[1]
    assert len(more) == 1 and all(c.within for c in verify.comparisons)


def test_what_is_no_rows_of_its_part_is_told_which_and_of_what():
    def model(x):
        rows = x.flatten(0, 1).relu() + 1
        return rows, (x[:, 0] * 3).sigmoid() + rows[0]

    x = torch.randn(5, 16, 64).to(DEVICE)
    torch._dynamo.mark_dynamic(x, 0)
    with torch.no_grad():
        compiled, reports = passed(model)
        compiled(x)
    told = left(reports)["aten.relu.default"]
    rows = told.split("extents ")[1].split("x64")[0]
    assert told == f"extents {rows}x64 are no rows of {rows.replace('16*', '')}, which is M in its part" and rows.startswith("16*")


def test_a_marked_batch_and_a_batch_of_one():
    model = half(Gated())
    x = torch.randn(3, 7, 64).bfloat16()
    torch._dynamo.mark_dynamic(x, 0)
    run(model, x)
    run(model, torch.randn(1, 1, 64).bfloat16())


@pytest.mark.parametrize("marked", [False, True])
def test_plans_for_any_rows_have_a_limit_for_each_bucket(marked, monkeypatch):
    from sinter.torch.backend import planner
    from sinter.torch.runtime.buckets import BUCKETS

    packed, own = [], run_chain.pack
    monkeypatch.setattr(planner, "pack", lambda chain, limits, *more: packed.append(limits) or own(chain, limits, *more))

    model, x = half(Gated(256, 512)).to(DEVICE), torch.randn(3, 70, 256).bfloat16().to(DEVICE)
    if marked:
        torch._dynamo.mark_dynamic(x, 1)
    with torch.no_grad():
        compiled, reports = passed(model, {"verify": False}, None if marked else True)
        for rows in (70, 9, 2000):
            y = torch.randn(3, rows, 256).bfloat16().to(DEVICE) if rows != 70 else x
            assert verify.difference(compiled(y), model(y), 2e-2)[1]
    assert len(reports) == 1, "other rows compile nothing in Inductor"
    (part,) = reports[0].taken
    (limits,) = packed
    assert len(limits) == len(BUCKETS) and limits == sorted(limits) and limits[0] < 0.8 * limits[-1]
    assert limits[BUCKETS.index(224)] == pytest.approx(part.limit_us, rel=0.2)


def test_rows_of_squares_have_limits_too():
    import sympy
    from sinter.torch.gate.sizes import hint_at

    a, b = sympy.symbols("a b", positive=True, integer=True)
    for m, found in ((a, 1000), (3 * a * b, 1002), (a**2 * b, 1000), (a**2, 1024), (a * sympy.floor(a**2 / a), 1024), (a * (b + 1), 1000)):
        assert hint_at(m, 1000)(m) == found
    assert hint_at(a, 1000)(a * b) == 1000  # another symbol is not a factor of M
    assert hint_at(a**2, 1000)(a) == 32 and hint_at(a**2, 1)(a) == 1 and hint_at(sympy.floor(a / 2), 1000) is None

    limits, x = [], torch.randn(30, 30, 256).bfloat16().to(DEVICE)
    model = half(Gated(256, 512)).to(DEVICE)
    with pytest.MonkeyPatch.context() as patch:
        from sinter.torch.backend import planner

        own = run_chain.pack
        patch.setattr(planner, "pack", lambda chain, given, *more: limits.append(given) or own(chain, given, *more))
        with torch.no_grad():
            compiled, _ = passed(model, {"verify": False}, True)
            assert verify.difference(compiled(x), model(x), 2e-2)[1]
    assert limits and all(len(given) == len(planner.BUCKETS) and given == sorted(given) for given in limits), limits


def test_dw_and_db_of_a_computed_gradient_are_taken():
    """They follow a linear layer: its weight's gradient is a GEMM of transposed rows."""

    class Model(N.Module):
        def forward(self, x, y, g):
            dy = (g.float() * (y > 0) * 0.5).bfloat16()
            return x.t() @ dy, dy.sum(0)

    torch.manual_seed(1)
    x, y, g = (torch.randn(96, columns).bfloat16().to(DEVICE) for columns in (64, 128, 128))
    with torch.no_grad():
        compiled, reports = passed(Model())
        found, expected = compiled(x, y, g), Model()(x, y, g)
    assert "aten.mm.default" not in left(reports), left(reports)
    taken = [str(node.target) for report in reports for part in report.taken for node in part.nodes]
    assert {"aten.mm.default", "aten.sum.dim_IntList"} <= set(taken)
    assert verify.comparisons and all(c.within for c in verify.comparisons)
    assert all(verify.difference(a, b, 2e-2)[1] and a.stride() == b.stride() for a, b in zip(found, expected))


def test_f32_models_keep_their_products():
    torch.manual_seed(1)
    _, reports = run(N.Sequential(N.Linear(64, 64), N.GELU(), N.LayerNorm(64)).eval(), torch.randn(8, 64))
    why = "a product of f32: cast the model to bfloat16 or float16, or compile it under torch.autocast"
    assert left(reports)["aten.addmm.default"] == why


def test_autocast():
    torch.manual_seed(1)
    model = N.Sequential(N.Linear(64, 128), N.GELU(), N.Linear(128, 64)).eval()
    with torch.autocast("cpu", torch.bfloat16):
        run(model, torch.randn(8, 64))


def test_what_is_left_is_named():
    class Model(N.Module):
        def forward(self, x, ids):
            return x.softmax(-1)[:, ids] + x.exp().cumprod(0)[:, ids]

    with torch.no_grad():
        compiled, reports = passed(Model())
        compiled(torch.randn(8, 64, device=DEVICE), torch.tensor([1, 3], device=DEVICE))
    found = left(reports)
    assert found["aten.index.Tensor"] == "rows by indices" and found["aten.cumprod.default"] == "a scan"


def test_functions_that_jump_keep_their_values():
    class Model(N.Module):
        def forward(self, x):
            return tuple(y * 3 + 1 for y in (x.log2().floor(), x.log10().floor(), (x / 2048).erfc().log(), (x / 1024).exp2().floor()))

    x = torch.tensor([[8192.0, 1e9, 1000.0, 8.0]], device=DEVICE)
    with torch.no_grad():
        compiled, reports = passed(Model())
        found = compiled(x)
    assert all(torch.allclose(a, b, rtol=1e-6) for a, b in zip(found, Model()(x)))
    assert not left(reports), left(reports)


def test_an_op_that_is_refused_leaves_the_others():
    class Model(N.Module):
        def forward(self, x, w):
            y = (x * 2).softmax(-1)
            z = N.functional.conv2d(y, w, stride=16, padding=8)  # no kernel has strides above 8, and patches have no margins
            return (z.relu() + 1).softmax(-1), y

    with torch.no_grad():
        compiled, reports = passed(Model())
        compiled(torch.randn(2, 8, 64, 64).bfloat16().to(DEVICE), torch.randn(8, 8, 16, 16).bfloat16().to(DEVICE))
    assert "stride 16" in left(reports)["aten.convolution.default"]
    assert len(reports[0].taken) == 2 and all(c.within for c in verify.comparisons)


def test_training_graphs():
    torch.manual_seed(1)
    model = N.Sequential(N.Linear(64, 128), N.GELU(), N.Linear(128, 64), N.LayerNorm(64)).bfloat16().to(DEVICE)
    x = torch.randn(8, 64).bfloat16().to(DEVICE).requires_grad_()
    expected = torch.autograd.grad(model(x).float().square().sum(), (x, *model.parameters()))
    compiled, reports = passed(model)
    found = torch.autograd.grad(compiled(x).float().square().sum(), (x, *model.parameters()))
    assert len(reports) == 2 and all(report.taken for report in reports)
    assert all(c.within for c in verify.comparisons)
    for a, b in zip(found, expected):
        assert (a.float() - b.float()).norm() <= 5e-2 * b.float().norm()


def test_weights_alone_are_constants():
    class Model(N.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.table = N.Parameter(torch.ones(64)), N.Buffer(torch.ones(64))

        def forward(self, x, cache):
            return (x * self.scale + cache).softmax(-1) * self.table

    def constants(compiled, reports):
        compiled(x, cache)
        return [sorted(info.constant for info in chain.inputs()) for chain in [part.made.chain for part in reports[0].taken]]

    model, x, cache = Model().to(DEVICE), torch.randn(8, 64, device=DEVICE), torch.randn(8, 64, device=DEVICE)
    torch._dynamo.mark_static_address(cache)
    with torch.no_grad():
        assert constants(*passed(model)) == [[False, False, True, True]]
    compiled, reports = passed(model)
    compiled(x, cache).sum().backward()
    chains = [part.made.chain for report in reports for part in report.taken]
    assert len(reports) == 2 and not any(info.constant for chain in chains for info in chain.inputs())


def test_weights_of_linear_layers_are_constants():
    """They are passed transposed. A kernel reads inputs that are not constant only after the kernel before it."""
    _, reports = run(half(N.Linear(64, 128), N.GELU(), N.Linear(128, 64)), torch.randn(8, 64).bfloat16())
    (part,) = reports[0].taken
    assert [info.constant for info in part.made.chain.inputs()].count(False) == 1, "x alone may change"


def test_a_write_into_an_input():
    class Model(N.Module):
        def forward(self, x):
            x.mul_(2).add_(1)
            return x.softmax(-1) * 3

    x = torch.randn(8, 64).bfloat16()
    own = x.clone()
    with torch.no_grad():
        compiled, _ = passed(Model())
        result = compiled(x)
        expected = Model()(own)
    assert torch.equal(x, own) and verify.difference(result, expected, 2e-2)[1]


def test_a_write_into_a_part_of_an_input_through_rows_that_repeat_it():
    def model(x):
        first, second = x.expand(2, 8, 64).split(4, 1)
        second[0] = first[0]
        return x + 1

    x = torch.randn(8, 64).to(DEVICE)
    own = x.clone()
    with torch.no_grad():
        compiled, reports = passed(model)
        result, expected = compiled(x), model(own)
    assert reports[0].taken and all(c.within for c in verify.comparisons)
    assert torch.allclose(x, own, atol=1e-6) and torch.allclose(result, expected, atol=1e-6)


@pytest.mark.parametrize(
    "more",
    [lambda y: [y[::2]], lambda y: [*y.chunk(2)], lambda y: [y.mT.unsqueeze(0), y[1:]]],
    ids=["a_slice", "parts", "views_of_views"],
)
def test_a_write_into_a_result_is_seen_in_views_of_it(more):
    def model(x):
        y = x.relu() * 2
        views = more(y)
        return [y, *views, *(view + 1 for view in views)]

    with torch.no_grad():
        compiled, reports = passed(model)
        x = torch.randn(4, 8).to(DEVICE)
        found, expected = compiled(x), model(x)
    for results in (found, expected):
        results[1].fill_(7)
    (part,) = reports[0].taken
    assert len(part.nodes) > 2 and all(torch.allclose(a, b) for a, b in zip(found, expected))


def _of_several(x):
    variance, mean = torch.var_mean(x.relu() * 2 + x, 1, keepdim=True)
    return variance, variance.view(-1), mean, variance * 2


@pytest.mark.parametrize("model", [_of_several, lambda x: (lambda y: (y, y.unsqueeze(0), y + 1))(torch.nn.functional.max_pool2d(x[None], 2))])
def test_a_write_into_one_of_several_results_is_seen_in_its_view(model):
    x = torch.randn(4, 8, 64, device=DEVICE)
    compiled, _ = passed(model)
    results = compiled(x)
    results[0].zero_()
    assert (results[1] == 0).all() and results[0].data_ptr() == results[1].data_ptr() != results[2].data_ptr()


def test_elements_of_a_result_that_are_one_stay_that():
    def model(x):
        rows = (x.relu() * 2).expand(3, 4, 8)
        return rows, rows + 1

    with torch.no_grad():
        compiled, reports = passed(model)
        rows, _ = compiled(torch.randn(4, 8).to(DEVICE))
    assert reports[0].taken and rows.stride() == (0, 8, 1)


def test_a_write_into_a_result_is_not_seen_in_a_copy_of_it():
    def model(x):
        y = x.relu() * 2
        return y, torch.empty(32, device=DEVICE).copy_(y.view(-1))

    with torch.no_grad():
        compiled, reports = passed(model)
        y, copy = compiled(torch.ones(4, 8, device=DEVICE))
    y.fill_(7)
    assert reports[0].taken and (copy == 2).all()


def test_torch_computes_a_chain_as_the_reference_does():
    model = half(Heads(), Gated(), Scaled(), N.Softmax(-1))
    with torch.no_grad():
        compiled, reports = passed(model)
        compiled(torch.randn(2, 6, 64).bfloat16())
    for part in reports[0].taken:
        chain = part.made.chain
        inputs = []
        for info in chain.inputs(part.m):
            made = torch.empty_strided(info.shape, info.strides, dtype=run_chain.DTYPES[str(info.dtype)])
            inputs.append(made.copy_(torch.randn(info.shape) / 8))
        carried = run_chain.carried(run_chain.pack(chain))
        for a, b in zip(carried.fallback.by_torch(inputs, part.m), run_chain.by_reference(chain, inputs, part.m)):
            assert a.shape == b.shape and a.stride() == b.stride()
            assert verify.difference(a, b, 2e-2)[1]
        assert all(map(torch.equal, carried.fallback.traced(inputs)(*inputs), carried.fallback.by_torch(inputs, part.m)))


def test_a_product_and_its_bias_are_one_operator_of_torchs():
    b = sinter.Builder()
    x, w, again = b.input("bf16", [8, 64]), b.input("bf16", [32, 64]), b.input("bf16", [16, 32])
    h = sinter.relu(x @ w.T + b.input("bf16", [32])).cast("bf16")
    y = b.input("bf16", [1, 16]) + h @ again.T
    twice = h @ again.T
    b.output(y.cast("bf16"))
    b.output((twice + b.input("f32", [16])).cast("bf16"))  # it is not a vector of the operands' type
    b.output((twice * twice + b.input("bf16", [8, 16])).cast("bf16"))
    chain = b.finish()
    inputs = [torch.randn(info.shape).to(run_chain.DTYPES[str(info.dtype)]) / 4 for info in chain.inputs()]
    fallback = run_chain.Carried(chain).fallback
    calls = [str(node.target) for node in fallback.traced(inputs).graph.nodes if node.op == "call_function"]
    assert calls.count("aten.addmm.default") == 2 and calls.count("aten.mm.default") == 1
    for found, expected in zip(fallback.by_torch(inputs, 0), run_chain.by_reference(chain, inputs, 0)):
        assert verify.difference(found, expected, 2e-2)[1]


def test_what_no_code_holds_is_cast_to_the_largest():
    b = sinter.Builder()
    b.output(b.input("f32", [8]).cast("e4m3"))
    chain, x = b.finish(), torch.tensor([1e9, -1e9, 464.0, 449.0, -448.0, float("inf"), float("nan"), 0.3])
    (found,), (expected,) = run_chain.Carried(chain).fallback.by_torch([x], 0), run_chain.by_reference(chain, [x], 0)
    assert torch.equal(found.float().nan_to_num(7), expected.float().nan_to_num(7)) and found.float()[:3].tolist() == [448, -448, 448]


@pytest.fixture
def refused(monkeypatch):
    """A chain with a number whose plan is refused, and its input, as if on a GPU that captures while ``capturing`` says so."""

    def place(*_):
        return types.SimpleNamespace(plan=None, refused=made.why, look=lambda seconds: None)

    made = types.SimpleNamespace(capturing=True, x=torch.randn(8, 64), why="predicted to lose")
    b = sinter.Builder()
    b.output(b.input("f32", [8, 64]) * 0.3 + 1.0)
    made.chain = b.finish()
    made.text = run_chain.pack(made.chain)
    made.run = lambda: run_chain._run_cuda([made.x], 0, made.text, "")[0]
    made.right = lambda: torch.allclose(made.run(), made.x * 0.3 + 1.0)
    run_chain.carried.cache_clear()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: made.capturing)
    monkeypatch.setattr(run_chain.Carried, "place", place)
    return made


def test_a_part_that_is_refused_under_capture_copies_nothing_from_the_host(refused, monkeypatch):
    monkeypatch.setattr(torch, "tensor", lambda *_, **__: pytest.fail("a copy from the host while a stream captures"))
    assert refused.right()


def test_a_refused_part_runs_inductors_code_also_under_capture(refused, monkeypatch):
    it, calls = run_chain.carried(refused.text).fallback, []
    assert refused.right() and it._code is None, "nothing is compiled while a stream captures"
    refused.capturing = False
    with torch.compiler.set_stance("fail_on_recompile"):
        assert refused.right()
    code = it._code
    monkeypatch.setattr(it, "_code", lambda *inputs: calls.append(1) or code(*inputs))
    refused.capturing = True
    assert refused.right() and calls == [1]


def test_code_of_inductors_that_never_ran_is_not_captured(refused, monkeypatch):
    it, calls = run_chain.carried(refused.text).fallback, []

    def code(x):
        calls.append(refused.capturing)
        return [x * 0.3 + 1.0]

    refused.capturing = False
    monkeypatch.setattr(torch._inductor, "compile", lambda *_: code)
    it.prepare([refused.x], 0)
    assert it._code is code and not calls, "what prepares runs nothing"
    refused.capturing = True
    assert refused.right() and not calls
    refused.capturing = False
    assert refused.right() and calls == [False]
    refused.capturing = True
    assert refused.right() and calls == [False, True] and it._code is code


def test_code_of_inductors_serves_the_device_that_it_was_made_for(refused, monkeypatch):
    it, calls = run_chain.carried(refused.text).fallback, []
    refused.capturing = False
    monkeypatch.setattr(torch._inductor, "compile", lambda *_: lambda x: calls.append(x) or [x * 0.3 + 1.0])
    assert refused.right() and len(calls) == 1
    it._device = torch.device("cuda:1")
    assert refused.right() and len(calls) == 1


def test_a_part_whose_plan_is_not_there_runs_inductors_code_too(refused):
    refused.why, refused.capturing = None, False
    before = sinter.torch.graph_counts()
    assert refused.right() and refused.right()
    after, fallback = sinter.torch.graph_counts(), run_chain.carried(refused.text).fallback
    assert fallback._code and after.waiting == before.waiting + 2 and after.fallback_s > before.fallback_s


@pytest.mark.parametrize("how, made", [("", [7]), ("block", [])])
def test_a_part_for_any_rows_has_its_code_before_rows_without_a_plan_come(monkeypatch, how, made):
    b, prepared, plan = sinter.Builder(), [], types.SimpleNamespace()
    b.output(b.input("f32", [sinter.M, 64]) * 0.3)
    text = run_chain.pack(b.finish())
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(run_chain.Carried, "place", lambda *_: types.SimpleNamespace(plan=plan, limit_us=0.0))
    monkeypatch.setattr(run_chain, "_launch", lambda *_: [plan])
    monkeypatch.setattr(run_chain.carried(text).fallback, "prepare", lambda inputs, m: prepared.append(m))
    assert run_chain._run_cuda([torch.randn(7, 64)], 7, text, how) == [plan] and prepared == made


def test_inductors_code_for_a_part_serves_any_rows(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    b = sinter.Builder()
    x = b.input("f32", [sinter.M, 64])
    b.output(sinter.softmax(x * 0.3 + 1.0))
    b.output(x.reshape(sinter.M, 8, 8))
    fallback = run_chain.Carried(b.finish()).fallback
    expected = lambda x: ((x * 0.3 + 1.0).softmax(-1), x.reshape(-1, 8, 8))
    one = torch.randn(1, 64)
    assert all(map(torch.allclose, fallback([one], 1), expected(one))) and fallback._code is None
    calls = []
    for rows in (7, 12, 2, 1, 4096):
        x = torch.randn(rows, 64)
        found = fallback([x], rows)
        calls.append(fallback._code)
        assert all(map(torch.allclose, found, expected(x)))
        assert found[1].data_ptr() != x.data_ptr(), "an operator's result is no memory of its inputs"
    assert calls[0] and all(code is calls[0] for code in calls), "one code for all"
    assert fallback._serves(4096) and not fallback._serves(1)


@pytest.mark.parametrize("extent", (sinter.M, 6))
def test_inductors_code_for_a_part_is_made_in_a_callers_dispatch_mode(extent, monkeypatch):
    """AOTAutograd has such a mode in the first call of a graph, which reaches the part without the dispatcher."""
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)

    class LeavesSubclasses(torch.utils._python_dispatch.TorchDispatchMode):
        supports_higher_order_operators = True

        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            tensors = [x for x in torch.utils._pytree.tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)]
            return operator(*args, **(kwargs or {})) if all(type(x) is torch.Tensor for x in tensors) else NotImplemented

    b = sinter.Builder()
    x = b.input("f32", [extent, 64])
    b.output(sinter.softmax(x * 0.3 + 1.0).reshape(extent, 8, 8))
    fallback, x = run_chain.Carried(b.finish()).fallback, torch.randn(6, 64)
    with LeavesSubclasses():
        (found,) = fallback([x], 6)
    assert fallback._code, "Inductor's code computes it"
    assert torch.allclose(found, (x * 0.3 + 1.0).softmax(-1).reshape(-1, 8, 8))


def test_plans_are_kept_by_buckets_of_rows_with_a_limit_each(monkeypatch):
    b = sinter.Builder()
    b.output(b.input("f32", [sinter.M, 64]) * 0.3)
    from sinter.torch.runtime.buckets import BUCKETS

    it = run_chain.carried(run_chain.pack(b.finish(), [float(rows) for rows in BUCKETS]))
    asked = []

    def slot(chain, m):
        asked.append(m)
        raise sinter.Error(sinter.Status.OUT_OF_RANGE, "it joins all rows")

    monkeypatch.setattr(run_chain.store, "context", lambda device: types.SimpleNamespace(slot=slot))
    places = {m: it.place(0, m) for m in (1, 2, 8, 120, 128, 129, 8192, 8193, 20000)}
    assert places[2] is places[8] and places[120] is places[128] and places[8193] is places[20000]
    assert len(set(map(id, places.values()))) == 6
    assert [places[m].limit_us for m in (2, 120, 8192, 20000)] == [8, 128, 8192, 8192]
    assert places[20000].look(None) is None and places[20000].refused and asked == [8193]


@pytest.mark.parametrize("fails", ["compile", "run"])
def test_a_fault_of_inductors_code_leaves_the_part_to_torchs_operators(refused, monkeypatch, caplog, fails):
    def compile_graph(*_):
        tried.append(1)
        return (lambda *_: 1 / 0) if fails == "run" else 1 / 0

    tried = []
    monkeypatch.setattr(torch._inductor, "compile", compile_graph)
    monkeypatch.setattr(warn, "_told", set())
    refused.capturing = False
    assert refused.right() and refused.right() and tried == [1]
    assert "ZeroDivisionError" in caplog.text


def test_nothing_is_compiled_while_another_thread_compiles(refused, monkeypatch):
    from torch._dynamo.convert_frame import compile_lock

    def hold():
        with compile_lock:
            held.set()
            done.wait(60)

    def compile_graph(graph, inputs, patches):
        told.append(patches)
        return lambda x: [x * 0.3 + 1.0]

    held, done, told = threading.Event(), threading.Event(), []
    monkeypatch.setattr(torch._inductor, "compile", compile_graph)
    refused.capturing = False
    other = threading.Thread(target=hold)
    other.start()
    try:
        assert held.wait(60) and refused.right() and not told, "torch computes, and nobody waits"
    finally:
        done.set()
        other.join()
    assert refused.right() and told == [{"triton.cudagraphs": False, "post_grad_custom_pre_pass": None}]
    assert compile_lock.acquire(blocking=False) is True
    compile_lock.release()


def test_want_of_memory_gives_up_no_code_and_a_guard_that_fails_leaves_the_call(refused, monkeypatch):
    def code(x):
        calls.append(1)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("not now")
        return [x * 0.3 + 1.0]

    it, calls = run_chain.carried(refused.text).fallback, []
    refused.capturing = False
    monkeypatch.setattr(torch._inductor, "compile", lambda *_: code)
    with pytest.raises(torch.OutOfMemoryError):
        refused.run()
    assert refused.right() and calls == [1, 1] and it._code is code
    it._serves = lambda m: 1 / 0
    assert refused.right() and calls == [1, 1] and it._code is False


def test_a_fault_of_the_library_leaves_the_call_to_torchs_operators(refused, monkeypatch):
    def declared(*_):
        raise sinter.Error(sinter.Status.INTERNAL, "out of order")

    monkeypatch.setattr(run_chain.Carried, "declared", declared)
    refused.x = refused.x.reshape(4, 2, 64)  # as the graph has it: the chain has rows
    assert torch.allclose(refused.run(), refused.x.reshape(8, 64) * 0.3 + 1.0)


@pytest.mark.parametrize(
    "code, builds, refused", [("RESOURCE_EXHAUSTED", 2, False), ("NO_LEGAL_PLAN", 1, True), ("COMPILE_FAILED", 5, True)]
)
def test_a_fault_that_may_pass_refuses_no_plan_for_good(monkeypatch, caplog, code, builds, refused):
    def slot(chain, m):
        made.append(m)
        if code != "RESOURCE_EXHAUSTED" or len(made) == 1:
            raise sinter.Error(sinter.Status[code], "not now")
        return types.SimpleNamespace(generation=2, plan=lambda: plan, _goes_on=False)

    monkeypatch.setattr(warn, "_told", set())
    made, plan = [], types.SimpleNamespace(predicted_us=1.0, kernel_count=0, workspace_size=0, context=types.SimpleNamespace(_workspaces=types.SimpleNamespace(reserve=bool)))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(run_chain.store, "context", lambda device: types.SimpleNamespace(slot=slot))
    place = run_chain.Place(0, None, 7, None)
    assert place.look(None) is None and place.look(None) is None and made == [7], "the next build is some seconds later"
    monkeypatch.setattr(run_chain, "_RETRY_SECONDS", 0.0)
    place._not_before = 0.0
    found = [place.look(None) for _ in range(6)]
    assert len(made) == builds and (place.refused is not None) == refused and (found[-1] is None) == refused
    assert ("options={'prepare': 'block'} leaves only that op: COMPILE_FAILED: not now" in caplog.text) == (code == "COMPILE_FAILED")


@pytest.mark.parametrize("limit_us, refused", [(0.5, True), (2.0, False), (0.0, True), (-1.0, True), (None, False)])
def test_a_plan_that_is_decided_on_holds_no_slot(monkeypatch, limit_us, refused):
    class Slot:
        generation, _goes_on = 2, False

        def plan(self):
            return types.SimpleNamespace(predicted_us=1.0, kernel_count=0, workspace_size=0, context=types.SimpleNamespace(_workspaces=types.SimpleNamespace(reserve=bool)))

    def slot(chain, m):
        made.append(weakref.ref(found := Slot()))
        return found

    made = []
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(run_chain.store, "context", lambda device: types.SimpleNamespace(slot=slot))
    place = run_chain.Place(0, None, 7, limit_us)
    for _ in range(2):
        assert (place.look(None) is None) == refused == (place.refused is not None)
    assert len(made) == 1 and made[0]() is None


@pytest.mark.parametrize("drop", ["reset", "use", "fork"])
def test_what_drops_plans_drops_those_of_compiled_graphs(drop):
    from sinter.torch.backend import graph_pass as graph_pass_module

    text = run_chain.pack(sinter.Chain.from_text("softmax rows=M cols=64 dtype=bf16"))
    before, target = run_chain.carried(text), graph_pass_module.target_context("h200")
    assert run_chain.carried(text) is before and graph_pass_module.target_context("h200") is target
    store = run_chain.store
    {"reset": sinter.torch.reset, "use": lambda: store.use(types.SimpleNamespace(device=0)), "fork": store.forget}[drop]()
    assert run_chain.carried(text) is not before and graph_pass_module.target_context("h200") is not target
    sinter.torch.reset()


def test_a_wrong_part_is_seen_and_torchs_result_is_taken():
    a, b = torch.ones(4, 4), torch.ones(4, 4)
    b[0, 0] = 2
    assert torch.equal(torch.ops.sinter.compared(a, b, "part", 1e-4), b)
    assert not verify.comparisons.pop().within
    assert torch.ops.sinter.compared(a, b.T, "part", 1e-4).stride() == a.stride(), "as the graph was told"
    assert torch.Tag.cudagraph_unsafe in torch.ops.sinter.compared.default.tags
    assert torch.Tag.cudagraph_unsafe not in torch.ops.sinter.run_chain.default.tags
    tiny = torch.full((4,), 1e-3)
    assert verify.difference(-tiny, tiny, 2e-2)[1] and not verify.difference(-tiny, tiny, 1e-4)[1]
    nan = torch.full((2,), float("nan"))
    assert verify.difference(nan, nan, 0)[1] and not verify.difference(torch.ones(2), nan, 1)[1]


def test_options_are_checked():
    own, patches = split_options("reduce-overhead", {"prepare": "block", "epilogue_fusion": True})
    assert own.prepare == "block" and patches["triton.cudagraphs"] and patches["epilogue_fusion"]
    for bad in ({"prepare": "never"}, {"verify": 1}, {"target": 3}, {"measure": "yes"}, {"measure": True, "target": "h200"}):
        with pytest.raises(sinter.Error, match="options: " + next(iter(bad))):
            split_options(None, bad)


@pytest.mark.parametrize("value", [0, 65, -1, 1.5, "11", None, [11]])
def test_a_number_of_candidates_has_bounds(value):
    with pytest.raises(sinter.Error) as caught:
        split_options(None, {"measure": value})
    assert caught.value.code == sinter.Status.INVALID_ARGUMENT
    assert f"options: measure is {value!r}, must be True, False, or a number of candidates from 1 to 64" in str(caught.value)


@pytest.mark.parametrize("value, candidates", [(False, 0), (True, 0), (1, 1), (11, 11), (64, 64)])
def test_measure_takes_a_number_of_candidates(value, candidates):
    own, _ = split_options("max-autotune", {"measure": value})
    assert own.measure is value and own.candidates == candidates
    with pytest.raises(sinter.Error, match=f"measure is {value} and target is 'h200'") if value else contextlib.nullcontext():
        split_options(None, {"measure": value, "target": "h200"})


@pytest.mark.parametrize(
    "mode, options, measure",
    [
        ("max-autotune", None, True),
        ("max-autotune-no-cudagraphs", {}, True),
        ("max-autotune", {"measure": False}, False),
        ("max-autotune", {"target": "h200"}, False),
        (None, {"max_autotune": True}, True),
        ("reduce-overhead", None, False),
        (None, None, False),
    ],
)
def test_a_mode_that_tunes_measures_parts(mode, options, measure):
    assert split_options(mode, options)[0].measure is measure


def test_a_variable_leaves_all_to_inductor(monkeypatch):
    from torch._inductor import compile_fx

    seen = []
    monkeypatch.setattr(compile_fx, "compile_fx", lambda gm, inputs, config_patches: seen.append(config_patches) or gm.forward)
    monkeypatch.setenv("SINTER_TORCH_COMPILE", "0")
    torch._dynamo.reset()
    options = {"prepare": "block", "epilogue_fusion": True}
    torch.compile(half(N.Linear(64, 64)), backend=sinter.torch.sinter_backend, options=options)(torch.randn(8, 64).bfloat16())
    assert seen == [{"epilogue_fusion": True}], "without the pass, and without options that Inductor does not know"


def test_a_pass_of_the_callers_own_runs_first():
    from torch._inductor import config
    from torch._inductor.custom_graph_pass import CustomGraphPass
    from sinter.torch.backend.graph_pass import SinterPass
    from sinter.torch.runtime.options import Options
    from sinter.torch.backend import compile_with

    class Halves(CustomGraphPass):
        def __call__(self, graph):
            for node in [node for node in graph.nodes if str(node.target) == "aten.mul.Tensor"]:
                node.args = (node.args[0], 0.5)

        def uuid(self):
            return "halves"

    def compiled(**patches):
        torch._dynamo.reset()
        own = SinterPass(Options(target="h200"), reports)
        return torch.compile(model, backend=lambda gm, inputs: compile_with(own, gm, inputs, patches))

    reports, model, x = [], N.Sequential(N.Softmax(-1)), torch.randn(512, 1024)
    model.forward = lambda x: x.softmax(-1) * 3
    with torch.no_grad(), config.patch(fx_graph_cache=False):
        assert torch.allclose(compiled(post_grad_custom_pre_pass=Halves())(x), x.softmax(-1) * 0.5)
        with config.patch(post_grad_custom_pre_pass=Halves()):
            assert torch.allclose(compiled()(x), x.softmax(-1) * 0.5)
    assert len(reports) == 2 and all(report.taken for report in reports)
    options = Options(target="h200")
    assert SinterPass(options, first=Halves()).uuid() == (SinterPass(options).uuid(), "halves")
    assert SinterPass(options, first=lambda graph: None).uuid() is None, "nobody knows when that one changes"


@pytest.mark.skipif(torch.cuda.device_count() == 1, reason="torch names no second GPU where there is one")
def test_a_graph_on_several_gpus_is_left():
    from sinter.torch.backend.graph_pass import SinterPass
    from sinter.torch.runtime.options import Options

    graph = torch.fx.Graph()
    with torch._subclasses.FakeTensorMode():
        for i in range(2):
            x = graph.placeholder(f"x{i}")
            y = graph.call_function(torch.ops.aten.relu.default, (x,))
            x.meta["val"] = y.meta["val"] = torch.empty(8, 64, device=f"cuda:{i}")
    before, reports = str(graph), []
    SinterPass(Options(), reports)(graph)
    assert str(graph) == before and reports[0].left == [("aten.relu.default", "its graph is on several GPUs")] * 2


def test_a_size_that_no_input_tells_leaves_the_graph_as_it_was(monkeypatch):
    from sinter.torch.graph import replace
    from sinter.torch.convert.arrays import Refused

    def leaving(graph, result, border, symbols):
        if next(answers) == 0:
            raise Refused("no input tells the size s9")
        return own(graph, result, border, symbols)

    class Model(N.Module):
        def forward(self, x):
            y = x.softmax(-1) * 3
            return y, y.sum(-1) + 1

    own, answers, x = replace._leaving, iter((1, 0)), torch.randn(8, 64)
    monkeypatch.setattr(replace, "_leaving", leaving)
    with torch.no_grad():
        compiled, reports = passed(Model(), {"verify": False, "target": "h200"})
        monkeypatch.setattr("sinter.torch.backend.planner.worth_a_try", lambda *_: True)
        monkeypatch.setattr("sinter.torch.backend.planner.inductor_us", lambda *_: 1e9)
        found = compiled(x)
    assert not reports[0].taken and "no input tells the size s9" in set(left(reports).values())
    assert all(torch.allclose(a, b) for a, b in zip(found, Model()(x)))


def test_the_key_of_a_graph_is_of_all_files_and_of_the_targets_tuning(monkeypatch):
    from sinter.torch.backend import graph_pass as graph_pass_module

    def key():
        return graph_pass_module.SinterPass(graph_pass_module.Options(target="h200")).uuid()

    read, before = set(), key()
    own = pathlib.Path.read_bytes
    monkeypatch.setattr(pathlib.Path, "read_bytes", lambda path: read.add(path.name) or own(path))
    assert key() == before and {"servers.py", "graph_pass.py", "aten.py", "_functions.py", "_builder.py"} <= read
    monkeypatch.setattr(graph_pass_module, "target_context", lambda name: types.SimpleNamespace(tuning_digest="another"))
    assert key() != before


def test_a_fault_of_the_pass_leaves_the_graph(monkeypatch, caplog):
    from sinter.torch.backend import graph_pass as graph_pass_module, planner

    monkeypatch.setattr(planner.Planner, "parts", lambda self: 1 / 0)
    monkeypatch.setattr(warn, "_told", set())
    graph = torch.fx.symbolic_trace(N.ReLU()).graph
    next(iter(graph.nodes)).meta["val"] = torch.ones(2)
    before = str(graph)
    graph_pass_module.SinterPass(graph_pass_module.Options(target="h200"))(graph)
    assert str(graph) == before and "left to Inductor: ZeroDivisionError" in caplog.text


def test_each_fault_is_told_once(monkeypatch, caplog):
    monkeypatch.setattr(warn, "_told", set())
    for message in ("a", "b", "a", "b", *(f"call {i}" for i in range(100))):
        warn.warn_once(message)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told[:2] == ["sinter: a", "sinter: b"] and len(told) == len(set(told)) == warn._MOST_TOLD


def test_faults_of_different_graphs_are_all_told(monkeypatch, caplog):
    from sinter.torch.backend import graph_pass as graph_pass_module, planner

    monkeypatch.setattr(warn, "_told", set())
    for fault in (ValueError("first"), TypeError("second"), ValueError("first")):
        monkeypatch.setattr(planner.Planner, "parts", lambda self, fault=fault: (_ for _ in ()).throw(fault))
        graph = torch.fx.symbolic_trace(N.ReLU()).graph
        next(iter(graph.nodes)).meta["val"] = torch.ones(2)
        graph_pass_module.SinterPass(graph_pass_module.Options(target="h200"))(graph)
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert told == [f"sinter: the graph is left to Inductor: {said}" for said in ("ValueError: first", "TypeError: second")]


@pytest.mark.parametrize("target", ["h300", ""])
def test_a_target_that_is_no_chip_is_an_error(target):
    x, said = torch.randn(8, 64), "built in: .*h200" if target else "target is ''"
    with pytest.raises(sinter.Error, match=said):
        sinter.torch.explain(N.ReLU(), x, target=target)
    with pytest.raises(sinter.Error, match=said):
        split_options(None, {"target": target})
    with pytest.raises(Exception, match=said):
        torch.compile(N.ReLU(), backend=sinter.torch.sinter_backend, options={"target": target})(x)


def test_explain_counts_what_is_of_weights_alone_by_itself():
    model = normed(N.Conv2d(16, 32, 3), N.BatchNorm2d(32), N.ReLU(), N.Conv2d(32, 16, 3), N.BatchNorm2d(16), N.ReLU())
    told = sinter.torch.explain(model, torch.randn(8, 16, 32, 32).bfloat16())
    assert told.taken and not told.left and told.of_weights > 4
    work = sum(report.nodes for report in told.reports)
    assert f"1 graphs, {work} ops that compute, and {told.of_weights} that read only weights, {work} taken as" in str(told)


def test_explain_names_the_fast_path_of_encoders():
    encoder = N.TransformerEncoder(N.TransformerEncoderLayer(64, 4, 128, batch_first=True), 2).eval().bfloat16()
    x = torch.randn(8, 64, 64).bfloat16()
    told = sinter.torch.explain(encoder, x)
    ((name, why),) = told.left
    assert not told.taken and "encoder_layer_fwd" in name and "torch.backends.mha.set_fastpath_enabled(False)" in why
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        assert not any("encoder_layer_fwd" in name for name, _ in sinter.torch.explain(encoder, x).left)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)


def test_explain_stays_a_function_whatever_is_imported():
    import importlib

    importlib.import_module("sinter.torch.backend.explain")
    assert callable(sinter.torch.explain)
    assert importlib.util.find_spec("sinter.torch.explain") is None, "a module of that name would take its place"


def test_explain_says_what_is_taken_and_why_the_rest_is_left(tmp_path):
    model = half(N.Linear(512, 2048), N.GELU(), N.Linear(2048, 512), N.LayerNorm(512))
    told = sinter.torch.explain(model, torch.randn(512, 512).bfloat16())
    (part,) = told.taken
    assert part.plan.kernel_count == told.kernels > 0 and 0 < told.predicted_us < told.inductor_us
    assert "1 graphs" in str(told) and "taken as 1 parts" in str(told) and "planned for h200" in str(told)
    told.save(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert page.count("<svg") == 1 and part.plan.summary().splitlines()[0] in page


def test_a_part_that_is_predicted_to_lose_is_left(monkeypatch):
    from sinter.torch.backend import planner

    monkeypatch.setattr(planner, "inductor_us", lambda *_: 0.5)
    told = sinter.torch.explain(half(N.Linear(512, 2048), N.GELU(), N.Linear(2048, 512)), torch.randn(512, 512).bfloat16())
    assert not told.taken and "Inductor's kernels 0.5 us" in str(told)


def planned_with(options, model, x, **more):
    """Reports of a model whose graphs are planned and not run."""
    from sinter.torch.backend import explain, graph_pass as graph_pass_module
    from sinter.torch.backend import compile_with

    reports = []
    graph_pass = graph_pass_module.SinterPass(options, reports)
    torch._dynamo.reset()
    with torch.no_grad():
        backend = lambda gm, inputs: compile_with(graph_pass, gm, inputs, {}, inner_compile=explain._planned)
        torch.compile(model, backend=backend, **more)(x)
    return reports


def measured_by(monkeypatch, told, limit_us, model, x):
    """Reports and packed limits of a model whose parts are `told` to be measured so, with that estimate of Inductor's time."""
    from sinter.torch.backend import graph_pass as graph_pass_module, planner

    packed, own = [], run_chain.pack
    monkeypatch.setattr(planner.Planner, "_measured", lambda *_: told)
    monkeypatch.setattr(planner, "inductor_us", lambda *_: limit_us)
    monkeypatch.setattr(planner, "pack", lambda chain, limits, *more: packed.append(limits) or own(chain, limits, *more))
    return planned_with(graph_pass_module.Options("block", target="h200", measure=True), model, x), packed


@pytest.mark.parametrize("gains", [True, False])
def test_of_a_part_that_loses_a_half_is_taken_where_it_gains(monkeypatch, gains):
    from sinter.torch.backend import planner

    class Model(N.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.norm = N.Linear(512, 2048), N.Linear(2048, 512), N.LayerNorm(512)

        def forward(self, x):
            return self.norm(self.second(N.functional.gelu(self.first(x))).exp().sin())

    def inductor_us(nodes, *_):
        names = [str(node.target) for node in nodes]
        products, sine = names.count("aten.addmm.default"), "aten.sin.default" in names
        return (0.9 if products == 2 and sine or gains and products and not sine else 1e-3) * run_chain.expected_us(whole.plan)

    model, x = half(Model()).to(DEVICE), torch.randn(512, 512).bfloat16().to(DEVICE)
    monkeypatch.setattr(planner, "worth_a_try", lambda *_: True)
    monkeypatch.setattr(planner, "inductor_us", lambda *_: 1e6)
    (whole,) = sinter.torch.explain(model, x).taken
    monkeypatch.setattr(planner, "inductor_us", inductor_us)
    with torch.no_grad():
        compiled, reports = passed(model, {"verify": False})
        assert verify.difference(compiled(x), model(x), 2e-2)[1]
    taken = [[str(node.target) for node in part.nodes] for part in reports[0].taken]
    assert bool(taken) == gains and all("aten.addmm.default" in names and "aten.sin.default" not in names for names in taken)


class Scanned(N.Module):
    """Equal layers, separated by ops that no part captures."""

    def __init__(self, layers=2):
        super().__init__()
        make = lambda: N.Sequential(N.Linear(512, 2048), N.GELU(), N.Linear(2048, 512), N.LayerNorm(512))
        self.layers = N.ModuleList(make() for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).cumprod(0)
        return x


def behind_a_scan(nodes):
    return any("cumprod" in str(i.target) for node in nodes for i in node.all_input_nodes)


def reported(model, monkeypatch, inductor_us):
    """The report of a graph, with a given estimate in us for Inductor's kernels of each part, and the searches that were made."""
    from sinter.torch.backend import planner

    searched, own = [], planner.Asked
    monkeypatch.setattr(planner, "worth_a_try", lambda *_: True)
    monkeypatch.setattr(planner, "inductor_us", inductor_us)
    monkeypatch.setattr(planner, "Asked", lambda context, made, m, *more: searched.append(made.chain.digest) or own(context, made, m, *more))
    with torch.no_grad():
        compiled, reports = passed(model, {"verify": False, "target": "h200", "prepare": "background"})
        compiled(torch.randn(512, 512).bfloat16())
    return reports[0], searched


@pytest.mark.parametrize("first_gains", [True, False])
def test_equal_chains_are_each_held_against_their_own_limits(first_gains, monkeypatch):
    model = half(Scanned())
    report, _ = reported(model, monkeypatch, lambda nodes, *_: 1e6 if behind_a_scan(nodes) != first_gains else 1e-3)
    read = [{str(border.node.target) for border in part.made.inputs} for part in report.taken]
    assert len(read) == 1 and ("aten.cumprod.default" in read[0]) != first_gains
    assert any("predicted" in why for _, why in report.left)


def test_halves_of_equal_parts_that_lose_are_searched_once(monkeypatch):
    from sinter.torch.backend import planner

    report, searched = reported(half(Scanned(3)), monkeypatch, lambda *_: 1e-3)
    assert not report.taken and len(searched) == len(set(searched)) > 4
    monkeypatch.undo()
    monkeypatch.setattr(planner, "_MOST_HALVES", 2)
    report, searched = reported(half(Scanned(3)), monkeypatch, lambda *_: 1e-3)
    assert not report.taken and len(searched) == len(set(searched)) == 3


def test_a_plan_that_would_lose_is_given_up_before_its_build(context, need_compiler):
    """Whether it is searched or its record is in the cache."""
    from sinter.torch.backend.library_plans import Asked

    b = sinter.Builder()
    x, w = b.input("bf16", (96, 320)), b.constant("bf16", (448, 320))
    made = types.SimpleNamespace(chain=b.finish((x @ w.T).cast("bf16")))
    lost = [Asked(context, made, 0, False, time.monotonic() + 60, 0.5) for _ in range(2)]
    assert all(asked.refused is None and asked.plan(wait=True) is None for asked in lost)
    asked = Asked(context, made, 0, False, time.monotonic() + 60, lost[0].lost_us)
    assert asked.lost_us == 0 and [each.lost_us for each in lost] == [pytest.approx(run_chain.expected_us(asked.plan(wait=True)), rel=1e-4)] * 2


@pytest.mark.parametrize(
    "told, share, why",
    [
        ((10.0, 20.0), 0.9, None),  # only the prediction would refuse it
        ((20.0, 20.1), 9.0, "measured 20.0 us, Inductor's code 20.1 us"),  # .. would take it
        (None, 9.0, None),
        (None, 0.9, "predicted"),
        ((10.0, 20.0), 0.5, "predicted"),  # no use to measure
    ],
)
def test_what_is_measured_decides_and_not_what_is_predicted(monkeypatch, told, share, why):
    from sinter.torch.backend import planner
    from sinter.torch.gate.measure import Measured

    told = told and Measured(*told)
    model, x = half(N.Linear(512, 2048), N.GELU(), N.Linear(2048, 512)), torch.randn(512, 512).bfloat16()
    monkeypatch.setattr(planner, "inductor_us", lambda *_: 1e6)
    (part,) = sinter.torch.explain(model, x).taken
    limit_us = share * run_chain.expected_us(part.plan)
    reports, packed = measured_by(monkeypatch, told, limit_us, model, x)
    if why is not None:
        assert not reports[0].taken and all(why in told for told in left(reports).values())
        return
    (part,) = reports[0].taken
    assert part.limit_us == pytest.approx(2 * run_chain.expected_us(part.plan) if told else limit_us)
    assert packed == [[part.limit_us]], "what runs it asks for no more than that"


@pytest.mark.parametrize("beyond, taken", [(0.0, True), (5.0, False)])
def test_what_stays_in_kernels_beyond_a_part_is_no_time_that_its_plan_saves(monkeypatch, beyond, taken):
    from sinter.torch.backend import planner
    from sinter.torch.gate.measure import Measured

    monkeypatch.setattr(planner, "beyond_us", lambda *_: beyond)
    model, x = half(N.Linear(512, 512), N.GELU(), N.Linear(512, 512)), torch.randn(128, 512).bfloat16()
    reports, _ = measured_by(monkeypatch, Measured(10.0, 13.0), 1e3, model, x)
    assert bool(reports[0].taken) == taken
    why = "measured 10.0 us, Inductor's code 13.0 us, of which 5.0 us stay in kernels that go on beyond the part"
    assert any(why in told for _, told in reports[0].left) != taken


def test_inputs_to_measure_by_are_drawn_without_the_callers_random_numbers():
    from sinter.torch.gate import measure as measure_module

    b = sinter.Builder()
    table, ids, w = b.input("bf16", [7, 64]), b.input("s32", [1000]), b.input("bf16", [64, 64])
    b.output(sinter.gather(table, ids, 0) @ w)
    chain, before = b.finish(), torch.get_rng_state()
    inputs = measure_module.drawn(chain, 0, "cpu")
    assert torch.equal(torch.get_rng_state(), before)
    assert inputs[1].min() == 0 and inputs[1].max() == 6 and inputs[0].std() > 0
    side = measure_module.Side(None, inputs, [2])
    copies = measure_module._copies(side, 3 * inputs[2].nbytes)
    assert len(copies) == 2 and all(copy[0] is inputs[0] and copy[2] is not inputs[2] and torch.equal(copy[2], inputs[2]) for copy in copies)
    assert measure_module._copies(side._replace(weights=[]), 1e9) == [] and len(measure_module._copies(side, 1e12)) == measure_module._MOST_COPIES - 1


def test_what_cannot_be_measured_is_told_once_and_left_to_predictions(monkeypatch, caplog):
    from sinter.torch.gate import measure as measure_module

    def fails(*_):
        calls.append(threading.current_thread())
        raise torch.OutOfMemoryError("no room")

    calls, made = [], types.SimpleNamespace(chain=sinter.Chain.from_text("softmax rows=M cols=64 dtype=bf16"))
    monkeypatch.setattr(measure_module, "_measure", fails)
    plan = types.SimpleNamespace(digest="")
    assert [measure_module.measured([], made, 8, plan, 0, 5e7) for _ in range(2)] == [None, None]
    assert len(calls) == 1 and calls[0] is not threading.current_thread() and "no room" in caplog.text
    measure_module._found.clear()


def test_code_to_measure_by_is_made_while_inductor_compiles_the_graph(monkeypatch):
    from sinter.torch.backend import graph_pass as graph_pass_module, planner
    from sinter.torch.gate import measure as measure_module
    from sinter.torch.backend import compile_with

    def measure(self, part, plan):
        def work():
            graph, given = measure_module.as_graph(part.nodes)
            side = measure_module.by_inductor(part.nodes, graph, given, torch.device("cpu"))
            (found,), expected = side.call(side.inputs), graph(*side.inputs)
            kinds.append((len(side.inputs), len(side.weights)))
            assert verify.difference(found, expected[0], 2e-2)[1] and found.stride() == expected[0].stride()
            return measure_module.Measured(1.0, 2.0)

        told.append(measure_module._in_a_thread(work))
        return told[-1]

    told, kinds, model, x = [], [], half(N.Linear(512, 512), N.GELU(), N.Linear(512, 512)), torch.randn(128, 512).bfloat16()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(planner.Planner, "_measured", measure)
    graph_pass = graph_pass_module.SinterPass(graph_pass_module.Options("block", target="h200", measure=True))
    torch._dynamo.reset()
    with torch.no_grad():
        y = torch.compile(model, backend=lambda gm, inputs: compile_with(graph_pass, gm, inputs, {"fx_graph_cache": False}))(x)
        assert verify.difference(y, model(x), 2e-2)[1]
    assert told == [(1.0, 2.0)]
    assert kinds == [(5, 5)], "x and the weights; each is an input of the graph"


@pytest.mark.parametrize("candidates, asked", [(True, [0]), (11, [11, -1])])
def test_plans_of_parts_are_chosen_by_measuring_before_the_gate_measures(monkeypatch, candidates, asked):
    """If no plan can be measured, as here, prediction chooses."""
    from sinter.torch.backend import graph_pass as graph_pass_module, planner
    from sinter.torch.gate.measure import Measured

    given, packed, judged, own, pack = [], [], [], sinter.Context.prepare_async, run_chain.pack

    def prepare_async(self, *arguments, measure=0, **more):
        assert not judged, "while candidates are measured nothing else runs on the GPU"
        given.append(measure)
        return own(self, *arguments, measure=measure, **more)

    monkeypatch.setattr(sinter.Context, "prepare_async", prepare_async)
    monkeypatch.setattr(planner, "pack", lambda *arguments: packed.append(arguments[-1]) or pack(*arguments))
    monkeypatch.setattr(planner.Planner, "_measured", lambda *_: judged.append(1) or Measured(1.0, 2.0))
    monkeypatch.setattr(planner, "inductor_us", lambda *_: 1e3)
    model, x = half(N.Linear(512, 512), N.GELU(), N.Linear(512, 512)), torch.randn(128, 512).bfloat16()
    (part,) = planned_with(graph_pass_module.Options("block", target="h200", measure=candidates), model, x)[0].taken
    assert given == asked and part.plan is not None and packed == [0 if candidates is True else 11]


@pytest.mark.parametrize("digest, asked", [("0" * 64, {"measure": 11}), ("0f" * 32, {})])
def test_a_part_asks_its_slot_for_a_measured_plan(monkeypatch, digest, asked):
    """But for a context with a tuning set, which decides."""
    given = []

    def slot(chain, m, **more):
        given.append(more)
        raise sinter.Error(sinter.Status.RESOURCE_EXHAUSTED, "not now")

    monkeypatch.setattr(run_chain.store, "context", lambda device: types.SimpleNamespace(slot=slot, tuning_digest=digest))
    chain = sinter.Chain.from_text("softmax rows=M cols=64 dtype=bf16")
    run_chain.carried.cache_clear()
    assert run_chain.carried(run_chain.pack(chain, (), (), (), 11)).place(0, 8).look(None) is None
    assert given == [asked]


def test_a_part_takes_the_plan_that_its_slot_measures(monkeypatch):
    from sinter.torch.runtime import upgrade

    class Slot:
        generation, _goes_on, digest = 2, True, "predicted"

        def plan(self):
            return types.SimpleNamespace(predicted_us=1.0, kernel_count=0, workspace_size=0, digest=self.digest, context=context)

        def _plan(self, shares_workspace):
            assert shares_workspace
            return self.plan()

    made, capturing, reserved = Slot(), [False], []
    context = types.SimpleNamespace(slot=lambda chain, m: made, _workspaces=types.SimpleNamespace(reserve=lambda: reserved.append(1)))
    monkeypatch.setattr(upgrade, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing[0])
    monkeypatch.setattr(run_chain.store, "context", lambda device: context)
    place = run_chain.Place(0, None, 7, 10.0)
    assert place.look(None).digest == "predicted" == place.plan.digest
    made.generation, made.digest, capturing[0] = 3, "measured", True
    assert place.plan.digest == "predicted", "what is captured stays as it is"
    capturing[0] = False
    assert place.plan.digest == "measured" == place.plan.digest and len(reserved) == 2
    kept = weakref.ref(made)
    context.slot = made = None
    assert kept() is None, "nothing more is measured"


def test_a_part_with_m_is_measured_at_the_rows_of_the_call(monkeypatch):
    from sinter.torch.backend import graph_pass as graph_pass_module, planner
    from sinter.torch.gate import measure as measure_module
    from sinter.torch.runtime.buckets import BUCKETS

    def measure(self, part, plan):
        def work():
            side = measure_module.by_inductor_of_chain(part.made, part.m, "cpu")
            (found,), (expected,) = side.call(side.inputs), run_chain.by_reference(part.made.chain, side.inputs, part.m)
            assert verify.difference(found, expected, 2e-2)[1] and found.shape[0] == part.m
            rows.append(part.m)
            return measure_module.Measured(1.0, 2.0)

        return measure_module._in_a_thread(work)

    rows, packed, own, model = [], [], run_chain.pack, half(N.Linear(512, 512), N.GELU(), N.Linear(512, 512))
    monkeypatch.setattr(planner.Planner, "_measured", measure)
    monkeypatch.setattr(planner, "inductor_us", lambda nodes, figures, hint: 1e2)
    monkeypatch.setattr(planner, "pack", lambda chain, limits, *more: packed.append(limits) or own(chain, limits, *more))
    (part,) = planned_with(graph_pass_module.Options("block", target="h200", measure=True), model, torch.randn(96, 512).bfloat16(), dynamic=True)[0].taken
    assert rows == [96] and part.limit_us == pytest.approx(2 * run_chain.expected_us(part.plan))
    assert packed == [pytest.approx([part.limit_us] * len(BUCKETS))], "estimates of other rows are as far off"


def test_a_part_whose_symbols_are_not_m_is_not_measured(monkeypatch):
    from sinter.torch.gate import measure as measure_module

    monkeypatch.setattr(measure_module, "_in_a_thread", lambda *_: pytest.fail("it has no sizes to be measured at"))
    monkeypatch.setattr(measure_module, "as_graph", lambda nodes: None)
    b = sinter.Builder()
    b.output(sinter.relu(b.input("bf16", [8, 64])))
    assert measure_module.measured([], types.SimpleNamespace(chain=b.finish()), 0, None, 0, 5e7) is None


def test_inputs_of_a_part_lie_as_they_do_in_the_graph():
    from sinter.torch.gate import measure as measure_module

    graph = torch.fx.Graph()

    def node(target, *args, val):
        made = graph.placeholder(target) if isinstance(target, str) else graph.call_function(target, args)
        made.meta["val"] = val
        return made

    table, ids = node("table", val=torch.empty(5, 64, dtype=torch.bfloat16)), node("ids", val=torch.empty(8, dtype=torch.int64))
    rows = node(torch.ops.aten.embedding.default, table, ids, val=torch.empty(8, 64, dtype=torch.bfloat16))
    wide = torch.empty(64, dtype=torch.bfloat16).expand(8, 64)
    y = node(torch.ops.aten.add.Tensor, rows, node("bias", val=wide), val=torch.empty(8, 64, dtype=torch.bfloat16))
    graph.output((y,))
    made, given = measure_module.as_graph([rows, y])
    assert [i.name for i in given] == ["table", "ids", "bias"]
    assert [measure_module._below(i, [rows, y]) for i in given] == [2, 5, 2]
    inputs = [measure_module._like(i.meta["val"], torch.device("cpu"), measure_module._below(i, [rows, y])) for i in given]
    assert [x.stride() for x in inputs] == [(64, 1), (1,), (0, 1)] and 0 <= inputs[1].min() and inputs[1].max() == 4
    assert torch.equal(made(*inputs)[0], inputs[0][inputs[1]] + inputs[2])


def test_values_that_nothing_in_a_graph_computes():
    from sinter.torch.gate.measure import is_given

    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    view = graph.call_function(torch.ops.aten.view.default, (x, [4, 16]))
    assert is_given(x) and is_given(view)
    assert not is_given(graph.call_function(torch.ops.aten.relu.default, (view,)))
    assert not is_given(graph.call_function(torch.ops.aten.topk.default, (x, 2)))


def test_small_parts_are_left():
    told = sinter.torch.explain(half(N.Linear(64, 64), N.GELU()), torch.randn(8, 64).bfloat16())
    assert not told.taken and "its part is too small" in str(told)
    page = told.to_html()
    assert "<h2>Taken</h2><p>none</p>" in page and page.count("<table>") == 1
    for table in page.split("<table>")[1:]:
        assert "<th>" in table and "<td>" in table.split("</table>")[0]


def test_a_graph_that_says_another_type_than_it_has_is_right():
    class Chosen(N.Module):
        """Rows of the groups that are chosen, as routers of experts mask them. Inductor makes a select of integers of the scatter."""

        def forward(self, x):
            mask = torch.zeros_like(x).scatter_(1, torch.topk(x, 1, -1)[1], 1)
            return (x * 2).masked_fill(~mask.bool(), float("-inf")).softmax(-1)

    x = torch.randn(8, 64)
    assert x.dtype == torch.float32
    run(Chosen(), x)
    text = run_chain.pack(sinter.Chain.from_text("softmax rows=M cols=64 dtype=f32"))
    whole = torch.arange(512).view(8, 64) % 5
    (y,) = torch.ops.sinter.run_chain([whole], 8, text, "reference")
    assert torch.allclose(y, whole.float().softmax(-1), atol=1e-6)


def test_inputs_that_lie_otherwise_are_copied():
    text = run_chain.pack(sinter.Chain.from_text("softmax rows=M cols=64 dtype=bf16"))
    x = torch.randn(64, 8).bfloat16().T
    y = torch.ops.sinter.run_chain([x], 8, text, "reference")[0]
    assert verify.difference(y, x.softmax(-1), 2e-2)[1]
    assert torch.equal(run_chain._copied(x, x.stride()), x) and run_chain._copied(x, x.stride()).stride() == x.stride()


WARM = """
import os, torch, torch._inductor.compile_fx, sinter.torch
from torch._dynamo.utils import counters
from sinter.torch.backend import graph_pass as graph_pass_module
from sinter.torch.runtime.run_chain import carried
torch._inductor.config.cpp_cache_precompile_headers = False  # which one compilation does not pay for
if child := os.fork():  # imports are most of the time, so both processes share them
    assert os.waitpid(child, 0)[1] == 0
calls = []
own = graph_pass_module.SinterPass._take
graph_pass_module.SinterPass._take = lambda self, graph: calls.append(1) or own(self, graph)
torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(512, 512), torch.nn.GELU(), torch.nn.Linear(512, 512)).eval().bfloat16()
x = torch.randn(128, 512).bfloat16()
with torch.no_grad():
    y = torch.compile(model, backend="sinter", options={"target": "h200"})(x)
    e = model(x)
assert (y.float() - e.float()).norm() < 2e-2 * e.float().norm()
print("passes", len(calls), "hits", counters["inductor"]["fxgraph_cache_hit"], "chains", carried.cache_info().currsize)
"""


def test_a_graph_of_inductors_cache_runs_in_a_new_process(tmp_path):
    metadata = tmp_path / "site" / "sinter-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: sinter\nVersion: 0\n")
    project = (ROOT / "bindings/python/pyproject.toml").read_text()
    entries = project.split("[project.entry-points.torch_dynamo_backends]\n")[1].split("\n\n")[0].replace('"', "")
    (metadata / "entry_points.txt").write_text(f"[torch_dynamo_backends]\n{entries}\n")
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"), "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    told = subprocess.run([sys.executable, "-c", WARM], env=environment, capture_output=True, text=True, timeout=280, cwd=tmp_path)
    assert told.returncode == 0, told.stderr[-2000:]
    assert told.stdout.splitlines() == ["passes 1 hits 0 chains 1", "passes 0 hits 1 chains 1"]


def test_a_graph_of_which_nothing_is_taken_stays_as_it_was(monkeypatch):
    def model(x, y):
        first, second = torch.split(x, 8, dim=-1)
        return torch.fft.fft(first.float() + y.unbind(0)[1]).abs(), second.sin() * second

    seen, take = [], SinterPass._take

    def watched(self, graph):
        seen.append([str(node.target) for node in graph.nodes])
        report = take(self, graph)
        seen.append([str(node.target) for node in graph.nodes])
        return report

    monkeypatch.setattr(SinterPass, "_take", watched)
    compiled_model, reports = passed(model, {"verify": False})
    x, y = torch.randn(4, 16, device=DEVICE).bfloat16(), torch.randn(2, 4, 8, device=DEVICE)
    with torch.no_grad():
        ours, expected = compiled_model(x, y), model(x, y)
    assert [report.taken for report in reports] == [[]]
    assert any("split" in target for target in seen[0]) and seen[0] == seen[1]
    assert all(torch.allclose(*pair, rtol=1e-2) for pair in zip(ours, expected))


def test_what_no_operator_reads_stays_as_it_was_beside_parts(monkeypatch):
    def model(x, y, w, table, ids):
        first, second = torch.split(x, 8, dim=-1)
        product = torch.nn.functional.gelu(y @ w)
        third, fourth = torch.split(y, 512, dim=-1)
        more = torch.nn.functional.gelu(third @ w[:512])
        return torch.fft.fft(first.float()).abs(), second.sin() * second, product, more, torch.fft.fft(fourth.float()).abs(), table[ids].sum()

    seen, take = [], SinterPass._take

    def watched(self, graph):
        seen.append([str(node.target) for node in graph.nodes])
        report = take(self, graph)
        seen.append([str(node.target) for node in graph.nodes])
        return report

    monkeypatch.setattr(SinterPass, "_take", watched)
    compiled_model, reports = passed(model, {"verify": False})
    x, y, w = (torch.randn(*shape, device=DEVICE).bfloat16() for shape in ((4, 16), (64, 1024), (1024, 512)))
    table, ids = torch.randn(16, 8, device=DEVICE), torch.tensor([3, 15, 0], device=DEVICE)
    with torch.no_grad():
        ours, expected = compiled_model(x, y, w, table, ids), model(x, y, w, table, ids)
    assert 1 <= len(reports[0].taken) <= 2
    before, after = ([target for target in targets if "split" in target or "index" in target or "embedding" in target] for targets in seen[:2])
    assert len(before) == 3 and after == before, (before, after)
    assert not any("sinter_was" in node.meta for part in reports[0].taken for node in part.made.nodes if node is not None and not node._erased)
    assert all(torch.allclose(*pair, rtol=2e-2, atol=2e-1) for pair in zip(ours, expected))
