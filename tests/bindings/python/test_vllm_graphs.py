"""vLLM's plugin on the graphs of any decoder, against stand-ins of vLLM's backend and of its norms' operators."""

import logging
import sys
import types

import pytest

torch = pytest.importorskip("torch")

import sinter
from sinter.torch import servers
from sinter.torch.backend import graph_pass, server_pass
from sinter.torch.runtime import warn
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

    inductor_config_of_user = {}

    def __init__(self, vllm_config):
        self.vllm_config, self.is_encoder, self.inductor_config = vllm_config, False, dict(self.inductor_config_of_user)
        self.graphs = []

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


@pytest.fixture
def backend(vllm, monkeypatch):
    """Makes vLLM's backend, with the plugin's pass that plans for an H200, and torch on the CPU."""
    monkeypatch.setenv("SINTER_VLLM_GRAPHS", "1")
    monkeypatch.setattr(warn, "_told", set())
    made = type("VllmBackend", (Backend,), {"__call__": lambda self, *arguments: Backend.__call__(self, *arguments)})
    module(monkeypatch, "vllm.compilation.backends", VllmBackend=made)
    for_h200 = lambda sizes, applies: server_pass.ServerPass(sizes, applies, Options(target="h200"))
    monkeypatch.setattr(servers, "graph_pass", for_h200)

    def make(**changes):
        import sinter_vllm

        sinter_vllm.register()
        compilation = types.SimpleNamespace(cudagraph_capture_sizes=[1, 2, 40], compile_ranges_endpoints=[8192])
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
        return made(config)

    make.kind = made
    return make


def tensor(*shape):
    return (torch.randn(shape) / shape[-1] ** 0.5).bfloat16()


class Piece(torch.nn.Module):
    """What vLLM's graph of a decoder holds between two attentions. `gemma`: norms of results with weights of (1 + w) in f32, and norms of q and k;
    else Granite's multipliers. `opaque`: an operator that is not known, in the place of the activation."""

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
    with caplog.at_level(logging.INFO, "vllm.sinter"):
        step = compiled(piece, made)
        for rows in (3, 40, PLANNED, PLANNED + 1, 100):
            check(piece, step, rows)
    below, above = made.graphs
    assert made.vllm_config.compilation_config.compile_ranges_endpoints == [PLANNED, 8192]
    assert sum("sinter.run_chain" in call for call in calls(below)) == 1 and not any("mm" in call or "vllm_ir" in call for call in calls(below))
    assert sum("aten.mm" in call for call in calls(above)) == 4 and any("vllm_ir" in call for call in calls(above))
    assert not any("sinter" in call for call in calls(above))
    (line,) = [record.getMessage() for record in caplog.records if "graphs" in record.getMessage()]
    assert "active in vLLM's GraniteForCausalLM: 1 parts of 1 graphs" in line and "left: none" in line
    assert made.vllm_config.additional_config["sinter_graphs"]
