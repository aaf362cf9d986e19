"""The pass over Inductor's graph after autograd: captured parts become operators of Sinter, and Inductor compiles the rest."""

from __future__ import annotations

import hashlib
import pathlib
from typing import Any, Callable, FrozenSet, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._inductor.pattern_matcher import stable_topological_sort

from ..._error import Error
from ..._library import build_info
from ..._plan import Plan
from ..convert.converter import Converted, target_of
from ..graph.batch_norm import made_together, of_constants, scales_and_shifts
from ..graph.channels_last import lay_channels_last
from ..graph.depthwise_filters import lay_back, lay_filters
from ..graph.few_elements import few_elements
from ..graph.grouped_mm import experts_as_operators
from ..graph.interpolations import interpolations, write_out
from ..graph.join_adjacent import Joined, drop_unread, join_neighbours, part_again
from ..graph.join_frozen import tell_parts
from ..graph.nearest_pixels import repeat_pixels
from ..graph.nodes import results
from ..graph.put_back import copy_of, forget_what_was, put_back, put_rest_back
from ..graph.rows_by_ids import rows_as_gathers
from ..graph.rows_of_heads import rows_of_heads
from ..graph.shared_memory import share_again, views_of_their_own
from ..graph.spelled_attention import tell_products
from ..graph.splits import slices_for_splits
from ..graph.sums_of_one_hot import sum_one_hots
from ..graph.sums_over_steps import join_sums_over_steps
from ..graph.weight_casts import casts_of_weights
from ..partition.supported import computes, why_left
from ..runtime.adjacent_weights import neighbours
from ..runtime.options import SERVER, Options, context_of, target_context
from ..runtime.store import store
from ..runtime.warn import warn_once
from .direct_calls import call_parts_directly
from .part import Part
from .planner import Planner


class Taken(NamedTuple):
    """A part that became an operator.

    Attributes:
        nodes: nodes of the graph that the operator replaced.
        m: rows that it was planned for; 0 if the chain has no M.
        limit_us: predicted time of the kernels that Inductor would run. For a measured part, the plan's expected time multiplied by the
            measured ratio of Inductor's time to the plan's.
        plan: the plan, if it was there in time.
    """

    name: str
    made: Converted
    nodes: List[Any]
    m: int
    limit_us: float
    plan: Optional[Plan]


class Report:
    """The result of the pass over one graph."""

    def __init__(self) -> None:
        self.taken: List[Taken] = []
        #: Computing nodes that are left to Inductor: their operator, and why.
        self.left: List[Tuple[str, str]] = []
        #: The same of nodes that read only weights.
        self.of_weights: List[Tuple[str, str]] = []
        #: How many compute, but those.
        self.nodes = 0


class SinterPass(CustomGraphPass):
    """The pass.

    Args:
        reports: the list to which each graph's report is appended, for ``explain``.
        first: a pass of the caller, which runs before this one.
        weights: which of the model's inputs, as Dynamo counts them, are its parameters and buffers.
        beside: pairs of them that are adjacent in memory.
        rows: the number of rows for which parts are judged; 0: that of the call that is being compiled.
    """

    def __init__(
        self,
        options: Options,
        reports: Optional[List[Report]] = None,
        first: Optional[Callable[[torch.fx.Graph], Any]] = None,
        weights: FrozenSet[int] = frozenset(),
        beside: FrozenSet[Tuple[int, int]] = frozenset(),
        rows: int = 0,
    ) -> None:
        self.options = options
        self.reports = reports
        self.first = first
        self.weights = weights
        self.beside = beside
        self.rows = rows

    def of(
        self, gm: torch.fx.GraphModule, inputs: Sequence[Any], first: Optional[Callable[[torch.fx.Graph], Any]]
    ) -> "SinterPass":
        """The pass for Dynamo's graph `gm` of `inputs`. It runs after `first`, if there is one."""
        weights = _weights_of(gm)
        return SinterPass(self.options, self.reports, first, weights, neighbours(inputs, weights), self.rows)

    def uuid(self) -> Any:
        """The key of graphs in Inductor's cache: these files, the library, its tuning set, the options and the first pass.
        None if the first pass has no key, which keeps the graphs out of the cache."""
        own = self._digest()
        if self.first is None:
            return own
        other = self.first.uuid() if isinstance(self.first, CustomGraphPass) else None
        return None if other is None else (own, other)

    def _digest(self) -> str:
        told = build_info(), self.options, self._tuning(), sorted(self.weights), sorted(self.beside), self.rows
        digest = hashlib.sha256(repr(told).encode())
        for path in _sources():
            digest.update(path.read_bytes())
        return digest.hexdigest()

    def _tuning(self) -> str:
        try:
            if self.options.target is not None:
                return target_context(self.options.target).tuning_digest
            return store.context(torch.cuda.current_device()).tuning_digest if torch.cuda.is_available() else ""
        except Error:  # not a Hopper GPU: the pass captures nothing
            return ""

    def __call__(self, graph: torch.fx.Graph) -> None:
        if self.first is not None:
            self.first(graph)
        try:
            report = self._take(graph)
            if self.reports is not None:
                self.reports.append(report)
        except Exception as error:  # whatever it is, the model runs
            if self.reports is not None:
                raise
            warn_once(f"the graph is left to Inductor: {type(error).__name__}: {error}")
            write_out(graph)
            stable_topological_sort(graph)  # no node is erased before all its readers read another one
        finally:
            forget_what_was(graph)

    def _take(self, graph: torch.fx.Graph) -> Report:
        report = Report()
        device = "cuda" if self.options.target is None else "cpu"
        nodes = list(graph.nodes)
        devices = {val.device for val in results(nodes) if val.device.type == device}
        if len(devices) > 1:
            why = "its graph is on several GPUs"
            report.left = [(target_of(node), why) for node in nodes if node.op == "call_function" and computes(node)]
            report.nodes = len(report.left)
        if len(devices) != 1:
            return report
        context_of(self.options, next(iter(devices)))  # without one the graph stays as it is
        join_sums_over_steps(graph, device)  # Inductor's own code also gains by this rewrite and the next one
        sum_one_hots(graph, device)
        kept = copy_of(graph)
        if not self.options.verify:  # only the results of parts are compared
            experts_as_operators(graph, device)
        slices_for_splits(graph)
        few_elements(graph)
        rows_of_heads(graph)
        rows_as_gathers(graph, self.options.prepare == SERVER)
        repeat_pixels(graph)
        interpolations(graph)
        views = views_of_their_own(graph)
        tell_parts(graph)
        tell_products(graph.nodes)
        lay_channels_last(graph)
        constants = _constants(list(graph.nodes), self.weights)
        vectors = scales_and_shifts(graph, constants)
        filters = lay_filters(graph, constants)
        vectors |= {each.made for each in filters}
        joined = join_neighbours(graph, constants, self.beside)
        planner, parts = self._parts(graph, device, constants, vectors, joined)
        apart = [each for each in joined if not any(each.product in part.nodes for part in parts)]
        if apart:  # Inductor would copy their weights together in each call
            for each in apart:
                part_again(graph, each)
            joined = [each for each in joined if each not in apart]
            planner, parts = self._parts(graph, device, constants, vectors, joined)
        alone = of_constants(graph.nodes, constants) | vectors | {node for each in joined for node in each.constants}
        for part in parts:
            name = f"part {len(report.taken)}"
            call = planner.replace(part, name)
            if call is not None:
                report.taken.append(Taken(name, part.made, part.nodes, part.m, part.limit_us, part.plan))
        if not self.options.verify:
            share_again(graph, views)
            put_rest_back(graph, [node for part in report.taken for node in part.nodes], planner.replaced)
        for each in joined if not self.options.verify else ():
            (drop_unread if each.product._erased else part_again)(graph, each)
        lay_back(graph, filters if not self.options.verify else [])
        made_together(graph, vectors)
        write_out(graph)
        taken = {node for part in report.taken for node in part.nodes}
        for node in planner.nodes:
            of_weights = node in alone and node not in taken
            report.nodes += computes(node) and not of_weights
            if node.op == "call_function" and computes(node) and node not in taken and not node._erased:
                why = planner.left.get(node) or why_left(node, device) or "its part is too small"
                (report.of_weights if of_weights else report.left).append((target_of(node), why))
        call_parts_directly()
        if report.taken or any(target_of(node).startswith("sinter.") for node in graph.nodes):
            stable_topological_sort(graph)
        else:  # ASR's inference took 1.08 times as long with slices for splits and nothing taken
            put_back(graph, kept)
        graph.lint()  # type: ignore[no-untyped-call]
        return report

    def _parts(
        self, graph: torch.fx.Graph, device: str, constants: Set[Any], vectors: Set[Any], joined: Sequence[Joined]
    ) -> "Tuple[Planner, List[Part]]":
        together = {node for each in joined for node in each.constants}
        planner = Planner(graph, self.options, device, constants | together, self.rows)
        planner.left.update((node, "made of weights alone, for all parts at once") for node in vectors)
        planner.left.update((node, "weights behind each other in memory") for node in together)
        planner.apart = casts_of_weights([node for node in planner.nodes if node not in planner.left], self.weights, device)
        casts = [node for part in planner.apart for node in part]
        planner.left.update((node, "a cast of a weight, which a kernel of several gained nothing by") for node in casts)
        return planner, planner.parts()


def _sources() -> List[pathlib.Path]:
    """Every source file of the package, in one order."""
    return sorted(pathlib.Path(__file__).parents[2].rglob("*.py"))


def _weights_of(gm: torch.fx.GraphModule) -> FrozenSet[int]:
    """Positions of the parameters and buffers among the inputs of Dynamo's graph. A tensor that the caller passes does not count, even if
    its address is marked as static: its contents change."""

    def is_weight(node: Any) -> bool:
        source = getattr(getattr(node, "_dynamo_source", None), "guard_source", None)
        of_module = source is not None and (source.is_unspecialized_nn_module() or source.is_specialized_nn_module())
        return of_module and bool(node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type"))

    inputs = [node for node in gm.graph.nodes if node.op == "placeholder"]
    return frozenset(i for i, node in enumerate(inputs) if is_weight(node))


def _constants(nodes: Sequence[Any], weights: FrozenSet[int]) -> Set[Any]:
    """Inputs of the graph that are `weights` and that nothing here writes, and constants that Inductor froze. Empty for a training graph."""
    if any("partitioner_tag" in node.meta for node in nodes):
        return set()
    from torch._functorch._aot_autograd.descriptors import PlainAOTInput

    written = {node.args[0] for node in nodes if target_of(node) == "aten.copy_.default"}
    given = {node: node.meta.get("desc") for node in nodes if node.op == "placeholder"}
    frozen = {node for node in nodes if node.op == "get_attr" and isinstance(node.meta.get("val"), torch.Tensor)}
    return ({node for node, at in given.items() if isinstance(at, PlainAOTInput) and at.idx in weights} | frozen) - written
