"""Decides which parts of a graph become operators: parts that the library plans, and whose plans gain."""

from __future__ import annotations

import math
import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from ..._error import Error, Status
from ..._plan import Plan
from ..convert.arrays import Refused, Rows
from ..convert.aten import TABLE
from ..convert.attention import is_attention
from ..convert.converter import Converted, Converter, target_of
from ..convert.op_table import is_view
from ..convert.products import is_small
from ..gate.fused_by_inductor import written_by_inductor
from ..gate.gate import attention_times, beyond_us, inductor_us, share_of_limit, tell_ahead, worth_a_try
from ..gate.library_kernels import attention_us
from ..gate.measure import Measured, measured
from ..gate.sizes import hint_at, hint_for, hint_of_call
from ..graph.in_place import written_over
from ..graph.nodes import results
from ..graph.replace import given_apart, replace
from ..partition.partition import Kind, partition
from ..partition.supported import OF_HOPPER, computes, kinds, matrix_of, needs_hopper
from ..runtime.buckets import BUCKETS
from ..runtime.options import WAITING, Options, context_of
from ..runtime.run_chain import expected_us, pack
from .faults import OF_AN_OP, named_node, smallest_that_fails
from .library_plans import Asked
from .part import Part, alone, bound_of, rows_of, symbol_of

_MOST_TRIES = 5  # how often a part is partitioned again around refused ops; then it is left to Inductor
_WORTH = 0.97  # the most that a plan may take of Inductor's measured time: a part also costs time at its border
_HOPELESS = 1.5  # a plan predicted to take more than so many times the estimate for Inductor's kernels is not measured
_MOST_HALVINGS = 2  # how often a losing part is halved to find smaller ones that gain
_MOST_HALVES = 64  # the most halves that are searched in a graph
_MOST_FAULTS = 32  # failing parts of a graph, plus the smaller ones that are built to find the op that fails
_SEARCH_SECONDS = 60.0  # the time that a graph's pass waits for searches; the operator uses results that come later


class Planner:
    """Finds the parts of one graph, and asks the library which of them it plans. `rows`: the value of symbols for which parts are judged; 0:
    their value in the call that is being compiled."""

    def __init__(self, graph: torch.fx.Graph, options: Options, device: str, constants: Set[Any], rows: int = 0) -> None:
        self.graph = graph
        self.options = options
        self.nodes = list(graph.nodes)
        tell_ahead(self.nodes, written_by_inductor)
        self.left: Dict[Any, str] = {}
        self.apart: List[List[Any]] = []  # parts whose nodes no other part may take
        self.replaced: Dict[Any, Any] = {}
        self._device = device
        self._constants = constants
        self._hint_of = hint_for(rows) if rows else hint_of_call(results(self.nodes))
        self._asked: Dict[Tuple[str, int], Asked] = {}
        self._searched: Dict[Tuple[str, int], Asked] = {}  # halves; these are only searched, never built
        self._limits: Dict[str, List[float]] = {}
        self._shares: Dict[str, float] = {}  # ratio of the measured limit to the estimate
        self._until = time.monotonic() + _SEARCH_SECONDS
        self._halves_left = _MOST_HALVES
        self._faults_left = _MOST_FAULTS
        shapes = [val for val in results(self.nodes) if val.device.type == device]
        self._context = context_of(options, shapes[0].device)
        self._figures = self._context.describe()["model"]
        if not self._figures["products"]:
            self.left.update((node, OF_HOPPER) for node in self.nodes if needs_hopper(node))

    def parts(self) -> List[Part]:
        """Parts that the library plans, in the graph's order."""
        self._leave_attention()
        kept: List[Part] = []
        waiting = [*partition(self.nodes, kinds(self._device, self.left)), *self.apart]
        while waiting:
            found = [smaller for part in self._planned(waiting) for smaller in self._that_gain(part)]
            waiting = []
            for part in found if self.options.candidates else ():
                part.asked.plan(wait=True)  # while candidates are measured, the GPU does nothing else
            for part in found:
                part.asked.plan(wait=self._waits)
                if part.asked.error is not None:
                    waiting.extend(self._around_fault(part, part.asked.error))
                    continue
                judged = self._judged(part)
                if judged is not None:
                    kept.append(judged)
        place = {node: i for i, node in enumerate(self.nodes)}
        return sorted(kept, key=lambda part: place[part.nodes[0]])

    @property
    def _waits(self) -> bool:
        """Whether the pass waits for plans."""
        return bool(self.options.measure) or self.options.prepare in WAITING

    def _planned(self, parts: Sequence[List[Any]]) -> List[Part]:
        """Parts whose searches have ended: `parts`, or what remains of them without refused ops."""
        found: List[Part] = []
        waiting = [(part, 0) for part in parts]
        while waiting:
            nodes, tries = waiting.pop()
            if not worth_a_try(nodes, self._hint_of, self.options.verify):
                continue
            rows = rows_of(nodes)
            read = {node: rows.why_not([val.shape for val in results([node, *node.all_input_nodes])]) for node in nodes}
            other = {node: why for node, why in read.items() if why is not None}
            if other:
                self.left.update((node, f"{why}, which is M in its part") for node, why in other.items())
                waiting.extend((part, tries) for part in self._again(nodes))
                waiting.extend((alone(node), tries) for node in other if is_attention(node))
                continue
            over = written_over(nodes)
            if over is None:
                self.left.update((node, "lists whose results are not all written over inputs") for node in nodes)
                continue
            if over and rows.symbol is not None:
                self.left.update((node, "lists with a symbolic size") for node in nodes)
                continue
            try:
                m = self._m_of(rows)
                limit = inductor_us(nodes, self._figures, self._hint_of)
                made = self._converted(nodes, rows, m, limit, over)
                found.append(Part(nodes, made, m, self._ask(made, m, limit), limit))
            except Refused as refused:
                node = refused.node if refused.node is not None else nodes[-1]
                node = node.args[0] if target_of(node) == "getitem" else node  # its parent has no other result
                if tries >= _MOST_TRIES:
                    readers = [n for n in nodes if symbol_of(n.all_input_nodes) is not None]
                    if readers and symbol_of(nodes) is None:  # a part without any M may still be captured
                        self.left.update((n, refused.why) for n in readers)
                        waiting.extend((part, 0) for part in self._again(nodes))
                        continue
                    self.left.update((n, f"beside others that were refused: {refused.why}") for n in nodes if computes(n))
                    continue
                self.left[node] = refused.why
                waiting.extend((part, tries + 1) for part in self._again(nodes))
        return found

    def _around_fault(self, part: Part, error: Error) -> List[List[Any]]:
        """Lists of nodes that may still be parts, for a part whose plan cannot be made: all nodes except the op that fails, which is left
        to Inductor. If the error names no op, smaller parts are planned, or built, until the op is found."""
        why, named = str(error), named_node(error, part.made)
        self._faults_left -= 1
        if self._faults_left <= 0 or named is None and error.code not in OF_AN_OP:
            self.left.update((node, why) for node in part.nodes)
            return []
        failing, tried = [named], [alone(node) for node in part.nodes if is_attention(node)]
        if named is None:
            failing = smallest_that_fails(part.nodes, tried, self._halves, lambda nodes: self._fails(nodes, error.code))
        apart = self._halves(failing) if sum(map(computes, failing)) > 1 else []  # each half builds without the other
        if len(apart) < 2:
            self.left.update((node, why) for node in failing)
            return self._again(part.nodes)
        return [*apart, *self._again([node for node in part.nodes if node not in failing])]

    def _fails(self, nodes: List[Any], code: int) -> bool:
        """Whether a part's plan fails with `code`; the part is built if `code` is an error of a compiler."""
        rows, over = rows_of(nodes), written_over(nodes)
        if over is None or not all(rows.folds(val.shape) for node in nodes for val in results([node, *node.all_input_nodes])):
            return False
        try:
            made = self._chain_of(nodes, rows, over)
        except Refused:
            return False
        m = self._m_of(rows)
        builds = code == Status.COMPILE_FAILED
        known, key = self._asked if builds else self._searched, (made.chain.digest, m)
        if key not in known or known[key].lost_us:
            if self._faults_left <= 0:
                return False
            self._faults_left -= 1
            known[key] = Asked(self._context, made, m, not builds, self._until)
        known[key].plan(wait=True)
        error = known[key].error
        return error is not None and error.code == code

    def _leave_attention(self) -> None:
        """Leaves attention to Inductor if no kernel takes it, or if PyTorch's own is faster. Each attention is judged as a part of its own."""
        for node in self.nodes:
            if not is_attention(node) or not kinds(self._device, self.left)(node).taken:
                continue
            why = self._why_not_alone(node)
            if why is not None:
                self.left[node] = why

    def _why_not_alone(self, node: Any) -> Optional[str]:
        nodes = alone(node)
        rows = rows_of(nodes)
        if not all(rows.folds(val.shape) for val in results([*nodes, *node.all_input_nodes])):
            return f"attention of several symbolic sizes, or of others than {rows.symbol} batches"
        try:
            made = self._chain_of(nodes, rows)
            m = self._m_of(rows)
            limit = attention_us(node, self._figures, self._hint_of)
            asked = self._search(made, m, limit)
        except Refused as refused:
            return refused.why
        if asked.refused is not None:
            return asked.refused
        most = asked.expected_us * attention_times(node, self._figures, self._hint_of)
        if most > self._most_us(limit):
            return f"predicted {asked.expected_us:.1f} us and up to {most:.1f}, PyTorch's attention {limit:.1f} us"
        return None

    def _that_gain(self, part: Part) -> List[Part]:
        """The part, if it gains. Else smaller parts of it that reduce the total time, with Inductor's kernels for the rest. If there are
        none, the part."""
        if part.expected_us <= self._most_us(part.limit_us):
            return [part]
        chosen: List[Part] = []
        least = _WORTH * part.limit_us
        attending = [self._half(alone(node)) for node in part.nodes if is_attention(node) and len(part.nodes) > len(alone(node))]
        gaining = [*self._gaining(part, _MOST_HALVINGS), *(each for each in attending if each is not None and each.expected_us <= each.limit_us)]
        for half in sorted(gaining, key=lambda half: half.expected_us - half.limit_us):
            if any(node in each.nodes for each in chosen for node in half.nodes):
                continue
            taken = {node for each in (*chosen, half) for node in each.nodes}
            rest = inductor_us([node for node in part.nodes if node not in taken], self._figures, self._hint_of, taken)
            total = sum(each.expected_us for each in (*chosen, half)) + rest
            if total < least:
                chosen.append(half)
                least = total
        try:
            asked = [self._ask(each.made, each.m, each.limit_us) for each in chosen]
        except Refused:  # by a build
            return [part]
        return [each._replace(asked=own) for each, own in zip(chosen, asked)] or [part]

    def _gaining(self, part: Part, halvings: int) -> Iterator[Part]:
        """Gaining halves of a part that loses; a losing half is halved again."""
        for nodes in self._halves(part.nodes) if halvings else []:
            half = self._half(nodes)
            if half is not None and half.expected_us > half.limit_us:
                yield from self._gaining(half, halvings - 1)
            elif half is not None:
                yield half

    def _halves(self, nodes: List[Any]) -> List[List[Any]]:
        inside, base = set(nodes), kinds(self._device, self.left)
        work = sum(computes(node) for node in nodes)
        return partition(self.nodes, lambda n: base(n) if n in inside else Kind(False), (work + 1) // 2)

    def _half(self, nodes: List[Any]) -> Optional[Part]:
        """A part whose plan was only searched; None if there is no plan."""
        if self._halves_left <= 0 or not worth_a_try(nodes, self._hint_of):
            return None
        rows = rows_of(nodes)
        if not all(rows.folds(val.shape) for node in nodes for val in results([node, *node.all_input_nodes])):
            return None
        m = self._m_of(rows)
        limit = inductor_us(nodes, self._figures, self._hint_of)
        before = len(self._searched)
        try:
            made = self._converted(nodes, rows, m, limit)
        except Refused:
            return None
        asked = self._search(made, m, limit)
        self._halves_left -= len(self._searched) - before
        return None if asked.refused is not None or not asked.expected_us else Part(nodes, made, m, asked, limit)

    def _converted(self, nodes: List[Any], rows: Rows, m: int, limit_us: float, over: Dict[Any, Any] = {}) -> Converted:
        """The chain of a part. Small products of steps share a matrix. They use tensor cores or threads, whichever is predicted to be faster.

        Raises:
            Refused: naming the node that no chain can hold.
        """
        made = self._chain_of(nodes, rows, over)
        matrices = [matrix_of(node) for node in nodes if is_small(node)]
        if len(set(matrices)) == len(matrices):
            return made
        other = self._chain_of(nodes, rows, over, by_threads=True)
        asked, sooner = (self._search(each, m, limit_us) for each in (made, other))
        return other if sooner.expected_us and (not asked.expected_us or sooner.expected_us < asked.expected_us) else made

    def _chain_of(self, nodes: List[Any], rows: Rows, over: Dict[Any, Any] = {}, by_threads: bool = False) -> Converted:
        return Converter(nodes, rows, TABLE, self._is_constant, over, by_threads).convert()

    def _m_of(self, rows: Rows) -> int:
        """The number of rows that a part is judged for; 0 for a chain without M."""
        return 0 if rows.symbol is None else self._hint_of(rows.symbol)

    def _search(self, made: Converted, m: int, limit_us: float) -> Asked:
        """The result of a search without a build."""
        key = (made.chain.digest, m)
        asked = self._asked.get(key) or self._searched.get(key)
        if asked is None:
            asked = self._searched[key] = Asked(self._context, made, m, True, self._until, limit_us)
        return asked

    def _is_constant(self, node: Any) -> bool:
        """Whether a value is a weight or a view of one: the graph reads a linear layer's weight transposed."""
        while node not in self._constants and is_view(node):
            node = node.args[0]
        return node in self._constants

    def _judged(self, part: Part) -> Optional[Part]:
        """The part with its plan, if that is there or waited for; None if the plan is not faster than Inductor's kernels."""
        limit, expected, told, why = part.limit_us, part.expected_us, None, None
        plan = part.asked.plan(wait=self._waits)
        if plan is not None and not self.options.verify:
            expected = expected_us(plan)
            told = self._measured(part, plan) if self.options.measure and expected < _HOPELESS * limit else None
        if told is not None:
            beyond = beyond_us(part.nodes, self._figures, self._hint_of)
            saved = max(0.0, told.inductor_us - beyond)
            estimated, limit = limit, expected * saved / told.plan_us
            self._shares[part.made.chain.digest] = limit / estimated if estimated else 1.0
            if told.plan_us > _WORTH * saved:
                why = f"measured {told.plan_us:.1f} us, Inductor's code {told.inductor_us:.1f} us"
                why += f", of which {beyond:.1f} us stay in kernels that go on beyond the part" if beyond else ""
        elif not self.options.verify:
            share = share_of_limit(part.nodes, limit, self._figures, self._hint_of)
            if expected > limit * share:
                why = f"predicted {expected:.1f} us, Inductor's kernels {limit:.1f} us"
                why += "" if share == 1 else f"; a plan that saves no kernel beside its one product may take {share} of that"
        if why is not None:
            self.left.update((node, why) for node in part.nodes)
            return None
        return part._replace(limit_us=limit, plan=plan)

    def _measured(self, part: Part, plan: Plan) -> Optional[Measured]:
        device = self._context.device
        assert device is not None  # options are checked
        return measured(part.nodes, part.made, part.m, plan, device, self._figures["l2_bytes"])

    def replace(self, part: Part, name: str) -> Any:
        """Replaces the part by its operator; None if the graph does not allow it."""
        how = "reference" if self.options.verify and self.options.target else self.options.prepare
        bound = bound_of(part.nodes) if self.options.verify else None
        tensors = [len(given_apart(border) or [0]) for border in part.made.inputs]
        over = () if self.options.verify else part.made.over  # results that are compared have memory of their own
        arguments = (pack(part.made.chain, self._limits_us(part), tensors, over, self.options.candidates), "" if how == "background" else how)
        try:
            return replace(self.graph, part.nodes, part.made, arguments, bound, name, self.replaced)
        except Refused as refused:
            self.left.update((node, refused.why) for node in part.nodes)
            return None

    def _limits_us(self, part: Part) -> List[float]:
        """The most that a plan may be expected to take: one number for a chain without M, else one for each bucket. Empty if there is no limit."""
        if self.options.verify:
            return []
        symbol, digest = part.made.rows.symbol, part.made.chain.digest
        measured = self._shares.get(digest)

        def most_us(limit: float, hint: Callable[[Any], int]) -> float:
            if measured is not None:
                return limit
            return limit * share_of_limit(part.nodes, limit, self._figures, hint)

        if symbol is None:
            return [most_us(part.limit_us, self._hint_of)]
        if digest not in self._limits:
            hints = [hint for hint in (hint_at(symbol, rows) for rows in BUCKETS) if hint is not None]
            limits = [(measured or 1.0) * inductor_us(part.nodes, self._figures, hint) for hint in hints]
            self._limits[digest] = [most_us(limit, hint) for limit, hint in zip(limits, hints)] if len(hints) == len(BUCKETS) else []
        return self._limits[digest]

    def _again(self, nodes: List[Any]) -> List[List[Any]]:
        """The parts in `nodes`, without the nodes that are left to Inductor by now."""
        inside = set(nodes)
        base = kinds(self._device, self.left)
        return partition(self.nodes, lambda n: base(n) if n in inside else Kind(False))

    def _ask(self, made: Converted, m: int, limit_us: float) -> "Asked":
        """Whether the library plans the chain. If the plan is not expected to lose, its build goes on after the answer.

        Raises:
            Refused: naming the node of the op that the library named. An error of an op that names none is ``Asked.error``.
        """
        key = (made.chain.digest, m)
        asked = self._asked.get(key)
        most_us = self._most_us(limit_us)
        if asked is None or 0 < asked.lost_us <= most_us:
            only_asks = self.options.target is not None and self.options.prepare == "background"  # nothing can be launched here
            asked = self._asked[key] = Asked(self._context, made, m, only_asks, self._until, most_us, self.options.candidates)
        named = None if asked.error is None else named_node(asked.error, made)
        if asked.error is not None and (named is not None or asked.error.code not in OF_AN_OP):
            raise Refused(str(asked.error), named)
        return asked

    def _most_us(self, limit_us: float) -> float:
        """The most that a plan may be expected to take; a slower one is not built."""
        return math.inf if self.options.verify else limit_us * (_HOPELESS if self.options.measure else 1)
