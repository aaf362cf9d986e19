"""A part of a graph of ATen operators as a chain."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from ..._builder import Builder, Value
from ..._chain import Chain
from ..._error import Error
from ..._shape import M
from .arrays import DTYPES, HALVES, Array, Refused, Rows, extent, of
from .walks import depth_first, reached

#: Which arguments of the call that adds an op are operands of that op. A call that adds several ops has no row: the library
#: numbers all of them.
_OPERANDS: Dict[str, Callable[..., Sequence[int]]] = {
    "input": lambda *_: [],
    "scalar": lambda *_: [],
    "iota": lambda *_: [],
    "cast": lambda x, *_: [x],
    "broadcast": lambda x, *_: [x],
    "reshape": lambda x, *_: [x],
    "transpose": lambda x, *_: [x],
    "slice": lambda x, *_: [x],
    "unary": lambda kind, x: [x],
    "binary": lambda kind, a, b: [a, b],
    "compare": lambda kind, a, b: [a, b],
    "select": lambda c, a, b: [c, a, b],
    "reduce": lambda kind, x, *_: [x],
    "matmul": lambda a, b, *_: [a, b],
    "conv2d": lambda x, w, *_: [x, w],
    "window": lambda x, fill, *_: [x, fill],
    "gather": lambda x, ids, *_: [x, ids],
    "top_k": lambda x, *_: [x],
    "cumsum": lambda x: [x],
    "grouped_matmul_ends": lambda a, w, ends, *_: [a, w, ends],
    "scaled_matmul": lambda a, w, *_: [a.codes, w.codes, a.scale, w.scale],
    "concat": lambda count, values, *_: list(values)[:count],
}


_IDS = {"torch.int64": "s64"}
#: The prefix of the names of operators on lists of tensors.
LIST = "aten._foreach_"
#: Operators that choose along an axis. Their second value is the index, int64 in torch and s32 in a chain.
CHOOSING = ("aten.max.dim", "aten.min.dim", "aten.topk.default")
#: Operators whose only value is such an index.
PLACES = ("aten.argmax.default", "aten.argmin.default")
#: Key in a product's ``meta``: 1 and 2 mark the two products of attention.
PLACE = "sinter_attention"


#: Operators that give a value other extents.
RESHAPES = ("aten.view.default", "aten.reshape.default", "aten._unsafe_view.default")
CAST = "prims.convert_element_type.default"


class _Recorder(Builder):
    """A builder that records which node of the graph made each op."""

    __slots__ = ("node", "made")

    def __init__(self) -> None:
        super().__init__()
        self.node: Any = None
        #: By a value's number: the node and the operands.
        self.made: Dict[int, Tuple[Any, Sequence[int]]] = {}

    def _add(self, kind: str, *arguments: Any) -> Value:
        value = super()._add(kind, *arguments)
        self.made[value._id] = (self.node, _OPERANDS[kind](*arguments))
        return value


class Border(NamedTuple):
    """A tensor that enters or leaves a part.

    Attributes:
        node: the graph's node of this value.
        order: axis i of the chain's buffer is axis ``order[i]`` of the node's value.
        repeated: axes of the node's value along which it repeats one element: the buffer holds that element once.
    """

    node: Any
    order: Tuple[int, ...]
    repeated: Tuple[int, ...] = ()


class Converted(NamedTuple):
    """A chain, and the tensors of the graph that its buffers are."""

    chain: Chain
    inputs: List[Border]
    outputs: List[Border]
    rows: Rows
    #: The node that made each op, by the op's number in the library's errors: depth-first from the outputs.
    nodes: List[Any]
    #: For each output the input that it overwrites, if every output overwrites an input; else empty.
    over: Tuple[int, ...] = ()


class Converter:
    """Builds the chain of one part. `table`: handlers by an operator's name; `constant`: nodes that are weights; `over`: inputs of the
    graph that outputs overwrite, by the output's node; `by_threads`: small products become sums, which their readers' kernels compute."""

    def __init__(
        self,
        part: Sequence[Any],
        rows: Rows,
        table: Dict[str, Any],
        constant: Callable[[Any], bool],
        over: Dict[Any, Any] = {},
        by_threads: bool = False,
    ) -> None:
        self.part = part
        self.over = over
        self.by_threads = by_threads
        self.inside = set(part)
        self.rows = rows
        self.table = table
        self.constant = constant
        self.builder = _Recorder()
        self.values: Dict[Any, Any] = {}
        self.inputs: List[Border] = []
        #: Values from outside, by the tensor and its views. Equal views are one input: each step of a loop has its own view of a weight.
        self.given: Dict[Any, Array] = {}
        #: By a product of q and k: the factor of one of its operands.
        self.scales: Dict[Any, float] = {}
        #: By a view of a product: the value that has the view's axes.
        self.apart: Dict[Any, Array] = {}

    def convert(self) -> Converted:
        """The chain.

        Raises:
            Refused: naming the node that no chain can hold.
        """
        outputs = [node for node in self.part if any(user not in self.inside for user in node.users)]
        needed = self._needed(outputs)
        for node in self.part:
            if node in needed:
                self._emit(node)
        if not self.inputs:
            raise Refused("it reads nothing", self.part[-1])
        given = {border.node: i for i, border in enumerate(self.inputs)}
        over = tuple(given[self.over[node]] for node in outputs if self.over.get(node) in given) if self.over else ()
        borders = [self._declare(node) for node in outputs]
        numbers = [self.values[node].value._id for node in outputs]
        made = self.builder.made
        order = depth_first(numbers, lambda number: made[number][1])  # the order in which the library numbers ops
        try:
            chain = self.builder.finish()
        except Error as error:
            raise Refused(str(error), self.part[-1]) from None
        return Converted(chain, self.inputs, borders, self.rows, [self.builder.made[i][0] for i in order], over)

    # The interface for handlers.

    def get(self, argument: Any) -> Any:
        """The array of a node, or the number itself."""
        if not hasattr(argument, "all_input_nodes"):
            if isinstance(argument, bool):
                return int(argument)
            if isinstance(argument, (int, float)):
                return argument
            raise Refused(f"an argument is {argument!r}")
        if argument not in self.values:
            at = self._place(argument)
            self.values[argument] = self.given[at] = self.given[at] if at in self.given else self._leaf(argument)
        return self.values[argument]

    def array(self, argument: Any) -> Array:
        """The array of a node that has one value."""
        found = self.get(argument)
        if not isinstance(found, Array):
            raise Refused("an operand is no tensor")
        return found

    def ids(self, argument: Any) -> Array:
        """The array of ids of rows, of 32 or 64 bits, which no other op reads in the part."""
        if argument not in self.values:
            self.values[argument] = self._leaf(argument, _IDS.get(str(argument.meta["val"].dtype)))
        return self.array(argument)

    def dims(self, node: Any) -> Tuple[Tuple[Any, ...], int]:
        """Extents of a node's value in the chain, and how many axes are M."""
        return self.rows.fold(node.meta["val"].shape)

    @staticmethod
    def dtype(node: Any) -> str:
        """Element type of a node's value in the chain."""
        name = str(node.meta["val"].dtype)
        if target_of(node) in PLACES or target_of(node) == "getitem" and node.args[1] == 1 and target_of(node.args[0]) in CHOOSING:
            return "s32"
        if name not in DTYPES:
            raise Refused(f"dtype {name}")
        return DTYPES[name]

    def scores_of(self, node: Any) -> Any:
        """The product of q and k that is the only reader of a value times a number, once, directly or through views; None for any other node.
        An op that joins the value with others does not count as a view: the number does not apply to them."""
        by_number = target_of(node).startswith(("aten.mul.", "aten.div.")) and isinstance(node.args[1], (int, float)) and node.args[1]
        while by_number and len(node.users) == 1:
            read, (node,) = node, node.users
            if node not in self.inside or sum(argument is read for argument in node.args) != 1:
                return None
            if node.meta.get(PLACE) == 1:
                return node
            if not self.table[target_of(node)].moves or len(node.all_input_nodes) != 1:
                return None
        return None

    # Parts of the conversion.

    def _needed(self, outputs: Sequence[Any]) -> "set[Any]":
        def read(node: Any) -> List[Any]:
            reads = self.table[target_of(node)].reads
            return [i for i in (node.all_input_nodes if reads is None else reads(node, self.inside)) if i in self.inside]

        return set(reached(outputs, read))

    def _emit(self, node: Any) -> None:
        self.builder.node = node
        try:
            made = self.table[target_of(node)].convert(self, node)
            self.values[node] = self._rounded(node, made) if isinstance(made, Array) else made
        except Refused as refused:
            raise Refused(refused.why, refused.node or node) from None
        except (Error, TypeError, ValueError, ArithmeticError) as error:
            raise Refused(str(error), node) from None

    def _rounded(self, node: Any, array: Array) -> Array:
        """Rounds an f32 value to the graph's 16 bits if it is likely to be stored between kernels: several nodes read it, it is a residual sum,
        attention reads it through views, or it is a product's result that is summed. Else nothing rounds."""
        dims, folded = self.dims(node)
        if array.dims != dims:
            raise Refused(f"it became {list(array.dims)}, not {list(dims)}")
        dtype = self.dtype(node)
        stored = len(node.users) > 1 or target_of(node) == "aten.add.Tensor" and _sums_equals(node)
        stored = stored or node.meta.get(PLACE) == 2 or self._is_stored_for(node) or self.table[target_of(node)].product and self._is_summed(node)
        if dtype in HALVES and stored and str(array.value.dtype) != dtype:
            array = array.with_value(array.value.cast(dtype))
        return array._replace(folded=folded)

    def _is_stored_for(self, node: Any) -> bool:
        """Whether an operator of the part can read a value, or a view of it, only from memory."""
        rows = [(user, self.table[target_of(user)]) for user in node.users if user in self.inside]
        return any(
            row.stores or PLACE in user.meta or (row.moves or self.scores_of(user) is not None) and self._is_stored_for(user)
            for user, row in rows
        )

    def _is_summed(self, node: Any) -> bool:
        """Whether a sum of the part reads a value, or a view or a cast of it."""
        inside = [user for user in node.users if user in self.inside]
        names = {user: target_of(user) for user in inside}
        same = [user for user in inside if self.table[names[user]].moves or names[user] == CAST]
        return any(name.startswith("aten.sum.") for name in names.values()) or any(map(self._is_summed, same))

    def _leaf(self, node: Any, dtype: Optional[str] = None) -> Array:
        """A value from outside: a number that fills a tensor, or an input. `dtype`: the chain's type of an input that no other op may read."""
        number = filled(node) if dtype is None else None
        if not hasattr(node.meta["val"], "shape"):
            raise Refused("it picks from several values that are not its part's")
        dims, folded = self.dims(node)
        dtype = dtype or self.dtype(node)
        if number is not None:
            number = float(bool(number)) if dtype == "pred" else math.trunc(number) if dtype == "s32" else number
            scalar = self.builder.scalar(number, dtype)
            return of(scalar.broadcast_to(dims) if dims else scalar, folded)
        val = node.meta["val"]
        strides = [extent(stride) for stride in val.stride()]
        sizes = [extent(size) for size in val.shape]
        constant = self.constant(node)  # inputs are unnamed, so that equal layers have equal chains
        if folded > 1:  # the operator gets any such input contiguous
            self.inputs.append(Border(node, tuple(range(len(sizes)))))
            return of(self.builder.input(dtype, dims, constant=constant), folded)
        spread = [i for i, stride in enumerate(strides) if stride == 0 and sizes[i] != 1]
        repeated = tuple(spread) if self._is_view(node) else ()
        own = tuple(1 if i in repeated else size for i, size in enumerate(dims))
        order = memory_order(own, strides)
        shape = tuple(own[axis] for axis in order)
        given = None if self.rows.symbol is not None or len(repeated) < len(spread) else _gaps(shape, [strides[axis] for axis in order])
        value = self.builder.input(dtype, shape, strides=given, constant=constant)
        self.inputs.append(Border(node, order, repeated))
        array = Array(value, tuple(sorted(range(len(order)), key=lambda i: order[i])), folded)
        return of(array.plain.broadcast_to(dims), folded) if repeated else array

    def _place(self, argument: Any) -> Any:
        """The tensor that a value from outside is a view of, and the views."""
        row = self.table.get(target_of(argument)) if hasattr(argument, "all_input_nodes") else None
        if row is not None and row.view and argument not in self.inside:
            return (target_of(argument), *map(self._place, argument.args), *sorted(argument.kwargs.items()))
        return tuple(argument) if isinstance(argument, list) else argument

    def _is_view(self, node: Any) -> bool:
        """Whether strides of 0 of a value from outside repeat its elements, as they do for inputs and views. Torch also reports such strides
        for a scatter into the result of `expand`, whose elements differ."""
        row = self.table.get(target_of(node))
        return node.op != "call_function" or row is not None and row.view

    def _declare(self, node: Any) -> Border:
        """Declares the output of a node: contiguous, in the order of the node's strides if these determine one."""
        self.builder.node = node
        array = self.values[node]
        dtype = self.dtype(node)
        if str(array.value.dtype) != dtype:
            array = array.with_value(array.value.cast(dtype))
        val = node.meta["val"]
        order: Tuple[int, ...] = tuple(range(len(array.dims)))
        if not array.folded:
            order = memory_order(array.dims, [extent(stride) for stride in val.stride()])
        laid = tuple(array.order[axis] for axis in order)
        value = array.value if laid == tuple(range(len(laid))) else array.value.transpose(*laid)
        try:
            self.builder.output(value, alias=self._alias(node, order))
        except Error as error:
            raise Refused(str(error), node) from None
        self.values[node] = array._replace(value=value)
        return Border(node, order)

    def _alias(self, node: Any, order: Tuple[int, ...]) -> Optional[Value]:
        """The input that an output overwrites."""
        over = self.over.get(node)
        if over is None and target_of(node) == "getitem" and target_of(node.args[0]).startswith(LIST):
            raise Refused("a list's result that is new memory", node.args[0])
        if over is None:
            return None
        if not any(border == Border(over, order) for border in self.inputs):
            raise Refused("it is written over what lies otherwise, or what its part does not read", node)
        value: Value = self.values[over].value
        return value


def target_of(node: Any) -> str:
    """The operator's name: "aten.add.Tensor", or "getitem" for Python's; "" for a node that calls no operator."""
    if node.op != "call_function":
        return ""
    return "getitem" if getattr(node.target, "__name__", "") == "getitem" else str(node.target)


def argument(node: Any, at: int, name: str, default: Any = None) -> Any:
    """An argument of a node, by its place or by its name."""
    return node.args[at] if len(node.args) > at else node.kwargs.get(name, default)


def _sums_equals(node: Any) -> bool:
    """Whether a node adds two tensors of the result's extents."""
    shape = node.meta["val"].shape
    return all(hasattr(a, "meta") and a.meta["val"].shape == shape for a in node.args[:2])


def filled(node: Any) -> Optional[float]:
    """The number that a constant tensor is full of; None for any other node."""
    name = target_of(node)
    if name == "aten.full.default":
        value = node.args[1]
    elif name == "aten.scalar_tensor.default":
        value = node.args[0]
    elif name in ("aten.zeros.default", "aten.zeros_like.default"):
        value = 0
    else:
        return None
    return float(value) if isinstance(value, (int, float)) and value == value else None


def memory_order(sizes: Sequence[Any], strides: Sequence[Any]) -> Tuple[int, ...]:
    """Axes from the slowest to the fastest. An extent of 1 or a symbolic stride determines no order and changes none."""
    rank = len(sizes)
    telling = [i for i in range(rank) if sizes[i] != 1]
    if any(not isinstance(strides[i], int) for i in telling):
        return tuple(range(rank))
    ordered = iter(sorted(telling, key=lambda i: -int(strides[i])))
    return tuple(next(ordered) if sizes[i] != 1 else i for i in range(rank))


def _gaps(shape: Sequence[int], strides: Sequence[int]) -> Optional[List[int]]:
    """The strides of a buffer that is not contiguous; None for a contiguous one."""
    tight: List[int] = []
    step = 1
    for size in reversed(shape):
        tight.insert(0, step)
        step *= size
    if all(size == 1 or a == b for size, a, b in zip(shape, strides, tight)):
        return None
    return [b if size == 1 else a for size, a, b in zip(shape, strides, tight)]
