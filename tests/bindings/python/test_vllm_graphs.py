"""vLLM's plugin on the graphs of any decoder, against stand-ins of vLLM's backend and of its norms' operators."""

import logging
import sys
import types

import pytest

torch = pytest.importorskip("torch")

import sinter
from sinter.torch import servers
from sinter.torch.backend import graph_pass, server_pass
from sinter.torch.runtime import run_chain, warn
from sinter.torch.runtime.options import Options

from test_plugins import Mlp, clean, close, module, vllm  # noqa: F401

PLANNED = 48  # the bucket of 40 captured rows
HIDDEN, INNER, HEADS = 128, 512, 4


def rms_norm(x, weight, epsilon, variance_size=None):
    wide = x.float()
    normed = wide * torch.rsqrt(wide[..., :variance_size].pow(2).mean(-1, keepdim=True) + epsilon)
    return (normed if weight is None else normed.to(weight.dtype) * weight).to(x.dtype)


def fused_add_rms_norm(x, x_residual, weight, epsilon, variance_size=None):
    total = (x.float() + x_residual.float()).to(x.dtype)
    return rms_norm(total, weight, epsilon, variance_size), total


@pytest.fixture(autouse=True)
def norms():
    """vLLM's operators of norms."""
    library = torch.library.Library("vllm_ir", "FRAGMENT")
    arguments = "Tensor? weight, float epsilon, int? variance_size=None"
    library.define(f"rms_norm(Tensor x, {arguments}) -> Tensor")
    library.define(f"fused_add_rms_norm(Tensor x, Tensor x_residual, {arguments}) -> (Tensor, Tensor)")
    for function in (rms_norm, fused_add_rms_norm):
        library.impl(function.__name__, function, "CompositeExplicitAutograd")
        torch.library.register_fake(f"vllm_ir::{function.__name__}", function, lib=library)
    yield torch.ops.vllm_ir
    library._destroy()


class Backend:
    """The parts of vLLM's VllmBackend that the plugin uses. A call compiles the graph for each range, without Inductor's compilers."""

    def __init__(self, vllm_config, prefix="", is_encoder=False):
        self.vllm_config, self.is_encoder = vllm_config, is_encoder
        self.inductor_config, self.graphs = {**vllm_config.compilation_config.inductor_compile_config}, []

    def __call__(self, gm, example_inputs):
        from torch._dynamo.backends.common import aot_autograd
        from torch._inductor.decomposition import select_decomp_table

        begins = [0, *self.vllm_config.compilation_config.compile_ranges_endpoints]
        runs = [(begin, self._compiled(gm, example_inputs, begin + 1, aot_autograd, select_decomp_table)) for begin in begins[:-1]]
        return lambda *inputs: next(run for begin, run in reversed(runs) if rows_of(inputs) > begin)(*inputs)

    def _compiled(self, gm, example_inputs, begin, aot_autograd, select_decomp_table):
        def finish(module, examples):
            context = sys.modules["vllm.compilation.passes.inductor_pass"]
            context.get_pass_context = lambda: types.SimpleNamespace(compile_range=types.SimpleNamespace(start=begin))
            custom = self.inductor_config.get("post_grad_custom_pre_pass")
            if custom is not None:
                assert repr(custom.uuid())
                custom(module.graph)
            module.graph.lint()
            module.recompile()
            self.graphs.append(module.graph)
            return module.forward

        return aot_autograd(fw_compiler=finish, inference_compiler=finish, decompositions=select_decomp_table())(gm, example_inputs)


def rows_of(inputs):
    return next(x.shape[0] for x in inputs if isinstance(x, torch.Tensor))


def backend_kind():
    """A class whose methods the plugin may replace."""
    own = {name: (lambda of: lambda self, *given, **named: of(self, *given, **named))(getattr(Backend, name)) for name in ("__init__", "__call__")}
    return type("VllmBackend", (Backend,), own)


@pytest.fixture
def backend(vllm, monkeypatch):
    """Makes vLLM's backend, with the plugin's pass that plans for an H200, and torch on the CPU."""
    monkeypatch.setattr(warn, "_told", set())
    made = backend_kind()
    module(monkeypatch, "vllm.compilation.backends", VllmBackend=made)
    for_h200 = lambda sizes, applies: server_pass.ServerPass(sizes, applies, Options(target="h200"))
    monkeypatch.setattr(servers, "graph_pass", for_h200)

    def make(encoder=False, **changes):
        import sinter_vllm

        sinter_vllm.register()
        compilation = types.SimpleNamespace(cudagraph_capture_sizes=[1, 2, 40], compile_ranges_endpoints=[8192], inductor_compile_config={})
        config = types.SimpleNamespace(
            compilation_config=compilation,
            parallel_config=types.SimpleNamespace(world_size=1),
            model_config=types.SimpleNamespace(architectures=["GraniteForCausalLM"]),
            lora_config=None,
            additional_config={},
        )
        for name, value in changes.items():
            place, _, field = name.rpartition("__")
            setattr(getattr(config, place) if place else config, field, value)
        return made(config, is_encoder=encoder)

    make.kind = made
    return make


def tensor(*shape):
    return (torch.randn(shape) / shape[-1] ** 0.5).bfloat16()


class Piece(torch.nn.Module):
    """What vLLM's graph of a decoder holds between two attentions. `gemma`: norms of results with weights of (1 + w) in f32, and norms of q and k;
    else Granite's multipliers. `opaque`: an unknown operator instead of the activation."""

    def __init__(self, gemma=False, opaque=None):
        super().__init__()
        torch.manual_seed(3)
        weights = (tensor(HIDDEN, HIDDEN), tensor(2 * INNER, HIDDEN), tensor(HIDDEN, INNER), tensor(3 * HIDDEN, HIDDEN))
        self.o, self.gate_up, self.down, self.qkv = (torch.nn.Parameter(each, requires_grad=False) for each in weights)
        self.norms = torch.nn.ParameterList([torch.nn.Parameter(tensor(HIDDEN), requires_grad=False) for _ in range(4)])
        self.of_heads = torch.nn.Parameter(tensor(HIDDEN // HEADS), requires_grad=False)
        self.gemma, self.opaque = gemma, opaque

    def forward(self, attended, residual):
        ir = torch.ops.vllm_ir
        linear = torch.nn.functional.linear
        one, two, three, four = self.norms
        x = linear(attended.reshape(-1, HIDDEN), self.o)
        if self.gemma:
            x, residual = ir.fused_add_rms_norm(ir.rms_norm(x, one.float() + 1, 1e-6), residual, two.float() + 1, 1e-6)
        else:
            residual = residual + x * 0.22
            x = ir.rms_norm(residual, one, 1e-5)
        both = linear(x, self.gate_up)
        gate, up = both[:, :INNER], both[:, INNER:]
        x = torch.nn.functional.gelu(gate, approximate="tanh") if self.gemma else torch.nn.functional.silu(gate)
        x = linear((self.opaque(x) if self.opaque else x) * up, self.down)
        if self.gemma:
            x, residual = ir.fused_add_rms_norm(ir.rms_norm(x, three.float() + 1, 1e-6), residual, four.float() + 1, 1e-6)
        else:
            residual = residual + x * 0.22
            x = ir.rms_norm(residual, three, 1e-5)
        q, k, v = (part.reshape(-1, HEADS, HIDDEN // HEADS) for part in linear(x, self.qkv).split(HIDDEN, -1))
        if self.gemma:
            q, k = (ir.rms_norm(part, self.of_heads.float() + 1, 1e-6) for part in (q, k))
        return q, k, v, residual


def inputs(rows):
    """An attention's result and the residual stream. As in vLLM, the number of rows is the only symbolic size."""
    torch.manual_seed(8)
    made = torch.randn(rows, HEADS, HIDDEN // HEADS).bfloat16(), torch.randn(rows, HIDDEN).bfloat16()
    for each in made:
        torch._dynamo.mark_dynamic(each, 0)
    return made


def compiled(piece, backend):
    torch._dynamo.reset()
    return torch.compile(piece, backend=backend, fullgraph=True)


def calls(graph):
    return [str(node.target) for node in graph.nodes if node.op == "call_function"]


def check(piece, step, rows):
    with torch.no_grad():
        for found, wanted in zip(step(*inputs(rows)), piece(*inputs(rows))):
            assert found.shape == wanted.shape and close(found, wanted), rows


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Takes parts of the stand-ins' sizes."""
    monkeypatch.setattr("sinter.torch.backend.planner.share_of_limit", lambda *_: 1.0)


@pytest.mark.parametrize("gemma", [False, True])
def test_parts_of_a_decoder_become_operators_up_to_the_captured_rows(backend, caplog, gemma):
    piece, made = Piece(gemma), backend()
    config = made.vllm_config  # vLLM computes keys of its caches from it before it compiles
    assert config.compilation_config.compile_ranges_endpoints == [PLANNED, 8192] and config.additional_config["sinter_graphs"]
    with caplog.at_level(logging.INFO, "vllm.sinter"):
        step = compiled(piece, made)
        for rows in (3, 40, PLANNED, PLANNED + 1, 100):
            check(piece, step, rows)
    below, above = made.graphs
    assert sum("sinter.run_chain" in call for call in calls(below)) == 1 and not any("mm" in call or "vllm_ir" in call for call in calls(below))
    assert sum("aten.mm" in call for call in calls(above)) == 4 and any("vllm_ir" in call for call in calls(above))
    assert not any("sinter" in call for call in calls(above))
    (line,) = [record.getMessage() for record in caplog.records if "graphs" in record.getMessage()]
    assert "active in vLLM's GraniteForCausalLM: 1 parts of 1 graphs" in line and "left: none, for up to 48 rows" in line


@pytest.fixture
def opaque():
    """An operator that the backend does not know."""
    library = torch.library.Library("standin", "DEF")
    library.define("opaque(Tensor x) -> Tensor")
    library.impl("opaque", lambda x: x * torch.sigmoid(x), "CompositeExplicitAutograd")
    torch.library.register_fake("standin::opaque", torch.empty_like, lib=library)
    yield torch.ops.standin.opaque
    library._destroy()


def test_parts_end_at_an_unknown_operator(backend, opaque, monkeypatch, caplog):
    monkeypatch.setattr("sinter.torch.gate.gate._LEAST_FLOP", 1)
    piece, made = Piece(opaque=opaque), backend()
    with caplog.at_level(logging.INFO, "vllm.sinter"):
        check(piece, compiled(piece, made), 40)
    below = calls(made.graphs[0])
    assert "standin.opaque.default" in below and sum("sinter.run_chain" in call for call in below) == 2
    assert "active in vLLM's GraniteForCausalLM: 2 parts of 1 graphs" in caplog.text


def test_what_is_left_is_reported_with_the_reason(backend, opaque, caplog):
    piece, made = Piece(opaque=opaque), backend()
    check(piece, compiled(piece, made), 40)
    assert not any("sinter" in call for call in calls(made.graphs[0]))
    (line,) = [record.getMessage() for record in caplog.records if "graphs of" in record.getMessage()]
    assert "the graphs of vLLM's GraniteForCausalLM keeps its own path: 0 parts of 1 graphs" in line
    assert "(its part is too small)" in line


class Own:
    def __call__(self, graph):
        pass

    def uuid(self):
        return "own"


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({"parallel_config__world_size": 2}, "the model is on 2 GPUs"),
        ({"lora_config": object()}, "LoRA is enabled"),
        ({"compilation_config__use_inductor_graph_partition": True}, "use_inductor_graph_partition"),
        ({"compilation_config__mode": 2}, "vLLM does not compile them by Inductor"),
        ({"compilation_config__backend": "eager"}, "vLLM does not compile them by Inductor"),
        ({"encoder": True}, "they are an encoder's"),
        ({"compilation_config__inductor_compile_config": {"post_grad_custom_pre_pass": Own()}}, "names a pass for post_grad_custom_pre_pass"),
    ],
)
def test_a_model_keeps_its_graphs(backend, caplog, changes, reason):
    piece, made = Piece(), backend(**changes)
    check(piece, compiled(piece, made), 40)
    assert caplog.text.count(reason) == 1
    assert not any("sinter" in call for graph in made.graphs for call in calls(graph))
    assert made.vllm_config.compilation_config.compile_ranges_endpoints == [8192] and not made.vllm_config.additional_config


def test_a_model_keeps_its_graphs_where_no_plan_may_be_built(backend, caplog, monkeypatch):
    monkeypatch.setenv("SINTER_MUST_HIT", "1")
    assert not backend().inductor_config and "SINTER_MUST_HIT" in caplog.text


def test_a_failing_pass_leaves_the_graph_as_it_was(backend, monkeypatch, caplog):
    own = graph_pass.SinterPass._take

    def fails(self, graph):
        own(self, graph)
        assert any("sinter" in call for call in calls(graph))
        raise RuntimeError("the pass is broken")

    piece, made = Piece(), backend()
    unchanged = backend(parallel_config__world_size=2)
    check(piece, compiled(piece, unchanged), 40)
    monkeypatch.setattr(graph_pass.SinterPass, "_take", fails)
    for _ in range(2):
        check(piece, compiled(piece, made), 40)
    assert calls(made.graphs[0]) == calls(unchanged.graphs[0])
    assert caplog.text.count("a graph of the server keeps its own operators: RuntimeError: the pass is broken") == 1


def test_a_graph_with_another_symbolic_size_is_left(backend, caplog):
    piece = lambda x, y: (torch.ops.vllm_ir.rms_norm(x, None, 1e-5), y * 2)
    values = torch.randn(20, 64), torch.randn(9, 64)
    for each in values:
        torch._dynamo.mark_dynamic(each, 0)
    made = backend()
    assert close(compiled(piece, made)(*values)[0], piece(*values)[0])
    assert "it has 2 symbolic sizes" in caplog.text and not any("sinter" in call for call in calls(made.graphs[0]))


def test_a_failing_installation_leaves_the_engine_running(backend, monkeypatch, caplog):
    def fails(sizes, applies):
        raise RuntimeError("no pass")

    monkeypatch.setattr(servers, "graph_pass", fails)
    piece, made = Piece(), backend()
    check(piece, compiled(piece, made), 40)
    assert "RuntimeError: no pass" in caplog.text and not made.inductor_config


def test_keys_of_caches_tell_passes_apart():
    applies = [True]
    keys = [server_pass.ServerPass(sizes, lambda: applies[0], Options(target="h200")).uuid() for sizes in ((1, 8), (1, 8), (1, 16))]
    applies[0] = False
    keys.append(server_pass.ServerPass((1, 8), lambda: applies[0], Options(target="h200")).uuid())
    assert keys[0] == keys[1] and len({repr(key) for key in keys}) == 3
    assert keys[0][0] != graph_pass.SinterPass(Options(target="h200")).uuid()  # which judges parts at another number of rows


def test_plans_are_made_ahead_for_all_captured_rows(backend, monkeypatch):
    asked = []

    class Pending:
        def result(self, timeout):
            asked.append("waited")
            raise sinter.Error(sinter.Status.NO_LEGAL_PLAN, "none")

    class Context:
        def prepare_async(self, chain, m):
            asked.append(m)
            return Pending()

    piece, made = Piece(), backend()
    own = server_pass.ServerPass._prepare

    def prepare(self, part):
        monkeypatch.setattr(self, "_options", Options())
        own(self, part)

    monkeypatch.setattr(server_pass, "context_of", lambda options, device: Context())
    monkeypatch.setattr(server_pass.ServerPass, "_prepare", prepare)
    check(piece, compiled(piece, made), 40)
    assert asked == [1, 8, PLANNED] + ["waited"] * 3


def test_graphs_are_taken_unless_switched_off(vllm, monkeypatch):
    import sinter_vllm

    kind = backend_kind()
    module(monkeypatch, "vllm.compilation.backends", VllmBackend=kind)
    caching = sys.modules["vllm.compilation.caching"]
    own = kind.__init__, kind.__call__
    monkeypatch.setenv("SINTER_VLLM_GRAPHS", "0")
    sinter_vllm.register()
    assert own == (kind.__init__, kind.__call__) and "graphs" not in str(caching.aot_compile_hash_factors(None))
    monkeypatch.delenv("SINTER_VLLM_GRAPHS")
    sinter_vllm.register()
    sinter_vllm.register()
    assert kind.__init__.is_sinters and kind.__call__ is not own[1] and "graphs" in str(caching.aot_compile_hash_factors(None))


@pytest.mark.parametrize("ranks, off, own_calls", [(1, None, 1), (2, None, 0), (1, "0", 0)])
def test_mlps_are_plans_of_their_own_where_no_pass_runs(vllm, backend, monkeypatch, ranks, off, own_calls):
    if off is not None:
        monkeypatch.setenv("SINTER_VLLM_GRAPHS", off)
    config = backend(parallel_config__world_size=ranks).vllm_config
    module(monkeypatch, "vllm.config", get_current_vllm_config=lambda: config)
    mlp = vllm.LlamaMLP()
    mlp(torch.ones(3, 64).bfloat16())
    assert mlp.own_calls == own_calls


def test_inductor_runs_the_pass():
    """By the key of Inductor's configuration under which vLLM hands it over."""
    piece = Piece()
    made = server_pass.ServerPass((1, 8, PLANNED), lambda: True, Options(target="h200"))
    with torch._inductor.config.patch(post_grad_custom_pre_pass=made, force_disable_caches=True):
        torch._dynamo.reset()
        step = torch.compile(piece, fullgraph=True)
        check(piece, step, 20)
        check(piece, step, PLANNED)
    (report,) = made.reports
    assert len(report.taken) == 1 and not report.left


class Hybrid(torch.nn.Module):
    """The ops after a mixer: a gated norm with a row for each head, and the projection of the output. `joins`: an op that joins those rows."""

    def __init__(self, joins=None):
        super().__init__()
        torch.manual_seed(3)
        self.gain = torch.nn.Parameter(torch.rand(HIDDEN).bfloat16(), requires_grad=False)
        self.out = torch.nn.Parameter(tensor(HIDDEN, HEADS * HIDDEN), requires_grad=False)
        self.joins = joins

    def forward(self, x, gate, residual):
        rows = x.reshape(-1, HIDDEN).float()
        rows = rows if self.joins is None else self.joins(rows)
        normed = rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain.float()
        gated = (normed * torch.nn.functional.silu(gate.reshape(-1, HIDDEN).float())).bfloat16()
        x = torch.nn.functional.linear(gated.reshape(x.shape[0], HEADS * HIDDEN), self.out)
        return torch.ops.vllm_ir.fused_add_rms_norm(x, residual, self.gain, 1e-6)


def of_heads(rows):
    torch.manual_seed(8)
    made = *(torch.randn(rows, HEADS, HIDDEN).bfloat16() for _ in range(2)), torch.randn(rows, HIDDEN).bfloat16()
    for each in made:
        torch._dynamo.mark_dynamic(each, 0)
    return made


@pytest.mark.parametrize("joins", [None, lambda rows: rows.cumsum(0), lambda rows: rows - rows.mean(0, keepdim=True)])
def test_a_norm_of_heads_is_in_the_part_of_the_product_after_it(backend, monkeypatch, joins):
    monkeypatch.setattr("sinter.torch.gate.gate._LEAST_FLOP", 1)
    piece, made = Hybrid(joins), backend()
    step = compiled(piece, made)
    for rows in (3, 40, 100):
        with torch.no_grad():
            assert all(close(found, wanted) for found, wanted in zip(step(*of_heads(rows)), piece(*of_heads(rows))))
    assert any("sinter.run_chain" in name for name in calls(made.graphs[0])) == (joins is None)


@pytest.mark.parametrize("argument", [{}, {"variance_size": 64}])
def test_norms_are_those_of_vllm(norms, argument):
    from graphs import passed
    from sinter.torch.runtime import verify

    weight, gain = torch.nn.Parameter(torch.rand(HIDDEN), False), torch.nn.Parameter(torch.rand(HIDDEN).bfloat16(), False)
    matrix = torch.nn.Parameter(tensor(2 * HIDDEN, HIDDEN), False)

    def model(x, residual):
        one = norms.rms_norm(x, weight, 1e-6, **argument)
        two, total = norms.fused_add_rms_norm(one @ matrix[:HIDDEN].T, residual, gain, 1e-6)
        _, three = norms.fused_add_rms_norm(two @ matrix[HIDDEN:].T, total, None, 1e-6)
        return norms.rms_norm(three.view(-1, 4, 32), None, 1e-6), total, three

    values = torch.randn(16, HIDDEN).bfloat16(), torch.randn(16, HIDDEN).bfloat16()
    step, reports = passed(model)
    assert all(close(found, own) for found, own in zip(step(*values), model(*values)))
    left = [why for report in reports for _, why in report.left]
    assert verify.comparisons and all(each.within for each in verify.comparisons)
    assert any("variance" in why for why in left) == bool(argument)


def test_a_sum_with_a_norm_is_normed_before_it_is_rounded(backend, norms):
    """As Gemma's. To round the sum would add as large an error as to round the result."""
    torch.manual_seed(3)
    matrices = tensor(HIDDEN, HIDDEN), tensor(INNER, HIDDEN), tensor(HIDDEN, INNER)
    weights = [torch.rand(HIDDEN) + 1 for _ in range(4)]

    def model(attended, residual, norm=norms.rms_norm, add_norm=norms.fused_add_rms_norm):
        linear = torch.nn.functional.linear
        o, up, down = (matrix.to(residual.dtype) for matrix in matrices)
        x = linear(attended.reshape(-1, HIDDEN), o)
        normed, total = add_norm(norm(x, weights[0], 1e-6), residual, weights[1], 1e-6)
        x = linear(torch.nn.functional.silu(linear(normed, up)), down)
        return (normed, *add_norm(norm(x, weights[2], 1e-6), total, weights[3], 1e-6))

    def norm(x, weight, eps):
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight.double()

    def add_norm(x, residual, weight, eps):
        return norm(x + residual, weight, eps), x + residual

    made = backend()
    step = compiled(model, made)
    found, own, wanted = step(*inputs(40)), model(*inputs(40)), model(*(each.double() for each in inputs(40)), norm, add_norm)
    assert any("sinter.run_chain" in call for call in calls(made.graphs[0]))
    ratios = [((ours.double() - exact).norm() / (each.double() - exact).norm()).item() for ours, each, exact in zip(found, own, wanted)]
    assert ratios[0] < 0.85 and max(ratios) < 1.02, ratios


@pytest.mark.parametrize("positions", [False, True])
def test_a_servers_positions_are_not_counted_from_the_end(positions):
    from torch.fx.experimental.proxy_tensor import make_fx

    from sinter.torch.graph.rows_by_ids import rows_as_gathers

    table, ids = torch.randn(64, 16), torch.tensor([3, 60, 5])
    made = make_fx(lambda table, ids: (table[ids], table[ids - 4]))(table, ids)
    rows_as_gathers(made.graph, positions)
    made.recompile()
    assert calls(made.graph).count("aten.embedding.default") == 2
    assert calls(made.graph).count("aten.lt.Scalar") == (1 if positions else 2)  # of ids that the graph computes nothing is known
    assert all(map(torch.equal, made(table, ids), (table[ids], table[ids - 4])))


@pytest.mark.parametrize("how, in_turn", [("block", False), ("server", True)])
def test_a_captured_plan_of_a_server_shares_the_streams_workspace(monkeypatch, how, in_turn):
    """Its zeros are written once, not in each replay, and it may begin while the kernel ahead ends."""
    launched = []
    b = sinter.Builder()
    b.output(b.input("f32", [8, 64]) * 0.3 + 1.0)
    chain = b.finish()
    workspaces = types.SimpleNamespace(address=lambda stream, size: 1 << 20, reserve=lambda: None)
    plan = types.SimpleNamespace(
        workspace_size=4096,
        predicted_us=1.0,
        kernel_count=1,
        context=types.SimpleNamespace(_workspaces=workspaces),
        _launch=lambda *given: launched.append(given[1:]),
    )
    monkeypatch.setattr(run_chain, "current_of_torch", lambda device: 7)
    monkeypatch.setattr(run_chain, "workspace_of_call", lambda *_: torch.empty(4096, dtype=torch.uint8))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    monkeypatch.setattr(run_chain.Carried, "place", lambda *_: types.SimpleNamespace(plan=plan, refused=None, limit_us=None))
    run_chain._run_cuda([torch.randn(8, 64)], 0, run_chain.pack(chain), how)
    ((workspace, stream, m, pdl),) = launched
    assert (workspace == 1 << 20) == in_turn and pdl == in_turn and (stream, m) == (7, 0)
