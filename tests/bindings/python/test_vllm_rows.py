"""vLLM's plugin: rows that no plan serves take vLLM's own operators, and norms are folded where a plan would use it."""

import importlib.util
import os
import pathlib
import subprocess
import sys
import types

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode

import sinter
import sinter.torch
from sinter.torch import servers
from sinter.torch.runtime import store
from sinter.torch.serve import between_op, expand_operators, fold_norms
from sinter.torch.serve.between_chain import between_chain

from test_plugins import PLUGINS, Mlp, Model, clean, close, own_and_taken, sglang, vllm  # noqa: F401
from test_torch import layer_tensors

PLANNED = 48  # what 40 captured rows are prepared for
MOST = 640  # rows that plans are made for in the background


@pytest.fixture(autouse=True)
def most_rows(monkeypatch):
    monkeypatch.setenv("SINTER_PREFILL_ROWS", str(MOST))


class Ops(TorchDispatchMode):
    """The operators that are called."""

    def __enter__(self):
        self.names = []
        return super().__enter__()

    def __torch_dispatch__(self, function, types, arguments=(), named=None):
        self.names.append(str(function))
        return function(*arguments, **(named or {}))

    def sinters(self):
        return [name for name in self.names if name.startswith("sinter.")]


def inputs(rows):
    torch.manual_seed(8)
    return torch.arange(rows), torch.randn(rows, 64).bfloat16()


def test_more_rows_than_are_planned_take_vllms_modules(vllm):
    for kind, mlp in vllm.models:
        _, _, taken = own_and_taken(vllm, kind, mlp)
        for rows, operators in ((PLANNED, 3), (PLANNED + 1, 3), (MOST, 3), (MOST + 1, 0)):
            with Ops() as ops:
                result = taken(*inputs(rows))
            assert len(ops.sinters()) == operators
            own = Model.__call__(plain(kind, mlp), *inputs(rows))
            assert close(result, own) and torch.equal(result, own) == (operators == 0)


def plain(kind, mlp, **options):
    """A model whose layers are vLLM's own, whatever the plugin did to the classes."""
    model = kind(mlp, **options)
    for layer in model.layers:
        layer.mlp.forward = layer.mlp.own
    return model


def test_mlps_of_more_rows_are_vllms(vllm):
    import sinter_vllm

    sinter_vllm.register()
    mlp = vllm.LlamaMLP()
    mlp(torch.ones(MOST + 1, 64).bfloat16())
    assert mlp.own_calls == 1
    mlp(torch.ones(MOST, 64).bfloat16())
    assert mlp.own_calls == 1


def test_sglangs_mlps_of_more_rows_are_its_own(sglang, monkeypatch):
    import sinter_sglang

    monkeypatch.setattr(sinter_sglang, "_is_hopper", lambda x: True)
    sinter_sglang.register()
    forward = sglang.registry.apply("sglang.srt.models.llama.LlamaMLP.forward", lambda self, x: self.own(x))
    mlp = Mlp()
    for rows, calls in ((MOST, 0), (MOST + 1, 1)):
        forward(mlp, torch.ones(rows, 64).bfloat16())
        assert mlp.own_calls == calls


def test_plans_are_prepared_though_the_first_rows_are_too_many(vllm, sglang, monkeypatch):
    from torch._subclasses.fake_tensor import FakeTensorMode

    import sinter_sglang
    import sinter_vllm

    seen, found = [], []
    monkeypatch.setattr(servers, "see_mlp", lambda gate_up, down: seen.append(tuple(gate_up.shape)))
    monkeypatch.setattr(sinter_sglang, "_is_hopper", lambda x: True)
    sinter_vllm.register()
    kind, mlp = vllm.models[0]
    model = kind(mlp)
    model.aux_hidden_state_layers = (1,)  # not linked
    model(*inputs(MOST + 1))
    assert seen == [(256, 64)] * 3
    sinter_sglang.register()
    forward = sglang.registry.apply("sglang.srt.models.llama.LlamaMLP.forward", lambda self, x: self.own(x))
    for one in (Mlp(), Mlp(bias=True)):
        for _ in range(2):
            forward(one, torch.ones(MOST + 1, 64).bfloat16())
    assert len(seen) == 4
    monkeypatch.undo()
    monkeypatch.setattr(store.store, "settings", store.Settings((8, 512), "torch"))
    monkeypatch.setattr(store.store, "find", lambda *asked: found.append(asked))
    with FakeTensorMode():
        servers.see_mlp(*(torch.empty(shape, dtype=torch.bfloat16, device="cuda") for shape in ((256, 64), (64, 128))))
    servers.see_mlp(torch.empty(256, 64), torch.empty(64, 128))  # not on a GPU
    assert found == [(0, "gated_ffn m=M n=128 k=64 l=64 act=silu layout=oi dtype=bf16", 8)]


# ---------------------------------------------------------------- Compiled


def compiled(vllm, function, compile_range):
    """`function` compiled as vLLM compiles a graph for a range, and the graphs that came of it. The number of rows is the only symbolic size."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._inductor.decomposition import select_decomp_table

    manager = vllm.PassManager(compile_range)
    manager.configure(None)
    graphs = []

    def finish(module, examples):
        manager(module.graph)
        module.graph.lint()
        module.recompile()
        graphs.append(module.graph)
        return module.forward

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=finish, inference_compiler=finish, decompositions=select_decomp_table())
    step = torch.compile(function, backend=backend, fullgraph=True)

    def of_any_rows(*inputs):
        for x in inputs:
            torch._dynamo.mark_dynamic(x, 0)
        return step(*inputs)

    return of_any_rows, graphs


def calls(graph):
    return [str(node.target) for node in graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("folded", [False, True])
def test_a_graph_above_all_plans_holds_vllms_operators(vllm, folded, monkeypatch):
    monkeypatch.setenv("SINTER_VLLM_FOLD", "1")
    monkeypatch.setattr(servers, "folding_pays", lambda weights, eps: folded)
    kind, mlp = vllm.models[0]
    own, _, taken = own_and_taken(vllm, kind, mlp)
    assert hasattr(taken, "sinter_folded") == folded
    for compile_range, operators in (((1, MOST), 2), ((MOST + 1, 2 * MOST), 0)):
        with torch.no_grad():
            step, graphs = compiled(vllm, taken.forward, compile_range)
            for rows in (compile_range[0] + 5, compile_range[0] + 9):
                result = step(*inputs(rows))
                assert close(result, Model.__call__(plain(kind, mlp), *inputs(rows)))
        (graph,) = graphs
        assert sum("between_attentions" in call for call in calls(graph)) == operators
        assert operators or not any("sinter" in call or "aten.linear" in call for call in calls(graph))


def test_a_graph_of_an_mlp_is_expanded(vllm):
    import sinter_vllm

    sinter_vllm.register()
    mlp = vllm.LlamaMLP()
    for compile_range, operators in (((1, MOST), 1), ((MOST + 1, 2 * MOST), 0)):
        step, graphs = compiled(vllm, mlp, compile_range)
        x = torch.randn(compile_range[0] + 3, 64).bfloat16()
        assert close(step(x), mlp.own(x)) and sum("gated_mlp" in call for call in calls(graphs[0])) == operators


def test_vllms_norm_is_left_to_its_lowering(vllm):
    """If the process has vLLM's operator for a norm, the graph holds it once for each norm."""
    library = torch.library.Library("vllm_ir", "FRAGMENT")
    library.define("fused_add_rms_norm(Tensor x, Tensor x_residual, Tensor? weight, float epsilon) -> (Tensor, Tensor)")
    try:
        library.impl("fused_add_rms_norm", expand_operators.add_norm, "CompositeExplicitAutograd")
        torch.library.register_fake("vllm_ir::fused_add_rms_norm", expand_operators.add_norm, lib=library)
        kind, mlp = vllm.models[0]
        _, _, taken = own_and_taken(vllm, kind, mlp)
        with torch.no_grad():
            step, graphs = compiled(vllm, taken.forward, (MOST + 1, 2 * MOST))
            assert close(step(*inputs(MOST + 60)), Model.__call__(plain(kind, mlp), *inputs(MOST + 60)))
        assert sum("fused_add_rms_norm" in call for call in calls(graphs[0])) == 4
    finally:
        library._destroy()


def test_inductor_takes_what_is_expanded(vllm):
    import sinter_vllm

    sinter_vllm.register()
    mlp, manager = vllm.LlamaMLP(), vllm.PassManager((MOST + 1, 2 * MOST))
    manager.configure(None)
    torch._dynamo.reset()
    with torch.no_grad(), torch._inductor.config.patch(post_grad_custom_post_pass=manager, fx_graph_cache=False):
        step, x = torch.compile(mlp, fullgraph=True, dynamic=True), torch.randn(MOST + 600, 64).bfloat16()
        result, (code,) = torch._inductor.utils.run_and_get_code(step, x)
    assert "sinter" not in code.replace("sinter_vllm", "") and close(result, mlp.own(x))


@pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vLLM is not installed")
def test_vllms_own_passes_take_the_expansion():
    paths = (pathlib.Path(sinter.__file__).parents[1], PLUGINS / "sinter-vllm")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}
    script = pathlib.Path(__file__).with_name("vllm_passes.py")
    found = subprocess.run([sys.executable, "-B", str(script)], env=environment, capture_output=True, text=True, timeout=280)
    assert found.stdout.endswith("passed\n"), found.stderr[-2000:]


@pytest.mark.parametrize("asked, end", [("", PLANNED), ("0", PLANNED), ("48", PLANNED), ("512", PLANNED), ("2048", 2048), ("8192", 8192)])
@pytest.mark.parametrize("most", [8192, 16384])
def test_vllm_compiles_a_range_for_the_plans(vllm, monkeypatch, asked, end, most):
    monkeypatch.setenv("SINTER_PREFILL_ROWS", asked)
    kind, mlp = vllm.models[0]
    monkeypatch.setattr(kind, "endpoints", [most])
    _, _, taken = own_and_taken(vllm, kind, mlp)
    config = taken.vllm_config
    assert config.compilation_config.compile_ranges_endpoints == sorted({end, most})
    assert config.additional_config == {"sinter": f"up to {end} rows"}


def test_an_endpoint_is_added_where_plans_end(vllm):
    import sinter_vllm._prefill as prefill

    for endpoints, rows, wanted in (([32], 48, [32]), (None, 48, None), ([64, 8192], 64, [64, 8192]), ([8192], 0, [8192])):
        config = types.SimpleNamespace(compile_ranges_endpoints=endpoints)
        prefill.end_range(config, rows)
        assert config.compile_ranges_endpoints == wanted
    import sinter_vllm

    sinter_vllm.register()
    manager = vllm.PassManager((1, 48))
    manager.configure(None)
    assert len(manager.passes) == 2 and f"sinter {sinter.__version__}" in manager.uuid()


def test_vllms_own_passes_come_behind_the_expansion(vllm):
    import sinter_vllm
    from torch._inductor.custom_graph_pass import CustomGraphPass

    class Fuse(sys.modules["vllm.compilation.passes.inductor_pass"].InductorPass):
        """Like vLLM's pass for sums and norms, which knows only vLLM's operators."""

        def __call__(self, graph):
            self.seen = calls(graph)

        def uuid(self):
            return "fuse"

    sinter_vllm.register()
    fuse = Fuse()
    assert isinstance(fuse, CustomGraphPass)
    own = vllm.PassManager.configure
    vllm.PassManager.configure = lambda self, config: own(self, [fuse])
    step, _ = compiled(vllm, vllm.LlamaMLP(), (MOST + 1, 2 * MOST))
    step(torch.randn(MOST + 3, 64).bfloat16())
    assert any("aten.mm" in call for call in fuse.seen) and not any("sinter" in call for call in fuse.seen)


# ---------------------------------------------------------------- Folded norms


def folding(vllm, monkeypatch, pays=True, **options):
    monkeypatch.setenv("SINTER_VLLM_FOLD", "1")
    monkeypatch.setattr(servers, "folding_pays", lambda weights, eps: pays)
    kind, mlp = vllm.models[0]
    return own_and_taken(vllm, kind, mlp, **options)


def test_norms_are_folded_into_the_matrices_behind(vllm, monkeypatch):
    own, result, taken = folding(vllm, monkeypatch)
    kind, mlp = vllm.models[0]
    before = kind(mlp)
    assert taken.sinter_folded and close(result, own)
    for i, (layer, was) in enumerate(zip(taken.layers, before.layers)):
        pairs = ((layer.input_layernorm, was.input_layernorm, layer.self_attn.qkv_proj, was.self_attn.qkv_proj, i > 0),)
        pairs += ((layer.post_attention_layernorm, was.post_attention_layernorm, layer.mlp.gate_up_proj, was.mlp.gate_up_proj, i < 2),)
        for norm, old, linear, plain_linear, folded in pairs:
            assert bool((norm.weight == 1).all()) == folded
            wanted = (plain_linear.weight.float() * old.weight.float()).bfloat16() if folded else plain_linear.weight
            assert torch.equal(linear.weight, wanted)
    assert taken.vllm_config.additional_config["sinter"].endswith(", folded")
    assert taken.state_dict().keys() == before.state_dict().keys()
    assert close(taken(*inputs(60)), Model.__call__(plain(kind, mlp), *inputs(60)))  # prefill


def test_a_folded_model_refuses_weights(vllm, monkeypatch):
    _, _, taken = folding(vllm, monkeypatch)
    with pytest.raises(RuntimeError, match="SINTER_VLLM_FOLD=1"):
        taken.load_weights([("layers.0.mlp.down_proj.weight", None)])
    _, _, other = folding(vllm, monkeypatch, pays=False)
    assert other.load_weights([("a", None)]) == {"a"} and not hasattr(other, "sinter_folded")


@pytest.mark.parametrize(
    "asked, change, folded", [("1", {}, True), ("", {}, False), ("0", {}, False), ("1", dict(additional_config=object()), False)]
)
def test_norms_are_folded_where_it_is_asked_for(vllm, monkeypatch, asked, change, folded):
    import sinter_vllm

    monkeypatch.setenv("SINTER_VLLM_FOLD", asked)
    monkeypatch.setattr(servers, "folding_pays", lambda weights, eps: True)
    kind, mlp = vllm.models[0]
    sinter_vllm.register()
    model = kind(mlp)
    vars(model.vllm_config).update(change)
    model(*inputs(3))
    assert getattr(model, "sinter_folded", False) == folded


def test_what_would_be_rounded_away_is_not_folded(vllm, monkeypatch):
    matrix = torch.randn(3000, 64).bfloat16()
    fine, huge = torch.rand(64).bfloat16() + 0.5, torch.full((64,), 1e38).bfloat16()
    assert servers.folds([(fine, matrix)]) and not servers.folds([(fine, matrix), (huge, matrix * 100)])
    assert not servers.folds([(torch.full((64,), 1e4).half(), matrix.half() * 10)])  # overflows
    assert not servers.folds([(torch.full((64,), 1e-3).half(), matrix.half() * 1e-3)])  # too small for f16's normal numbers
    assert not servers.folds([(fine * float("nan"), matrix)])
    assert servers.folds([])
    exact = (matrix.float() * fine.float()).bfloat16()
    fold_norms.fold([(fine, matrix)])
    assert torch.equal(matrix, exact) and torch.equal(fine, torch.ones_like(fine))


def test_a_folded_layer_launches_without_its_norms(monkeypatch):
    attended, stream, weights = layer_tensors()
    launched, asked = [], []
    monkeypatch.setattr(between_op, "launch", lambda plan, addresses, *rest, **more: launched.append(addresses))
    monkeypatch.setattr(between_op.store, "find", lambda device, key, rows: asked.append(key) or "plan")
    for folded in (False, True):
        between_op._between_cuda(attended, stream, weights, 1e-6, folded)
    o, norm, gate_up, down, next_norm, next = (weight.data_ptr() for weight in weights)
    up = gate_up + 96 * 64 * 2
    assert launched[0][2:-2] == (o, norm, gate_up, up, down, next_norm, next)
    assert launched[1][2:-2] == (o, gate_up, up, down, next) and asked[0] != asked[1]
    assert [len(store.chains[key].buffers(5)) for key in asked] == [11, 9]


@pytest.mark.parametrize("rows, pays", [(8, True), (384, False)])
def test_folding_pays_where_products_compute_norms(context, need_compiler, monkeypatch, rows, pays):
    from torch._subclasses.fake_tensor import FakeTensorMode

    monkeypatch.setattr(store.store, "settings", store.Settings((rows, 512), "torch"))
    asked = []

    def find_chain(device, chain, key, size):
        asked.append((device, size))
        return context.prepare(chain, size)

    monkeypatch.setattr(store.store, "find_chain", find_chain)
    shapes = (1024, 1024), (1024,), (6144, 1024), (1024, 3072), (1024,), (2048, 1024)
    with FakeTensorMode():
        weights = [torch.empty(shape, dtype=torch.bfloat16, device="cuda") for shape in shapes]
        assert servers.folding_pays(weights, 1e-6) == pays and asked == [(0, rows)]
    assert not servers.folding_pays([torch.empty(shape) for shape in shapes], 1e-6)  # not on a GPU

    def refused(*_):
        raise sinter.Error(sinter.Status.NO_LEGAL_PLAN, "none")

    monkeypatch.setattr(store.store, "find_chain", refused)
    with FakeTensorMode():
        assert not servers.folding_pays(weights, 1e-6)
    found = []
    monkeypatch.setattr(store.store, "find", lambda device, key, size: found.append((device, size)) or None)
    with FakeTensorMode():
        assert not servers.planned(weights, 1e-6, True) and found == [(0, rows)]
    assert servers.planned([torch.empty(shape) for shape in shapes], 1e-6, True)  # not on a GPU


@pytest.mark.parametrize("there", ["none", "unfolded", "unfolded of the last layer", "all"])
def test_norms_are_folded_once_all_plans_are_there(vllm, monkeypatch, there):
    kind, mlp = vllm.models[0]
    before, asked, own_fold = kind(mlp), [], servers.fold

    def planned(weights, eps, folded, group):
        asked.append(folded)
        missing = {"none": True, "unfolded": folded, "all": False}.get(there, folded and asked.count(True) == 2)
        return not missing

    def fold(pairs):
        assert asked == [True] * 2
        own_fold(pairs)

    monkeypatch.setattr(servers, "planned", planned)
    monkeypatch.setattr(servers, "fold", fold)
    own, result, taken = folding(vllm, monkeypatch)
    assert close(result, own) and any(hasattr(layer, "sinter_after") for layer in taken.layers) == (there != "none")
    assert hasattr(taken, "sinter_folded") == (there == "all") and asked[0]
    weights, as_loaded = taken.state_dict(), before.state_dict()
    assert all(torch.equal(weights[name], as_loaded[name]) for name in weights) == (there != "all")
    if there != "all":
        assert taken.load_weights([("a", None)]) == {"a"}
