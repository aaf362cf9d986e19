"""Runs a graph (a dictionary in the JSON form of src/chain) op by op with a framework's own functions.

interpret(graph, framework, inputs) walks the ops; a framework maps each primitive to its natural function and says what a
cast is. NumPy computes in float64 as the reference does: nothing but inputs and casts rounds. JAX accumulates and activates
in f32 and holds what was cast in its dtype; nothing is recognised or rewritten for it. (PyTorch: emit_torch.py.)
"""

import math

import rounding

# NumPy's and JAX's names of functions, if they are not the op's.
_NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "atan2": "arctan2"}
_UNARIES = ("trunc", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "exp2", "log2", "log10")
_BINARIES = ("fmod", "copysign", "atan2", "hypot")


def named(library, ops):
    return {op: getattr(library, _NAMES.get(op, op)) for op in ops}


def scalar_value(op):
    return float(op["value"])  # "inf" and "-inf" too


def interpret(graph, framework, inputs):
    """The outputs' values before they are stored: arrays of the framework."""
    f, values = framework, {}
    for given, array in zip(graph["inputs"], inputs):
        values[given["id"]] = array
    dtypes = {item["id"]: item["dtype"] for item in graph["inputs"] + graph["ops"]}
    last_use = {}
    for op in graph["ops"]:
        for operand in op.get("in", []):
            last_use[operand] = op["id"]
    kept = {out["value"] for out in graph["outputs"]}
    for op in graph["ops"]:
        operands = [values[i] for i in op.get("in", [])]
        values[op["id"]] = run_op(op, f, operands)
        for operand in set(op.get("in", [])):
            if last_use[operand] == op["id"] and operand not in kept:
                del values[operand]
    return [f.cast(values[out["value"]], dtypes[out["value"]]) for out in graph["outputs"]]


def run_op(op, f, operands):
    kind = op["op"]
    if kind == "scalar":
        return f.scalar(rounding.round_to(op["dtype"], scalar_value(op)).item(), op["dtype"])
    if kind == "iota":
        return f.iota(op["dims"], op["axis"], op["dtype"])
    if kind in ("unary", "binary", "compare"):
        return getattr(f, kind)(op["kind"], *[f.wide(x) for x in operands])
    if kind == "select":
        return f.select(operands[0], *[f.wide(x) for x in operands[1:]])
    if kind == "cast":
        return f.cast(operands[0], op["dtype"])
    if kind == "reduce":
        return f.reduce(op["kind"], f.wide(operands[0]), tuple(op["axes"]), op.get("keepdims", False))
    if kind == "broadcast":
        return f.broadcast(operands[0], op["dims"])
    if kind == "reshape":
        return operands[0].reshape(op["dims"])
    if kind == "transpose":
        return f.transpose(operands[0], op["axes"])
    if kind == "slice":
        return operands[0][tuple(slice(*s) for s in zip(op["starts"], op["limits"], op["steps"]))]
    if kind == "concat":
        return f.concat(operands, op["axis"])
    raise ValueError(f"no such op for memory-intensive graphs: {kind}")


class NumpyFramework:
    """float64; integers and predicates are float64 too."""

    def __init__(self):
        import numpy
        self.np = n = numpy
        erf = numpy.vectorize(math.erf, otypes=[numpy.float64])
        self.unaries = {
            "neg": n.negative, "abs": n.abs, "exp": n.exp, "log": n.log, "sqrt": n.sqrt, "rsqrt": lambda x: 1 / n.sqrt(x),
            "tanh": n.tanh, "erf": erf, "sigmoid": lambda x: 0.5 * (1 + n.tanh(0.5 * x)),
            "relu": lambda x: n.maximum(x, 0), "reciprocal": lambda x: 1 / x, "square": n.square, "sin": n.sin,
            "cos": n.cos, "floor": n.floor, "log1p": n.log1p, "expm1": n.expm1, "ceil": n.ceil, "round": n.rint,
            "not": lambda x: (x == 0).astype(n.float64), "erfc": numpy.vectorize(math.erfc, otypes=[numpy.float64]),
            **named(n, _UNARIES)}
        self.binaries = {
            "add": n.add, "sub": n.subtract, "mul": n.multiply, "div": n.divide, "max": n.maximum, "min": n.minimum,
            "pow": n.power, "and": lambda a, b: ((a != 0) & (b != 0)).astype(n.float64),
            "or": lambda a, b: ((a != 0) | (b != 0)).astype(n.float64),
            **named(n, _BINARIES)}
        self.compares = {"eq": n.equal, "ne": n.not_equal, "lt": n.less, "le": n.less_equal, "gt": n.greater,
                         "ge": n.greater_equal}

    def wide(self, x):
        return x

    def scalar(self, value, dtype):
        return self.np.float64(value)

    def iota(self, dims, axis, dtype):
        shape = [-1 if i == axis else 1 for i in range(len(dims))]
        return self.np.broadcast_to(self.np.arange(dims[axis], dtype=self.np.float64).reshape(shape), dims)

    def unary(self, kind, x):
        return self.unaries[kind](x)

    def binary(self, kind, a, b):
        return self.binaries[kind](a, b)

    def compare(self, kind, a, b):
        return self.compares[kind](a, b).astype(self.np.float64)

    def select(self, condition, a, b):
        return self.np.where(condition != 0, a, b)

    def cast(self, x, dtype):
        return rounding.round_to(dtype, x)

    def reduce(self, kind, x, axes, keep):
        return getattr(self.np, kind)(x, axis=axes, keepdims=keep)

    def broadcast(self, x, dims):
        return self.np.broadcast_to(x, dims)

    def transpose(self, x, axes):
        return self.np.transpose(x, axes)

    def concat(self, values, axis):
        return self.np.concatenate(values, axis)


class JaxFramework:
    def __init__(self):
        import jax
        import jax.numpy
        self.jax, self.jnp = jax, jax.numpy
        n, lax = jax.numpy, jax.lax
        self.dtypes = {"f32": n.float32, "f16": n.float16, "bf16": n.bfloat16, "s32": n.int32, "pred": n.bool_,
                       "e4m3": n.float8_e4m3fn}
        self.unaries = {
            "neg": n.negative, "abs": n.abs, "exp": n.exp, "log": n.log, "sqrt": n.sqrt, "rsqrt": lax.rsqrt,
            "tanh": n.tanh, "erf": lax.erf, "sigmoid": jax.nn.sigmoid, "relu": jax.nn.relu, "reciprocal": n.reciprocal,
            "square": n.square, "sin": n.sin, "cos": n.cos, "floor": n.floor, "log1p": n.log1p, "expm1": n.expm1,
            "ceil": n.ceil, "round": n.rint, "not": n.logical_not, "erfc": lax.erfc,
            **named(n, _UNARIES)}
        self.binaries = {
            "add": n.add, "sub": n.subtract, "mul": n.multiply, "div": n.divide, "max": n.maximum, "min": n.minimum,
            "pow": n.power, "and": n.logical_and, "or": n.logical_or,
            **named(n, _BINARIES)}
        self.compares = {"eq": n.equal, "ne": n.not_equal, "lt": n.less, "le": n.less_equal, "gt": n.greater,
                         "ge": n.greater_equal}

    def wide(self, x):
        return x.astype(self.jnp.float32) if x.dtype in (self.jnp.bfloat16, self.jnp.float16) else x

    def scalar(self, value, dtype):
        return self.jnp.asarray(value, dtype=self.dtypes[dtype])

    def iota(self, dims, axis, dtype):
        return self.jax.lax.broadcasted_iota(self.dtypes[dtype], tuple(dims), axis)

    def unary(self, kind, x):
        return self.unaries[kind](x)

    def binary(self, kind, a, b):
        return self.binaries[kind](a, b)

    def compare(self, kind, a, b):
        return self.compares[kind](a, b)

    def select(self, condition, a, b):
        return self.jnp.where(condition, a, b)

    def cast(self, x, dtype):
        if dtype == "e4m3" and x.dtype != self.dtypes["e4m3"]:
            x = self.jnp.clip(x, -448.0, 448.0)
        return x.astype(self.dtypes[dtype])

    def reduce(self, kind, x, axes, keep):
        return getattr(self.jnp, kind)(x, axis=axes, keepdims=keep)

    def broadcast(self, x, dims):
        return self.jnp.broadcast_to(x, tuple(dims))

    def transpose(self, x, axes):
        return self.jnp.transpose(x, axes)

    def concat(self, values, axis):
        return self.jnp.concatenate(values, axis)
