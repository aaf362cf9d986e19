"""vLLM itself, where it is installed: its pass manager, given Sinter's pass, on a layer's operator. Needs no GPU.

    python3 tests/bindings/python/vllm_passes.py        run by test_vllm_rows.py, in a process of its own

PYTHONPATH holds bindings/python and the plugin.
"""

import os
import sys

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._inductor.decomposition import select_decomp_table
from vllm.compilation.passes.inductor_pass import pass_context
from vllm.compilation.passes.pass_manager import PostGradPassManager
from vllm.compilation.passes.utility.fix_functionalization import FixFunctionalizationPass
from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
from vllm.config.utils import Range
from vllm.platforms import current_platform
from vllm.platforms.interface import DeviceCapability

import sinter_vllm
from sinter.torch import servers
from sinter_vllm import _prefill

PLANNED = 48


def tensor(*shape):
    return (torch.randn(shape) / shape[-1] ** 0.5).bfloat16()


def compiled(function, config, compile_range, calls):
    """`function` compiled through vLLM's passes for a range; `calls` gets what its graph calls."""

    def finish(module, examples):
        manager = PostGradPassManager()
        manager.configure(config)
        with pass_context(Range(*compile_range)), set_current_vllm_config(config):
            manager(module.graph)
            assert "sinter" in str([one.uuid() for one in manager.passes]) and manager.uuid()
        module.graph.lint()
        module.recompile()
        calls.extend(str(node.target) for node in module.graph.nodes if node.op == "call_function")
        return module.forward

    torch._dynamo.reset()
    backend = aot_autograd(fw_compiler=finish, inference_compiler=finish, decompositions=select_decomp_table())
    return torch.compile(function, backend=backend, fullgraph=True, dynamic=True)


def main():
    # Replaces two things that need a GPU: its capability, and the kernels that the last pass looks up.
    type(current_platform).get_device_capability = classmethod(lambda *_, **__: DeviceCapability(9, 0))
    FixFunctionalizationPass.__call__ = lambda self, graph: None
    sinter_vllm.register()
    os.environ[servers.PREFILL_VARIABLE] = "0"
    servers.set_up(None, (1, 8, PLANNED))
    config = VllmConfig(device_config=DeviceConfig(device="cpu"))
    last = max(config.compilation_config.compile_ranges_endpoints)
    _prefill.end_range(config.compilation_config, PLANNED)
    ranges = config.compilation_config.get_compile_ranges()
    assert [(one.start, one.end) for one in ranges] == [(1, PLANNED), (PLANNED + 1, last)], ranges
    before = config.compute_hash()
    sinter_vllm._name_in_config(config, "up to 48 rows, folded")
    assert config.compute_hash() != before

    shapes = (64, 128), (64,), (192, 64), (64, 96), (64,), (192, 64)
    weights = [tensor(*shape).abs() if len(shape) == 1 else tensor(*shape) for shape in shapes]
    layer = lambda attended, stream: torch.ops.sinter.between_attentions(attended, stream, weights, 1e-5)
    for one in ranges:
        calls = []
        step = compiled(layer, config, (one.start, one.end), calls)
        for rows in (one.start + 3, one.start + 7):
            values = tensor(rows, 128), tensor(rows, 64)
            with torch.no_grad():
                for found, wanted in zip(step(*values), layer(*values)):
                    error = (found.float() - wanted.float()).norm() / wanted.float().norm()
                    assert error < 1e-2, (rows, error)
        served = one.end == PLANNED
        assert any("sinter" in call for call in calls) == served, calls
        assert not any("vllm_ir" in call for call in calls), calls  # lowered
        assert served or sum("aten.mm" in call for call in calls) == 4, calls
    print("passed")


if __name__ == "__main__":
    sys.exit(main())
