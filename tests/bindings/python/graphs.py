"""Models through the backend's pass without Inductor's compilers: the graph runs node by node, torch's operators and Sinter's.

With SINTER_TEST_GPU in the environment they are on the GPU, and plans run in the reference's place.
"""

import os

import torch

from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._inductor import config
from torch._inductor.fx_passes.post_grad import remove_noop_ops, view_to_reshape

from sinter.torch.runtime import verify
from sinter.torch.backend.graph_pass import SinterPass
from sinter.torch.backend import compile_with, split_options

DEVICE = "cuda" if os.environ.get("SINTER_TEST_GPU") else "cpu"


def interpreted(gm, example_inputs, **_):
    """Compiles a graph in place of Inductor: its passes for graphs run, and no code is made."""
    view_to_reshape(gm)
    if config.post_grad_custom_pre_pass:
        config.post_grad_custom_pre_pass(gm.graph)
    remove_noop_ops(gm.graph)  # Inductor's next pass, which relies on the nodes' metadata about their memory
    gm.recompile()
    return make_boxed_func(gm.forward)


def passed(model, options=None, dynamic=None):
    """(compiled model, reports): each graph of `model` after the pass, interpreted. Verified by the reference for an H200. GEMMs have the model's
    extents: on a GPU Inductor would measure whether to pad them."""
    how = {"prepare": "block"} if DEVICE == "cuda" else {"target": "h200"}
    own, _ = split_options(None, {**how, "verify": True, **(options or {})})
    reports = []
    graph_pass = SinterPass(own, reports)

    def backend(gm, example_inputs):
        with torch._functorch.config.patch(enable_autograd_cache=False):  # which holds no interpreted graph, and hashes each to find out
            return compile_with(graph_pass, gm, example_inputs, {"shape_padding": False}, inner_compile=interpreted)

    torch._dynamo.reset()
    verify.comparisons.clear()
    return torch.compile(model, backend=backend, dynamic=dynamic), reports
