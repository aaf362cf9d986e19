"""A builder of operator graphs in the JSON form of src/chain: the primitives, and composites made of them.

A Dag hands out Values. Their operators broadcast like NumPy's by adding broadcast ops; numbers become f32 scalars. Types
follow docs/chains.md: only a cast rounds, so composites widen to f32 first. Dead ops are dropped when the graph is
written; an unused input is an error.
"""

import json
import math

SCHEMA = 1
FLOATS = ("f32", "f16", "bf16")
SIZES = {"f32": 4, "f16": 2, "bf16": 2, "s32": 4, "pred": 1, "e4m3": 1}


def contiguous(dims):
    strides, step = [], 1
    for extent in reversed(dims):
        strides.insert(0, step)
        step *= extent
    return strides


def count(dims):
    return math.prod(dims)


class Value:
    """The result of one op."""

    def __init__(self, dag, op, operands, dtype, dims, attributes):
        self.dag, self.op, self.operands = dag, op, operands
        self.dtype, self.dims, self.attributes = dtype, list(dims), attributes

    @property
    def rank(self):
        return len(self.dims)

    def _made(self, op, dims=None, dtype=None, **attributes):
        return self.dag._add(op, [self], dtype or self.dtype, self.dims if dims is None else dims, attributes)

    # ------------------------------------------------------------ element-wise

    def unary(self, kind):
        return self._made("unary", kind=kind)

    def cast(self, dtype):
        return self if dtype == self.dtype else self._made("cast", dtype=dtype)

    def f32(self):
        return self.cast("f32")

    def bf16(self):
        return self.cast("bf16")

    def __neg__(self):
        return self.unary("neg")

    def __add__(self, other):
        return self.dag.binary("add", self, other)

    def __sub__(self, other):
        return self.dag.binary("sub", self, other)

    def __mul__(self, other):
        return self.dag.binary("mul", self, other)

    def __truediv__(self, other):
        return self.dag.binary("div", self, other)

    def __radd__(self, other):
        return self.dag.binary("add", other, self)

    def __rsub__(self, other):
        return self.dag.binary("sub", other, self)

    def __rmul__(self, other):
        return self.dag.binary("mul", other, self)

    # ------------------------------------------------------------ movements

    def broadcast(self, dims):
        return self if list(dims) == self.dims else self._made("broadcast", dims=list(dims))

    def transpose(self, *axes):
        return self._made("transpose", dims=[self.dims[a] for a in axes], axes=list(axes))

    def reshape(self, *dims):
        assert count(dims) == count(self.dims), (self.dims, dims)
        return self if list(dims) == self.dims else self._made("reshape", dims=list(dims))

    def slice(self, axis, start, limit, step=1):
        """start:limit:step of one axis, the others whole."""
        axis %= self.rank
        starts, limits, steps = [0] * self.rank, list(self.dims), [1] * self.rank
        starts[axis], limits[axis], steps[axis] = start, limit, step
        dims = list(self.dims)
        dims[axis] = (limit - start - 1) // step + 1
        if dims[axis] == 1:  # one spelling of one element
            limits[axis], steps[axis] = start + 1, 1
        return self._made("slice", dims=dims, starts=starts, limits=limits, steps=steps)

    def split(self, parts):
        """Equal slices of the last axis."""
        size = self.dims[-1] // parts
        assert size * parts == self.dims[-1], (self.dims, parts)
        return [self.slice(-1, i * size, (i + 1) * size) for i in range(parts)]

    # ------------------------------------------------------------ reductions

    def reduce(self, kind, *axes, keep=True):
        axes = sorted(a % self.rank for a in axes)
        dims = [1 if i in axes else d for i, d in enumerate(self.dims) if keep or i not in axes]
        dtype = "f32" if kind in ("sum", "mean") and self.dtype in FLOATS else self.dtype
        return self._made("reduce", dims=dims, dtype=dtype, kind=kind, axes=axes, keepdims=keep)

    def sum(self, *axes, keep=True):
        return self.reduce("sum", *axes, keep=keep)

    def mean(self, *axes, keep=True):
        return self.reduce("mean", *axes, keep=keep)

    def max(self, *axes, keep=True):
        return self.reduce("max", *axes, keep=keep)


class Dag:
    """One graph: inputs in the caller's order, ops, outputs."""

    def __init__(self):
        self.inputs, self.values, self.outputs, self._scalars = [], [], [], {}

    def _add(self, op, operands, dtype, dims, attributes):
        value = Value(self, op, operands, dtype, dims, attributes)
        (self.inputs if op == "input" else self.values).append(value)
        return value

    def input(self, name, dtype, *dims, constant=False, strides=None):
        attributes = {"name": name}
        if strides is not None and list(strides) != contiguous(dims):
            attributes["strides"] = list(strides)
        if constant:
            attributes["constant"] = True
        return self._add("input", [], dtype, dims, attributes)

    def weight(self, name, *dims, dtype="bf16"):
        return self.input(name, dtype, *dims, constant=True)

    def scalar(self, value, dtype="f32"):
        key = (float(value), dtype)
        if key not in self._scalars:
            self._scalars[key] = self._add("scalar", [], dtype, [], {"value": float(value)})
        return self._scalars[key]

    def iota(self, dtype, axis, *dims):
        return self._add("iota", [], dtype, dims, {"axis": axis})

    def _aligned(self, *values):
        """Values of equal dims, or of rank 0."""
        values = [v if isinstance(v, Value) else self.scalar(v) for v in values]
        shaped = [v.dims for v in values if v.rank]
        rank = max(map(len, shaped), default=0)
        columns = zip(*[[1] * (rank - len(dims)) + dims for dims in shaped])
        dims = [max(column) for column in columns]
        return [v.broadcast(dims) if v.rank else v for v in values], dims

    def binary(self, kind, a, b):
        (a, b), dims = self._aligned(a, b)
        dtype = a.dtype if a.dtype == b.dtype else "f32"
        return self._add("binary", [a, b], dtype, dims, {"kind": kind})

    def maximum(self, a, b):
        return self.binary("max", a, b)

    def compare(self, kind, a, b):
        (a, b), dims = self._aligned(a, b)
        return self._add("compare", [a, b], "pred", dims, {"kind": kind})

    def select(self, condition, a, b):
        (condition, a, b), dims = self._aligned(condition, a, b)
        if not a.rank and not b.rank:
            dims = condition.dims
        dtype = a.dtype if a.dtype == b.dtype else "f32"
        return self._add("select", [condition, a, b], dtype, dims, {})

    def concat(self, values, axis):
        axis %= values[0].rank
        dims = list(values[0].dims)
        dims[axis] = sum(v.dims[axis] for v in values)
        return self._add("concat", list(values), values[0].dtype, dims, {"axis": axis})

    def output(self, value, alias=None):
        self.outputs.append((value, alias))

    # ------------------------------------------------------------ writing

    def _live(self):
        live, stack = set(), [value for value, _ in self.outputs]
        while stack:
            value = stack.pop()
            if id(value) not in live:
                live.add(id(value))
                stack.extend(value.operands)
        for value in self.inputs:
            if id(value) not in live:
                raise ValueError(f"input {value.attributes['name']} is not used")
        return [value for value in self.values if id(value) in live]

    def to_dict(self):
        """The graph as the JSON form's dictionary."""
        live = self._live()
        number = {id(v): i for i, v in enumerate(self.inputs + live)}
        inputs, ops, outputs = [], [], []
        for v in self.inputs:
            line = {"id": number[id(v)], "name": v.attributes["name"], "dtype": v.dtype, "dims": v.dims}
            line.update({k: v.attributes[k] for k in ("strides", "constant") if k in v.attributes})
            inputs.append(line)
        for v in live:
            line = {"id": number[id(v)], "op": v.op}
            if v.operands:
                line["in"] = [number[id(o)] for o in v.operands]
            attributes = dict(v.attributes)
            if v.op == "scalar" and math.isinf(attributes["value"]):
                attributes["value"] = "inf" if attributes["value"] > 0 else "-inf"
            ops.append({**line, **attributes, "dtype": v.dtype, "dims": v.dims})
        for value, alias in self.outputs:
            line = {"value": number[id(value)]}
            outputs.append(line if alias is None else {**line, "alias": number[id(alias)]})
        return {"schema": SCHEMA, "inputs": inputs, "ops": ops, "outputs": outputs}


def to_text(graph):
    """A graph's dictionary as text, an input, op or output a line."""
    parts = [f'  "schema": {graph["schema"]}']
    for key in ("inputs", "ops", "outputs"):
        lines = ",\n    ".join(json.dumps(line, separators=(",", ":")) for line in graph[key])
        parts.append(f'  "{key}": [\n    {lines}\n  ]' if lines else f'  "{key}": []')
    return "{\n" + ",\n".join(parts) + "\n}\n"


# ---------------------------------------------------------------- composites, all in f32


def gelu_erf(x):
    return 0.5 * x * (1 + (math.sqrt(0.5) * x).unary("erf"))


def sigmoid(x):
    return x.unary("sigmoid")


def silu(x):
    return x * sigmoid(x)


def tanh(x):
    return x.unary("tanh")


def softmax(x, axis=-1):
    e = (x - x.max(axis)).unary("exp")
    return e / e.sum(axis)


def logsumexp(x, axis=-1):
    most = x.max(axis)
    return most + (x - most).unary("exp").sum(axis).unary("log")


def moments(x, *axes):
    """Mean and biased variance, axes kept."""
    mean = x.mean(*axes)
    return mean, (x - mean).unary("square").mean(*axes)


def layernorm(x, gamma, beta, eps):
    mean, variance = moments(x, -1)
    return (x - mean) * (variance + eps).unary("rsqrt") * gamma.f32() + beta.f32()


def rmsnorm(x, gamma, eps):
    return x * (x.unary("square").mean(-1) + eps).unary("rsqrt") * gamma.f32()
