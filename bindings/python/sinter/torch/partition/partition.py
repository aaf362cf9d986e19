"""Groups the captured nodes of a graph into convex parts of bounded size, each of which becomes one operator.

This file does not depend on torch: a node has ``all_input_nodes`` and ``users``, like a node of torch.fx.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Set

from ..convert.walks import depth_first

#: The most computing ops in one part. With many more, a plan's search takes long, and fewer parts are equal.
MOST_WORK = 64
#: The limit for the steps of a loop: they have few different kernels, and share the start of their part. 24 steps of two LSTMs are 570 ops.
MOST_LOOP_WORK = 640
#: The least number of successive products of one weight that count as a loop.
_LEAST_STEPS = 3


class Kind(NamedTuple):
    """A node's properties for the partitioner.

    Attributes:
        taken: the node may be in a part.
        work: it computes; views and casts to the same type do not.
        view: it may stay outside at a part's border, where it costs nothing.
        several: its value is several tensors, from which its users pick: no border separates it from them.
        single: a part has at most one such node, so that equal layers are equal parts.
        bytes: the size of an element of its value, which is stored if a border follows it.
        unaligned: a view that a part would copy first, if it stayed outside at the part's start.
        weight: the matrix by which a product multiplies its rows.
    """

    taken: bool
    work: bool = False
    view: bool = False
    several: bool = False
    single: bool = False
    bytes: int = 1
    weight: Any = None
    unaligned: bool = False


def partition(nodes: Sequence[Any], kinds: Callable[[Any], Kind], most: Optional[int] = None) -> List[List[Any]]:
    """Parts of the captured nodes, each in the order of `nodes`, which is topological. `most`: the limit of computing ops in a part; by default
    the limit for the part's kind.

    No path leaves a part and comes back to it, nor goes from one part to another and back. Linear in nodes and edges.
    """
    kind = {node: kinds(node) for node in nodes}
    parts = []
    for component in _components(nodes, kind):
        for part in _bounded(component, kind, most or (MOST_LOOP_WORK if _is_loop(component, kind) else MOST_WORK)):
            part = _without_border_views(part, kind)
            if part:
                parts.append(part)
    return parts


def _components(nodes: Sequence[Any], kind: Dict[Any, Kind]) -> Iterable[List[Any]]:
    """Connected nodes of equal depth; the depth grows where a path leaves the captured nodes."""
    depth: Dict[Any, int] = {}
    root: Dict[Any, Any] = {}

    def find(node: Any) -> Any:
        while root[node] is not node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for node in nodes:
        before = [i for i in node.all_input_nodes if i in depth]
        depth[node] = max((depth[i] + (kind[i].taken and not kind[node].taken) for i in before), default=0)
    for node in reversed(nodes):  # a node computed only from weights joins its reader, but a node that picks from several values stays with them
        if depth[node] == 0 and kind[node].taken and not any(i in kind and kind[i].several for i in node.all_input_nodes):
            depth[node] = min((depth[user] - (not kind[user].taken) for user in node.users if user in depth), default=0)
    for node in nodes:
        if kind[node].taken:
            root[node] = node
            for i in node.all_input_nodes:
                if i in root and depth[i] == depth[node]:
                    root[find(i)] = node
    found: Dict[Any, List[Any]] = {}
    for node in nodes:
        if node in root:
            found.setdefault(find(node), []).append(node)
    return found.values()


def _is_loop(component: Sequence[Any], kind: Dict[Any, Kind]) -> bool:
    """Whether several products of one weight follow each other: the steps of an unrolled loop."""
    ahead: Dict[Any, int] = {}  # products on the longest path to a node
    places: Dict[Any, Set[int]] = {}  # by weight: how many products precede each of its products
    for node in component:
        ahead[node] = max((ahead[i] + (kind[i].weight is not None) for i in node.all_input_nodes if i in ahead), default=0)
        if kind[node].weight is not None:
            places.setdefault(kind[node].weight, set()).add(ahead[node])
    return any(len(each) >= _LEAST_STEPS for each in places.values())


def _bounded(component: List[Any], kind: Dict[Any, Kind], most: int) -> Iterable[List[Any]]:
    """Cuts a component where the fewest and narrowest values cross, so that no piece has more than `most` nodes that compute, nor two single ones."""
    if _fits(component, kind, most):
        yield component
        return
    place = {node: i for i, node in enumerate(component)}
    for piece in _pieces(_before_first_use(component), kind, most):
        yield sorted(piece, key=place.__getitem__)


def _fits(component: Sequence[Any], kind: Dict[Any, Kind], most: int) -> bool:
    return sum(kind[node].work for node in component) <= most and sum(kind[node].single for node in component) <= 1


def _before_first_use(component: List[Any]) -> List[Any]:
    """The nodes in an order that is topological too, each close to the first that reads it."""
    inside = set(component)
    ends = [node for node in component if not any(user in inside for user in node.users)]
    return depth_first(ends, lambda node: [i for i in node.all_input_nodes if i in inside])


def _pieces(component: List[Any], kind: Dict[Any, Kind], most: int) -> Iterable[List[Any]]:
    while not _fits(component, kind, most):
        at = _best_cut(component, kind, most)
        yield component[:at]
        component = component[at:]
    yield component


def _best_cut(component: List[Any], kind: Dict[Any, Kind], most: int) -> int:
    place = {node: i for i, node in enumerate(component)}
    last_use = [max((place.get(user, -1) for user in node.users), default=-1) for node in component]
    ending: Dict[int, int] = {}  # bytes of an element, by the place of a value's last use
    live, several, work, singles = 0, 0, 0, 0
    best, fewest = 0, 0
    for i, node in enumerate(component):
        work += kind[node].work
        singles += kind[node].single
        if work > most or singles > 1:
            break
        live -= ending.pop(i, 0)
        if last_use[i] > i:
            live += kind[node].bytes
            ending[last_use[i]] = ending.get(last_use[i], 0) + kind[node].bytes
        if kind[node].several:
            several = max(several, last_use[i])
        if i >= several and (best == 0 or live <= fewest or work * 2 <= most and singles == 0):
            best, fewest = i + 1, live
    return best or len(component)


def _without_border_views(part: List[Any], kind: Dict[Any, Kind]) -> List[Any]:
    inside: Set[Any] = set(part)
    for node in part:
        if kind[node].view and not kind[node].unaligned and not any(i in inside for i in node.all_input_nodes):
            inside.discard(node)
    for node in reversed(part):
        if kind[node].view and node in inside and not any(user in inside for user in node.users):
            inside.discard(node)
    return [node for node in part if node in inside]
