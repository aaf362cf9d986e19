"""Computes a chain by torch's operators, while a plan is being built and if there is none.

It rounds where the chain casts. Products return results in the 16-bit type of their operands, as in torch.
"""

from __future__ import annotations

import json
from typing import Any, Callable, Dict, Iterable, List, Sequence, Set

import torch

from ... import _abi
from ..._buffers import torch_dtype
from ..._chain import Chain
from ..._dtype import DType
from .eager_attention import attend, with_attention

#: torch's element types by a chain's names.
DTYPES: Dict[str, torch.dtype] = {str(dtype): torch_dtype(dtype) for dtype in DType}
#: Ops whose result may share memory with their operand.
_VIEWS = ("broadcast", "reshape", "transpose", "slice", "cast")
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)

#: torch's functions of ops that have other names there.
_RENAMED: Dict[str, Callable[..., torch.Tensor]] = {
    "max": torch.maximum,
    "min": torch.minimum,
    "not": torch.logical_not,
    "and": torch.logical_and,
    "or": torch.logical_or,
}


def _named(ops: Iterable[str]) -> Dict[str, Callable[..., torch.Tensor]]:
    return {op: _RENAMED.get(op) or getattr(torch, op) for op in ops if op in _RENAMED or hasattr(torch, op)}


_UNARY, _BINARY = _named(_abi.UNARY), _named(_abi.BINARY)


def by_torch(chain: Chain) -> "Callable[[Sequence[torch.Tensor], int], List[torch.Tensor]]":
    """A function from the chain's inputs and M to its contiguous outputs. An input has the declared extents, or as many elements."""
    document = json.loads(chain.to_json())
    outputs, count = document["outputs"], len(document["inputs"])
    stored = [DTYPES[entry["dtype"]] for entry in (*document["inputs"], *document["ops"])]
    ops = with_attention(_with_windows(_with_biases(document), document), document)
    made_of = {op["id"]: op["in"][0] for op in ops if op["op"] in _VIEWS}
    last: Dict[int, int] = {}
    for op in ops:
        for i in op.get("in", ()):
            last[i] = op["id"]
    kept = {output["value"] for output in outputs}
    owned = _owned([output["value"] for output in outputs], made_of, count)
    declared = [entry["dims"] for entry in document["inputs"]]

    def run(inputs: Sequence[torch.Tensor], m: int) -> List[torch.Tensor]:
        values: Dict[int, torch.Tensor] = {i: x.reshape(_extents(declared[i], m)) for i, x in enumerate(inputs)}
        device = inputs[0].device if count else torch.device("cpu")
        for op in ops:
            operands = [values[i] for i in op.get("in", ())]
            if op["op"] in ("matmul", "addmm", "grouped_matmul", "attention", "conv2d", "depthwise"):
                operands = [x.to(stored[i]) for x, i in zip(operands, op["in"])]
            values[op["id"]] = _compute(op, operands, _extents(op["dims"], m), device)
            for i in op.get("in", ()):
                if last[i] == op["id"] and i not in kept:
                    values.pop(i, None)
        results = [values[output["value"]].to(stored[output["value"]]).contiguous() for output in outputs]
        return [result if own else result.clone() for result, own in zip(results, owned)]

    return run


def _with_biases(document: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The ops, with each product of matrices and its sum with a per-column vector merged into one op, as in torch: Inductor would make a
    separate kernel of such a sum."""
    values = [*document["inputs"], *document["ops"]]
    reads = [i for op in document["ops"] for i in op.get("in", ())] + [output["value"] for output in document["outputs"]]
    gone: Set[int] = set()
    made: Dict[int, Dict[str, Any]] = {}
    for op in document["ops"]:
        if op["op"] != "binary" or op["kind"] != "add":
            continue
        for product, beside in (op["in"], op["in"][::-1]):
            a, b = values[product], values[beside]
            if a.get("op") != "matmul" or b.get("op") != "broadcast" or reads.count(product) != 1:
                continue
            vector, operands = values[b["in"][0]], [values[i] for i in a["in"]]
            columns = [size for size in vector["dims"] if size != 1]
            flat = len(vector["dims"]) < 2 or vector["dims"][:-1] == [1] * (len(vector["dims"]) - 1)
            alike = vector["dtype"] == operands[0]["dtype"] == operands[1]["dtype"]
            if flat and alike and columns == a["dims"][-1:] and all(len(x["dims"]) == 2 for x in operands) and op["dims"] == a["dims"]:
                made[op["id"]] = {**a, "op": "addmm", "id": op["id"], "in": [*a["in"], b["in"][0]]}
                gone.add(product)
                break
    return [made.get(op["id"], op) for op in document["ops"] if op["id"] not in gone]


def _with_windows(ops: List[Dict[str, Any]], document: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The ops, with windows and the reduction over them merged into one op, as in torch: a pooling or a depthwise convolution. Then no
    tensor holds each pixel once for each window."""
    values = {op["id"]: op for op in ops}
    reads = [i for op in ops for i in op.get("in", ())] + [output["value"] for output in document["outputs"]]

    def alone(number: int, kind: str) -> "Dict[str, Any] | None":
        """The op of that number, if it is of that kind and read once."""
        op = values.get(number)
        return op if op is not None and op["op"] == kind and reads.count(number) == 1 else None

    gone: Set[int] = set()
    made: Dict[int, Dict[str, Any]] = {}
    for op in ops:
        if op["op"] != "reduce" or op["axes"] != [3, 4] or op.get("keepdims") or op["kind"] == "min":
            continue
        at = op["in"][0]
        product = alone(at, "binary") if op["kind"] == "sum" else None
        filters = alone(product["in"][1], "broadcast") if product is not None and product["kind"] == "mul" else None
        between = [at] if filters is None or product is None else [at, product["in"][1]]
        at = at if filters is None or product is None else product["in"][0]
        wide = alone(at, "cast")
        between += [at] if wide is not None else []
        window = alone(at if wide is None else wide["in"][0], "window")
        if window is None or filters is not None and len(values.get(filters["in"][0], {"dims": []})["dims"]) != 3:
            continue
        image, fill = window["in"]
        operands = [image] if filters is None else [image, filters["in"][0]]
        moves: Dict[str, Any] = {key: window[key] for key in ("window", "strides", "pads", "dilations") if key in window}
        name = "pool" if filters is None else "depthwise"
        made[op["id"]] = {**moves, "op": name, "kind": op["kind"], "id": op["id"], "in": operands, "dims": op["dims"], "fill": values[fill]["value"]}
        gone.update((window["id"], *between))
    found = [made.get(op["id"], op) for op in ops if op["id"] not in gone]
    return [{**op, "fill": values[op["in"][1]]["value"]} if op["op"] == "window" else op for op in found]


def _owned(outputs: Sequence[int], made_of: Dict[int, int], inputs: int) -> List[bool]:
    """For each output, whether its memory cannot be the memory of an input or of an earlier output."""
    seen = set(range(inputs))
    owned = []
    for value in outputs:
        while value in made_of:
            value = made_of[value]
        owned.append(value not in seen)
        seen.add(value)
    return owned


def _extents(dims: List[Any], m: int) -> List[int]:
    return [m if size == "M" else size for size in dims]


def _wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype in _FLOATS else x


def _compute(op: Dict[str, Any], x: List[torch.Tensor], dims: List[int], device: torch.device) -> torch.Tensor:
    kind, name = op["op"], op.get("kind", "")
    if kind == "unary":
        return _UNARY[name](_wide(x[0]))
    if kind == "binary":
        return _BINARY[name](_wide(x[0]), _wide(x[1]))
    if kind == "compare":
        return getattr(torch, name)(_wide(x[0]), _wide(x[1]))  # type: ignore[no-any-return]
    if kind == "select":
        return torch.where(x[0], _wide(x[1]), _wide(x[2]))
    if kind == "cast":
        return _cast(x[0], DTYPES[op["dtype"]])
    if kind == "broadcast":
        return x[0].expand(dims)
    if kind == "reshape":
        return x[0].reshape(dims)
    if kind == "transpose":
        return x[0].permute(op["axes"])
    if kind == "slice":
        limits = [x[0].shape[i] if limit == "M" else limit for i, limit in enumerate(op["limits"])]
        return x[0][tuple(slice(*bounds) for bounds in zip(op["starts"], limits, op["steps"]))]
    if kind == "concat":
        return torch.cat(x, op["axis"])
    if kind == "reduce":
        f: Any = {"sum": torch.sum, "mean": torch.mean, "max": torch.amax, "min": torch.amin}[name]
        result: torch.Tensor = f(_wide(x[0]), op["axes"], keepdim=op.get("keepdims", False))
        return result.to(x[0].dtype) if x[0].dtype == torch.int32 else result
    if kind == "iota":
        shape = [-1 if i == op["axis"] else 1 for i in range(len(dims))]
        return torch.arange(dims[op["axis"]], device=device, dtype=DTYPES[op["dtype"]]).reshape(shape).expand(dims)
    if kind == "scalar":
        # Filled there: a copy from the host is refused while a stream captures.
        return torch.full((), float(op["value"]), device=device, dtype=DTYPES[op["dtype"]])
    if kind in ("matmul", "addmm"):
        a = x[0].mT if op.get("transpose_a") else x[0]
        b = x[1].mT if op.get("transpose_b") else x[1]
        return torch.matmul(a, b) if kind == "matmul" else torch.addmm(x[2].reshape(-1), a, b)
    if kind == "grouped_matmul":  # routed by end offsets; PyTorch leaves rows after the last end undefined
        made: torch.Tensor = torch.nn.functional.grouped_mm(x[0], x[1].mT if op.get("transpose_b") else x[1], offs=x[2])
        return made
    if kind == "attention":
        return attend(op, x)
    if kind == "gather":
        return _gather(x[0], x[1].long(), op["axis"])
    if kind == "scaled_matmul":
        return (x[0].float() @ x[1].float().mT) * x[2] * (x[3].mT if x[3].dim() else x[3])
    if kind in ("window", "pool", "depthwise"):
        return _of_windows(op, x)
    assert kind == "conv2d", kind
    return _convolve(op, x[0], x[1])


def _of_windows(op: Dict[str, Any], x: List[torch.Tensor]) -> torch.Tensor:
    """Windows [n, p, q, r, s, c] of an image [n, h, w, c], or the result of a pooling or of filters [r, s, c] on them."""
    top, bottom, left, right = op.get("pads", (0, 0, 0, 0))
    image = x[0].permute(0, 3, 1, 2)
    if any((top, bottom, left, right)):
        image = torch.nn.functional.pad(image, (left, right, top, bottom), value=float(op["fill"]))
    window, strides, steps = (tuple(op.get(key, (1, 1))) for key in ("window", "strides", "dilations"))
    if op["op"] == "depthwise":
        filters = x[1].to(image.dtype).permute(2, 0, 1).unsqueeze(1)
        made = torch.nn.functional.conv2d(image, filters, None, strides, (0, 0), steps, image.shape[1])
    elif op["op"] == "pool" and op["kind"] == "max":
        made = torch.nn.functional.max_pool2d(image, window, strides, 0, steps)
    elif op["op"] == "pool" and steps == (1, 1):
        made = torch.nn.functional.avg_pool2d(_wide(image), window, strides)
        made = made if op["kind"] == "mean" else made * (window[0] * window[1])
    else:
        seen = image
        for axis in (0, 1):
            seen = seen.unfold(2 + axis, (window[axis] - 1) * steps[axis] + 1, strides[axis])[..., :: steps[axis]]
        seen = seen.permute(0, 2, 3, 4, 5, 1)
        if op["op"] == "window":
            return seen
        made = _wide(seen).sum((3, 4)) if op["kind"] == "sum" else _wide(seen).mean((3, 4))
        return made
    return made.permute(0, 2, 3, 1)


def _gather(x: torch.Tensor, ids: torch.Tensor, axis: int) -> torch.Tensor:
    """Gathers x by ids along an axis. An id outside of x yields zeros."""
    kept = ids.clamp(0, x.shape[axis] - 1)
    found = x[kept] if axis == 0 else torch.gather(x, -1, kept)
    there = (ids == kept).reshape([*ids.shape, *[1] * (found.dim() - ids.dim())])
    return torch.where(there, found, torch.zeros((), dtype=x.dtype, device=x.device))


def _cast(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    if dtype == torch.int32 and x.dtype in _FLOATS:
        return x.double().nan_to_num(0, 2**31 - 1, -(2**31)).clamp(-(2**31), 2**31 - 1).to(dtype)
    if dtype == torch.float8_e4m3fn and x.dtype != dtype:
        return x.float().clamp(-448, 448).to(dtype)  # torch's own cast turns larger values into NaN
    return x.to(dtype)


def _convolve(op: Dict[str, Any], x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    top, bottom, left, right = op.get("pads", (0, 0, 0, 0))
    filter = w.permute(3, 2, 0, 1) if op.get("filter") == "HWIO" else w.permute(0, 3, 1, 2)
    image, padding = x.permute(0, 3, 1, 2), (top, left)
    if (top, left) != (bottom, right):
        image, padding = torch.nn.functional.pad(image, (left, right, top, bottom)), (0, 0)
    made = torch.nn.functional.conv2d(image, filter, None, tuple(op.get("strides", (1, 1))), padding, tuple(op.get("dilations", (1, 1))), op.get("groups", 1))
    return made.permute(0, 2, 3, 1)
