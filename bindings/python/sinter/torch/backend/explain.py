"""Reports what the backend captures of a model, in how many kernels, the predicted gain, and why the other ops are left to Inductor."""

from __future__ import annotations

import collections
import html
import os
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

import torch

from ..._argument import instance
from ..._error import invalid
from ..convert.attention import is_attention
from ..convert.converter import target_of
from ..partition.supported import computes
from ..runtime.options import Options, target_context
from . import compile_with
from .graph_pass import Report, SinterPass, Taken

_DEFAULT_TARGET = "h200"  # for models on the CPU


class Explanation(NamedTuple):
    """The result of planning a model's graphs. ``str`` is the page as text; notebooks show it as HTML.

    Attributes:
        reports: one for each graph, in the order of compilation.
        target: the chip that the plans are for; "" for the GPU that the model is on.
    """

    reports: List[Report]
    target: str

    @property
    def taken(self) -> List[Taken]:
        """The parts that become operators."""
        return [part for report in self.reports for part in report.taken]

    @property
    def left(self) -> "collections.Counter[Tuple[str, str]]":
        """How often each operator is left to Inductor, by (operator, why)."""
        return collections.Counter(item for report in self.reports for item in report.left)

    @property
    def of_weights(self) -> int:
        """Ops that read only weights, such as a batch norm's scale and shift: Inductor computes their small results in each call."""
        return sum(len(report.of_weights) for report in self.reports)

    @property
    def kernels(self) -> int:
        """Kernels of all parts' plans."""
        return sum(part.plan.kernel_count for part in self.taken if part.plan is not None)

    @property
    def predicted_us(self) -> float:
        """The predicted time of the plans of all parts."""
        return sum(part.plan.predicted_us for part in self.taken if part.plan is not None)

    @property
    def inductor_us(self) -> float:
        """The estimated time of the kernels that Inductor would run for the same ops."""
        return sum(part.limit_us for part in self.taken)

    def __str__(self) -> str:
        lines = [self._head(), ""]
        lines += [f"{part.name}: {_told(part)}" for part in self.taken]
        lines += ["", "left to Inductor:" if self.left else "nothing is left to Inductor"]
        lines += [f"{count:5d}  {name}: {why}" for (name, why), count in self.left.most_common()]
        return "\n".join(lines) + "\n"

    def to_html(self) -> str:
        """A page that needs no other file, with a drawing of each plan."""
        taken = _section("Taken", ("part", "plan"), [(part.name, _told(part)) for part in self.taken])
        left = _section(
            "Left to Inductor",
            ("times", "operator", "why"),
            [(str(count), name, why) for (name, why), count in self.left.most_common()],
        )
        return _PAGE.format(head=html.escape(self._head()), taken=taken, left=left, plans="".join(self._drawings()))

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Writes the page of ``to_html``."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.to_html())

    def _repr_html_(self) -> str:
        return self.to_html()

    def _head(self) -> str:
        nodes = sum(report.nodes for report in self.reports)
        taken = sum(_work(part) for part in self.taken)
        share = f"{len(self.reports)} graphs, {nodes} ops that compute"
        share += f", and {self.of_weights} that read only weights" if self.of_weights else ""
        if not self.taken:
            return f"{share}: none is taken"
        times = f"predicted {self.predicted_us:.1f} us, Inductor's kernels {self.inductor_us:.1f} us"
        on = f"; planned for {self.target}" if self.target else ""
        return f"{share}, {taken} taken as {len(self.taken)} parts of {self.kernels} kernels: {times}{on}"

    def _drawings(self) -> Iterable[str]:
        alike: Dict[str, List[Taken]] = {}
        for part in self.taken:
            if part.plan is not None:
                alike.setdefault(part.plan.digest, []).append(part)
        for parts in alike.values():
            names = ", ".join(part.name for part in parts)
            plan = parts[0].plan
            assert plan is not None
            yield f"<h2>{html.escape(names)}</h2><pre>{html.escape(plan.summary())}</pre>{plan.svg()}"


def _section(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A headed table, or a heading and "none"."""
    if not rows:
        return f"<h2>{title}</h2><p>none</p>"
    head = "".join(f"<th>{column}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<h2>{title}</h2><table><tr>{head}</tr>{body}</table>"


_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>torch.compile with Sinter</title>
<style>body{{font:15px sans-serif;margin:2em}}table{{border-collapse:collapse}}td,th{{border:1px solid #ccc;padding:3px 8px;text-align:left}}
pre{{background:#f6f6f6;padding:8px;overflow:auto}}svg{{max-width:100%}}</style></head><body>
<h1>torch.compile with Sinter</h1><p>{head}</p>
{taken}{left}{plans}</body></html>
"""


def explain(model: Any, inputs: Any, *, target: Optional[str] = None) -> Explanation:
    """Plans a model's graphs as ``torch.compile(model, backend="sinter")`` would, and waits for all plans.

    Inductor compiles nothing, and nothing is computed: code after a graph break receives zeros. Everything that the process has compiled
    so far is dropped, as by ``torch._dynamo.reset()``: every other compiled model is compiled again at its next call.

    Args:
        model: a module or a function.
        inputs: its arguments: a tensor, a sequence, or a dict of named ones.
        target: a chip, for a model on the CPU; by default h200 there.

    Raises:
        Error: INVALID_ARGUMENT for a ``target`` if inputs are on a GPU; NOT_FOUND if it does not name a chip, with the chips there are.
    """
    positional, named = _arguments(inputs)
    on_gpu = any(x.is_cuda for x in torch.utils._pytree.tree_leaves((positional, named)) if isinstance(x, torch.Tensor))
    if on_gpu and target is not None:
        raise invalid(f"target is {instance(target, str, 'target')!r}, and the inputs are on a GPU: it is planned for")
    chosen = None if on_gpu else _DEFAULT_TARGET if target is None else instance(target, str, "target")
    if chosen is not None:
        if not chosen:
            raise invalid("target is '', must be the name of a chip, such as 'h200'")
        target_context(chosen)
    reports: List[Report] = []
    graph_pass = SinterPass(Options(prepare="block", target=chosen), reports)

    def backend(gm: torch.fx.GraphModule, example_inputs: Any) -> Any:
        return compile_with(graph_pass, gm, example_inputs, {}, inner_compile=_planned)

    torch._dynamo.reset()  # graphs that were compiled before would not be seen
    with torch.no_grad():
        compiled: Any = torch.compile(model, backend=backend)
        compiled(*positional, **named)
    torch._dynamo.reset()
    return Explanation(reports, chosen or "")


def _planned(gm: torch.fx.GraphModule, example_inputs: Any, **_: Any) -> Any:
    """Stands in for Inductor's compiler: runs the pass, and returns a function that gives zeros as the graph's results."""
    from torch._inductor import config
    from torch._inductor.fx_passes.post_grad import view_to_reshape

    view_to_reshape(gm)  # type: ignore[no-untyped-call]
    results = [_value(node) for node in next(n for n in gm.graph.nodes if n.op == "output").args[0]]
    graph_pass: Any = config.post_grad_custom_pre_pass
    graph_pass(gm.graph)

    def run(inputs: List[Any]) -> List[Any]:
        inputs.clear()
        return [_zeros(result) for result in results]

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _value(node: Any) -> Any:
    return node.meta["val"] if isinstance(node, torch.fx.Node) else node


def _zeros(value: Any) -> Any:
    if isinstance(value, torch.SymInt):
        return int(value)
    if not isinstance(value, torch.Tensor):
        return value
    size, stride = ([int(extent) for extent in extents] for extents in (value.shape, value.stride()))
    return torch.empty_strided(size, stride, dtype=value.dtype, device=value.device).zero_()


def _arguments(inputs: Any) -> "Tuple[Tuple[Any, ...], Dict[str, Any]]":
    if isinstance(inputs, dict) or hasattr(inputs, "keys"):
        return (), dict(inputs)
    return (tuple(inputs), {}) if isinstance(inputs, (list, tuple)) else ((inputs,), {})


def _work(part: Taken) -> int:
    return sum(computes(node) for node in part.nodes)


def _told(part: Taken) -> str:
    """One line about a part: its ops, kernels, times and operators."""
    names = collections.Counter(
        "attention" if is_attention(node) else target_of(node).split(".")[1] for node in part.nodes if computes(node)
    )
    shown = sorted(names.items(), key=lambda item: (item[0] != "attention", -item[1]))[:6]
    told = ", ".join(name if count == 1 else f"{count} {name}" for name, count in shown)
    plan = part.plan
    rows = f" at {part.m} rows" if part.m else ""
    if plan is None:
        return f"{_work(part)} ops{rows}: {told}"
    times = f"{plan.predicted_us:.1f} us predicted, {part.limit_us:.1f} us by Inductor"
    return f"{_work(part)} ops in {plan.kernel_count} kernels ({plan.name}){rows}, {times}: {told}"
