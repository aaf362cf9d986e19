"""How far the results of vLLM's compiled pieces are from float64, for the rows that an engine really computes.

vLLM compiles a model's forward as pieces that are cut at attention. ``of_pieces`` runs a step, and each piece three times on the same operands: as compiled,
its operators one by one in the model's type, and these in float64. Two engines that round at other places differ from each other although neither is
wrong; from float64 each has its own distance. Operators that vLLM keeps opaque, experts and mixers, take and give rounded numbers in all three runs,
and experts are vLLM's own in the second and third. So a piece's own operators are compared, and experts with those of vLLM.
"""

import contextlib
import math

#: Types that become float64.
NARROW = ("bfloat16", "float16", "float32")

#: Functions and methods that make views.
VIEWS = ("view", "reshape", "unsqueeze", "squeeze", "getitem", "transpose", "permute", "flatten", "split", "chunk", "narrow")

#: Methods of a tensor that cast it.
CASTS = ("float", "half", "bfloat16", "double")


def distance(found, exact):
    """The root mean square of differences, over that of `exact`; None where `exact` is zero or either is not finite."""
    found, exact = found.double(), exact.double()
    value = ((found - exact).square().mean().sqrt() / exact.square().mean().sqrt()).item() if exact.numel() else math.nan
    return value if math.isfinite(value) else None


def in_double(module, operands):
    """The results of a graph of torch's operators in float64. Operators of other libraries run in the types that they had."""
    import torch

    kinds = {getattr(torch, name) for name in NARROW}

    def widened(value):
        return value.double() if isinstance(value, torch.Tensor) and value.is_floating_point() else torch.float64 if value in kinds else value

    def mapped(f, values):
        return torch.utils._pytree.tree_map(lambda one: f(one) if isinstance(one, (torch.Tensor, torch.dtype)) else one, values)

    class InDouble(torch.fx.Interpreter):
        def run_node(self, n):
            self.node = n
            return super().run_node(n)

        def call_function(self, target, args, kwargs):
            if not _is_opaque(target):
                return super().call_function(target, mapped(widened, args), mapped(widened, kwargs))
            return mapped(widened, super().call_function(target, *self.as_they_were(args, kwargs)))

        def call_method(self, target, args, kwargs):
            if target in CASTS:
                return args[0].double()
            return super().call_method(target, mapped(widened, args), mapped(widened, kwargs))

        def as_they_were(self, args, kwargs):
            """Operands in the types that the graph's nodes had."""
            nodes, _ = torch.utils._pytree.tree_flatten((self.node.args, self.node.kwargs))
            values, tree = torch.utils._pytree.tree_flatten((args, kwargs))
            kinds = [node.meta["example_value"].dtype if isinstance(value, torch.Tensor) else None for node, value in zip(nodes, values)]
            return torch.utils._pytree.tree_unflatten([value if kind is None else value.to(kind) for kind, value in zip(kinds, values)], tree)

    return InDouble(module).run(*(mapped(widened, one) if isinstance(one, torch.Tensor) else one for one in operands))


def _is_opaque(target):
    """Whether an operator belongs to a library that computes in the types of its operands: any but ATen and vLLM's norms."""
    import torch

    is_operator = isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket))
    return is_operator and str(target).partition(".")[0] not in ("aten", "prims", "vllm_ir")


def compare(module, compiled, operands):
    """The distances of a piece's results from float64: [(of single operators, of the compiled piece)], a pair each output that is not exact and not an
    empty buffer, which attention fills later.

    `compiled`: the piece's results. `operands`: what it took, before it ran.
    """
    import torch

    def leaves(results):
        return [one for one in torch.utils._pytree.tree_leaves(results) if isinstance(one, torch.Tensor)]

    with no_plans_of_experts():
        exact = leaves(in_double(module, copies(operands)))
        single = leaves(module(*copies(operands)))
    found = []
    for wanted, one, ours, full in zip(exact, single, leaves(compiled), _full(module.graph)):
        if wanted.is_floating_point() and full:
            pair = distance(one, wanted), distance(ours, wanted)
            if None not in pair and pair[0] > 0:
                found.append(pair)
    return found


def _full(graph):
    """For each tensor that a graph returns, whether it holds computed values."""
    empty = set()
    for node in graph.nodes:
        name = getattr(node.target, "__name__", str(node.target))
        if node.op.startswith("call") and ("empty" in name or node.all_input_nodes and name in VIEWS and node.all_input_nodes[0] in empty):
            empty.add(node)
    results = graph.output_node().args[0]
    return [one not in empty for one in (results if isinstance(results, (list, tuple)) else [results]) if "example_value" not in one.meta or hasattr(one.meta["example_value"], "dtype")]


def copies(operands):
    """Operands that a run may overwrite. Weights are not copied."""
    import torch

    return [one.clone() if isinstance(one, torch.Tensor) and not isinstance(one, torch.nn.Parameter) else one for one in operands]


@contextlib.contextmanager
def no_plans_of_experts():
    """Leaves experts to vLLM."""
    import sys

    servers = sys.modules.get("sinter.torch.servers")
    if servers is None:
        yield
        return
    own, servers.experts = servers.experts, lambda *arguments, **named: None
    try:
        yield
    finally:
        servers.experts = own


def of_pieces(step):
    """[the pairs of ``compare``, a piece each] for the pieces that ``step`` runs. It must run them compiled and outside of graphs."""
    from vllm.compilation.piecewise_backend import PiecewiseBackend

    own, found = PiecewiseBackend.__call__, []

    def call(self, *operands):
        before = copies(operands)
        results = own(self, *operands)
        if self.graph is not None:
            try:
                found.append(compare(self.graph, results, before))
            except Exception as error:  # an operator that has no form in float64
                found.append(f"{type(error).__name__}: {error}"[:300])
        return results

    PiecewiseBackend.__call__ = call
    try:
        step()
    finally:
        PiecewiseBackend.__call__ = own
    return found


def summary(pieces):
    """Sums up what ``of_pieces`` found: the number of outputs that were compared, the geometric mean of compiled / single operators, the output with
    the largest such ratio, and why pieces were not compared."""
    pairs = [(ours / single, i, j, single, ours) for i, piece in enumerate(pieces) if not isinstance(piece, str) for j, (single, ours) in enumerate(piece)]
    failed = sorted({piece for piece in pieces if isinstance(piece, str)})
    if not pairs:
        return {"outputs": 0, "failed": failed}
    most = max(pairs)
    logs = [math.log(max(ratio, 1e-9)) for ratio, *_ in pairs]
    return {"outputs": len(pairs), "mean": math.exp(sum(logs) / len(logs)), "most": dict(zip(("ratio", "piece", "output", "single", "compiled"), most)), "failed": failed}
