"""vLLM's plugin: whatever fails in it, vLLM's server starts and computes by itself. Faults are put into each step."""

import sys

import pytest

torch = pytest.importorskip("torch")

import sinter
from sinter.torch import servers
from sinter.torch.backend import graph_pass, planner, server_pass
from sinter.torch.graph import put_back
from sinter.torch.runtime import warn
from sinter.torch.runtime.options import Options

from test_plugins import Model, clean, close, vllm  # noqa: F401
from test_vllm_graphs import Piece, backend, calls, check, compiled, inputs, norms, small  # noqa: F401

#: Functions that the pass calls on a graph, by the module that names them.
STEPS = [(graph_pass, name) for name in (
    "context_of", "join_sums_over_steps", "sum_one_hots", "copy_of", "experts_as_operators", "slices_for_splits", "few_elements", "rows_of_heads", "rows_as_gathers",
    "repeat_pixels", "interpolations", "views_of_their_own", "tell_parts", "tell_products", "lay_channels_last", "_constants", "scales_and_shifts", "lay_filters",
    "join_neighbours", "casts_of_weights", "of_constants", "share_again", "put_rest_back", "lay_back", "made_together", "write_out", "call_parts_directly",
    "stable_topological_sort", "forget_what_was")]
STEPS += [(planner.Planner, "parts"), (planner.Planner, "replace"), (server_pass, "_symbols_of"), (server_pass.ServerPass, "_prepare"), (put_back, "copy_of")]


@pytest.fixture
def graph(backend):
    """The graph of a piece as Inductor hands it to the pass."""
    own = backend(parallel_config__world_size=2)
    compiled(Piece(), own)(*inputs(40))
    return own.graphs[0]


def form(graph):
    """A graph as text, whatever its nodes are called."""
    numbers = {node: i for i, node in enumerate(graph.nodes)}
    return [(node.op, str(node.target) if node.op != "placeholder" else "", str(torch.fx.node.map_arg((node.args, node.kwargs), lambda one: f"n{numbers[one]}"))) for node in graph.nodes]


@pytest.mark.parametrize("after", [False, True])
def test_a_fault_in_any_step_of_the_pass_leaves_the_graph_as_it_was(graph, monkeypatch, caplog, after):
    before, reached = form(graph), []
    for owner, name in STEPS:
        own, options = getattr(owner, name), Options(target="h200")

        def fails(*arguments, own=own, name=name, **named):
            reached.append(name)
            if after:
                own(*arguments, **named)
            raise RuntimeError(f"a fault in {name}")

        made = server_pass.ServerPass((1, 8), lambda: True, options)
        with monkeypatch.context() as patch:
            patch.setattr(warn, "_told", set())
            patch.setattr(owner, name, fails)
            made(graph)
        graph.lint()
        assert form(graph) == before and not made.reports, name
        assert f"a fault in {name}" in caplog.text or name not in reached, name
    assert {name for _, name in STEPS} - set(reached) <= {"lay_back", "put_rest_back"}, "a step is not reached"
    made = server_pass.ServerPass((1, 8), lambda: True, Options(target="h200"))
    made(graph)
    assert form(graph) != before and made.reports[0].taken


def test_a_context_that_vllm_does_not_set_leaves_the_graph(graph, caplog, monkeypatch):
    monkeypatch.setattr(warn, "_told", set())

    def fails():
        raise AssertionError("no context is set")

    before, made = form(graph), server_pass.ServerPass((1, 8), fails, Options(target="h200"))
    made(graph)
    assert form(graph) == before and "AssertionError: no context is set" in caplog.text
    assert made.uuid() and made.uuid() != made.uuid()  # nothing in a cache is found by it


class Manager:
    """vLLM's CompilerManager: runs the pass, then Inductor, which may fail on parts."""

    def __init__(self, fails):
        self.fails, self.made, self.compiled = fails, None, []

    def compile(self, graph, inputs, config):
        copy = torch.fx.Graph()
        copy.output(copy.graph_copy(graph, {}))
        self.made(copy)
        if self.fails(copy):
            raise RuntimeError("Inductor fails")
        self.compiled.append(calls(copy))
        return "compiled"


@pytest.mark.parametrize("always", [False, True])
def test_a_piece_that_does_not_compile_with_parts_compiles_without(graph, backend, caplog, always):
    from sinter_vllm import _graphs

    manager = Manager(lambda graph: always or any("sinter" in call for call in calls(graph)))
    manager.made = made = server_pass.ServerPass((1, 8), lambda: True, Options(target="h200"))
    _graphs._compile_again_without(manager, made, servers)
    if always:  # it is not the pass's fault, and the error is vLLM's to tell
        with pytest.raises(RuntimeError, match="Inductor fails"):
            manager.compile(graph, [], config={})
        return
    for _ in range(2):
        assert manager.compile(graph, [], config={}) == "compiled"
    assert len(manager.compiled) == 2 and not any("sinter" in call for each in manager.compiled for call in each)
    assert not made.reports and caplog.text.count("a piece with parts does not compile: RuntimeError: Inductor fails") == 1


def test_the_pass_of_an_engine_has_that_net(backend, monkeypatch):
    own = backend.kind.__init__
    manager = Manager(lambda graph: False)

    def __init__(self, *arguments, **named):
        own(self, *arguments, **named)
        self.compiler_manager = manager

    monkeypatch.setattr(backend.kind, "__init__", __init__)
    made = backend()
    assert made.inductor_config and "compile" in vars(made.compiler_manager)


STARTS = ["servers.set_up", "_replace", "_watch", "_experts.watch", "_prefill.watch", "_sampler.watch", "_graphs.watch", "_silu_and_mul"]


@pytest.mark.parametrize("step", STARTS)
def test_a_fault_in_the_registration_is_a_warning(vllm, monkeypatch, caplog, step):
    import sinter_vllm
    from sinter_vllm import _experts, _graphs, _prefill, _sampler

    places = {"servers": servers, "_experts": _experts, "_graphs": _graphs, "_prefill": _prefill, "_sampler": _sampler}
    place, _, name = step.rpartition(".")

    def fails(*arguments, **named):
        raise ValueError("a fault")

    monkeypatch.setattr(places.get(place, sinter_vllm), name, fails)
    sinter_vllm.register()
    assert "a fault" in caplog.text
    kind, mlp = vllm.models[0]
    model, values = kind(mlp), (torch.arange(5), torch.randn(5, 64).bfloat16())
    assert close(model(*values), Model.forward(kind(mlp), *values))


def test_only_a_wrong_variable_ends_the_start(vllm, monkeypatch, caplog):
    import sinter_vllm

    monkeypatch.setenv(servers.PREFILL_VARIABLE, "many")
    with pytest.raises(sinter.Error, match="SINTER_PREFILL_ROWS is 'many'"):
        sinter_vllm.register()
    monkeypatch.setenv(servers.VARIABLE, "0")
    sinter_vllm.register()  # it matters to nobody
    monkeypatch.delenv(servers.VARIABLE)
    monkeypatch.setitem(sys.modules, "sinter.torch", None)  # as if the library is missing
    sinter_vllm.register()
    assert "vLLM keeps its own path: " in caplog.text


LINKS = ["_layers.quantizer_of", "_layers.reason_against", "_layers.planned", "_layers.replace", "_layers.link", "_layers.Passed", "_draft_states.keep_streams", "_prefill.end_range", "_set_up"]


@pytest.mark.parametrize("step", LINKS)
def test_a_fault_while_layers_are_linked_leaves_them_to_vllm(vllm, monkeypatch, caplog, step):
    import sinter_vllm
    from sinter_vllm import _layers, _prefill, _draft_states

    places = {"_layers": _layers, "_prefill": _prefill, "_draft_states": _draft_states}
    place, _, name = step.rpartition(".")
    owner = places.get(place, sinter_vllm)
    sinter_vllm.register()

    def fails(*arguments, **named):
        raise ValueError("a fault")

    if name == "Passed":
        monkeypatch.setattr(_layers.Passed, "__init__", _failing_later(_layers.Passed.__init__, 3))
    else:
        monkeypatch.setattr(owner, name, fails)
    kind, mlp = vllm.models[0]
    model, values = kind(mlp), (torch.arange(5), torch.randn(5, 64).bfloat16())
    wanted = Model.forward(kind(mlp), *values)
    for _ in range(2):
        assert close(model(*values), wanted)
    assert "a fault" in caplog.text
    assert not any(key.startswith("sinter_") for layer in model.layers for key in vars(layer))
    assert not any(isinstance(one, _layers.Passed) for one in model.modules())
    assert model.state_dict().keys() == kind(mlp).state_dict().keys()


def _failing_later(own, good):
    """The function, which fails after `good` calls."""
    calls = []

    def __init__(self, *arguments):
        calls.append(1)
        if len(calls) > good:
            raise ValueError("a fault")
        own(self, *arguments)

    return __init__


def test_a_fault_in_the_passes_for_more_rows_leaves_the_graph(vllm, graph, monkeypatch, caplog):
    import sinter_vllm

    monkeypatch.setattr(warn, "_told", set())
    sinter_vllm.register()
    before = form(graph)

    def fails(graph, *more, **named):
        graph.erase_node(next(node for node in reversed(graph.nodes) if node.op == "output"))
        raise ValueError("a fault")

    manager = vllm.PassManager((servers.largest() + 1, 8192))
    manager.configure(None)
    monkeypatch.setattr(servers, "expand", fails)
    manager(graph)
    assert form(graph) == before and "ValueError: a fault" in caplog.text


def test_a_pass_manager_of_another_structure_keeps_its_passes(vllm, monkeypatch, caplog):
    import sinter_vllm

    sinter_vllm.register()
    manager = vllm.PassManager((1, 8))

    def add(self, one):
        raise TypeError("takes two passes")

    monkeypatch.setattr(vllm.PassManager, "add", add)
    manager.configure(["own"])
    assert manager.passes == ["own"] and "TypeError: takes two passes" in caplog.text
