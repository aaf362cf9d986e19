"""Models through the backend's pass without Inductor's compilers: the graph runs node by node, torch's operators and Sinter's."""

import torch

from sinter.torch import _verify
from sinter.torch._graph_pass import SinterPass
from sinter.torch.backend import compile_with, interpret, split_options


def passed(model, options=None, dynamic=None):
    """(compiled model, reports): each graph of `model` behind the pass, interpreted. Verified by the reference for an H200."""
    own, _ = split_options(None, {"target": "h200", "verify": True, **(options or {})})
    reports = []
    graph_pass = SinterPass(own, reports)

    def backend(gm, example_inputs):
        return compile_with(graph_pass, gm, example_inputs, {}, inner_compile=interpret(graph_pass))

    torch._dynamo.reset()
    _verify.comparisons.clear()
    return torch.compile(model, backend=backend, dynamic=dynamic), reports
