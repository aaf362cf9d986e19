"""A graph as straight-line PyTorch: each primitive becomes the framework's own function for it, nothing is recognised.

Arithmetic is f32 (wide="float"), as the graph says: what an input or a cast holds in 16 bits is widened where it is used.
wide="double" gives the reference: float64 except inputs and casts. Scalars become Python numbers, as people write them.
"""

import math
import struct

DTYPES = {"f32": "torch.float32", "f16": "torch.float16", "bf16": "torch.bfloat16", "s32": "torch.int32",
          "pred": "torch.bool", "e4m3": "torch.float8_e4m3fn"}
OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
             "ge": ">="}
FUNCTIONS = {"max": "torch.maximum", "min": "torch.minimum", "and": "torch.logical_and",
             "or": "torch.logical_or"}  # others have PyTorch's names
REDUCTIONS = {"sum": "torch.sum", "mean": "torch.mean", "max": "torch.amax", "min": "torch.amin"}
HALVES = ("bf16", "f16")


class Emitter:
    def __init__(self, graph, wide):
        self.graph, self.wide_name = graph, wide
        self.literal = {}  # value id: Python literal of a scalar
        self.held = {i["id"]: i["dtype"] for i in graph["inputs"]}  # dtype that a variable has
        self.type = {v["id"]: v for v in graph["inputs"] + graph["ops"]}
        self.wide_type = "f32" if wide == "float" else "f64"

    def name(self, value):
        return self.literal.get(value) or f"v{value}"

    def is_float(self, value):
        return self.type[value]["dtype"] in ("f32", "f16", "bf16")

    def wide(self, value):
        """An operand of arithmetic."""
        narrow = HALVES if self.wide_name == "float" else HALVES + ("f32",)
        if value in self.literal or self.held[value] not in narrow:
            return self.name(value)
        return f"{self.name(value)}.{self.wide_name}()"

    def tensor(self, value):
        """An operand that must not be a Python number."""
        if value in self.literal:
            return f"torch.tensor({self.literal[value]}, dtype={DTYPES[self.type[value]['dtype']]}, device=device)"
        return self.wide(value)

    def emit(self, op):
        """The expression of one op, and the dtype that it has."""
        kind, operands = op["op"], op.get("in", [])
        arithmetic = self.wide_type if op["dtype"] in ("f32", "f16", "bf16") else op["dtype"]
        if kind == "iota":
            shape = [-1 if i == op["axis"] else 1 for i in range(len(op["dims"]))]
            count = f"torch.arange({op['dims'][op['axis']]}, dtype={DTYPES[op['dtype']]}, device=device)"
            return f"{count}.reshape({shape}).expand({op['dims']})", op["dtype"]
        if kind == "unary":
            kind = "logical_not" if op["kind"] == "not" else op["kind"]  # others have PyTorch's names
            return f"torch.{kind}({self.tensor(operands[0])})", arithmetic
        if kind in ("binary", "compare"):
            return self.pair(op["kind"], *operands), arithmetic
        if kind == "select":
            a, b = (self.wide(value) for value in operands[1:])
            return f"torch.where({self.tensor(operands[0])}, {a}, {b})", arithmetic
        if kind == "cast":
            return self.cast(operands[0], op["dtype"]), op["dtype"]
        if kind == "reduce":
            whole = ", dtype=torch.int32" if op["dtype"] == "s32" and op["kind"] == "sum" else ""
            return (f"{REDUCTIONS[op['kind']]}({self.tensor(operands[0])}, dim={tuple(op['axes'])}, "
                    f"keepdim={op.get('keepdims', False)}{whole})"), arithmetic
        return self.movement(op)

    def pair(self, kind, a, b):
        both = a in self.literal and b in self.literal
        left = self.tensor(a) if both else self.wide(a)
        if kind in OPERATORS:
            return f"{left} {OPERATORS[kind]} {self.wide(b)}"
        for value, other in ((a, b), (b, a)):
            if kind in ("max", "min") and value in self.literal and other not in self.literal:
                return f"torch.clamp({self.wide(other)}, {kind_of_bound(kind)}={self.literal[value]})"
        return f"{FUNCTIONS.get(kind, 'torch.' + kind)}({self.tensor(a)}, {self.tensor(b)})"

    def cast(self, value, dtype):
        operand = self.tensor(value)
        if value not in self.literal and self.held[value] == dtype:
            return self.name(value)
        if dtype == "e4m3":  # torch's own cast does not saturate
            return f"torch.clamp({operand}, -448.0, 448.0).to({DTYPES[dtype]})"
        if dtype == "s32" and self.is_float(value):
            return f"torch.clamp({operand}, -2147483648.0, 2147483520.0).to({DTYPES[dtype]})"
        if dtype == "f32" and self.wide_name == "double" and value not in self.literal:
            return f"{self.name(value)}.float()"
        return f"{operand if value in self.literal else self.name(value)}.to({DTYPES[dtype]})"

    def movement(self, op):
        operand = op["in"][0]
        source = self.tensor(operand) if operand in self.literal else self.name(operand)
        held = self.held.get(operand, self.type[operand]["dtype"])
        if op["op"] == "broadcast":
            return f"torch.broadcast_to({source}, {tuple(op['dims'])})", held
        if op["op"] == "reshape":
            return f"torch.reshape({source}, {tuple(op['dims'])})", held
        if op["op"] == "transpose":
            return f"torch.permute({source}, {tuple(op['axes'])})", held
        if op["op"] == "slice":
            cuts = ", ".join(one_cut(*cut) for cut in zip(op["starts"], op["limits"], op["steps"]))
            return f"{source}[{cuts}]", held
        if op["op"] == "concat":
            alike = len({self.held[value] for value in op["in"]}) == 1
            parts = [self.name(value) if alike else self.wide(value) for value in op["in"]]
            return f"torch.cat([{', '.join(parts)}], {op['axis']})", held if alike else self.wide_type
        raise ValueError(f"no such op for memory-intensive graphs: {op['op']}")

    def source(self):
        names = [f"v{i['id']}" for i in self.graph["inputs"]]
        lines = [f"def run({', '.join(names)}):"]
        for op in self.graph["ops"]:
            if op["op"] == "scalar":
                self.literal[op["id"]] = literal_of(op)
                continue
            expression, self.held[op["id"]] = self.emit(op)
            lines.append(f"    v{op['id']} = {expression}")
        results = [self.cast(out["value"], self.type[out["value"]]["dtype"]) for out in self.graph["outputs"]]
        lines.append(f"    return ({', '.join(results)},)")
        return "\n".join(lines) + "\n"


def kind_of_bound(kind):
    return "min" if kind == "max" else "max"


def one_cut(start, limit, step):
    return f"{start}:{limit}" if step == 1 else f"{start}:{limit}:{step}"


def literal_of(op):
    value = float(op["value"])
    if op["dtype"] == "f32":
        value = struct.unpack("f", struct.pack("f", value))[0]
    if op["dtype"] == "pred":
        return str(value != 0)
    if op["dtype"] == "s32":
        return str(int(value))
    return repr(value) if math.isfinite(value) else f"float('{value}')"


def torch_source(graph, wide="float"):
    """Python source of run(inputs..), which needs `torch` and `device` around it."""
    return Emitter(graph, wide).source()


def torch_function(torch, graph, device="cuda", wide="float"):
    scope = {"torch": torch, "device": device}
    exec(compile(torch_source(graph, wide), "<graph>", "exec"), scope)  # pylint: disable=exec-used
    return scope["run"]
