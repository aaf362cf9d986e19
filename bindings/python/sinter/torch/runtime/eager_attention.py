"""Merges the ops into which ``attention`` writes attention into one op again: torch then computes it without its scores in memory."""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Set

import torch


class _Step(NamedTuple):
    """One operation on the scores: "add", "keep" or "hide" by an operand, "reshape" to dims, or "causal", which hides keys after the row."""

    kind: str
    value: int = -1
    dims: Sequence[Any] = ()


def with_attention(ops: List[Dict[str, Any]], document: Dict[str, Any]) -> List[Dict[str, Any]]:
    """The ops, with each softmax between two batched products merged with them into one op."""
    reads: Dict[int, Set[int]] = {}
    for op in ops:
        for i in op.get("in", ()):
            reads.setdefault(i, set()).add(op["id"])
    for output in document["outputs"]:
        reads.setdefault(output["value"], set()).add(-1)
    values = {op["id"]: op for op in ops}
    gone: Set[int] = set()
    made: Dict[int, Dict[str, Any]] = {}
    for op in ops:
        found = _Reader(values).attention(op)
        if found is not None and all(reads[i] <= {*found["gone"], op["id"]} for i in found["gone"]):
            made[op["id"]] = found
            gone.update(found["gone"])
    return [made.get(op["id"], op) for op in ops if op["id"] not in gone]


class _Reader:
    """Walks back from the second product, and notes the ops that it passes."""

    def __init__(self, values: Dict[int, Dict[str, Any]]) -> None:
        self.values = values
        self.gone: Set[int] = set()

    def op(self, number: int, *kinds: str) -> Optional[Dict[str, Any]]:
        """The op of that number, if it is of one of `kinds` ("binary mul" or "cast"). The op is noted."""
        op = self.values.get(number)
        if op is None or op["op"] not in kinds and f"{op['op']} {op.get('kind')}" not in kinds:
            return None
        self.gone.add(number)
        return op

    def attention(self, product: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        if product["op"] != "matmul" or len(product["dims"]) != 4 or product.get("transpose_a") or product.get("transpose_b"):
            return None
        rounded = self.op(product["in"][0], "cast")
        quotient = self.op(rounded["in"][0], "binary div") if rounded else None
        powers = self.op(quotient["in"][0], "unary exp") if quotient else None
        if quotient is None or powers is None or self.statistic(quotient["in"][1], "sum") != powers["id"]:
            return None
        difference = self.op(powers["in"][0], "binary sub")
        if difference is None or self.statistic(difference["in"][1], "max") != difference["in"][0]:
            return None
        steps: List[_Step] = []
        at = difference["in"][0]
        while True:
            op = self.op(at, "binary add", "select", "reshape", "binary mul")
            if op is None:
                return None
            if op["op"] == "binary" and op["kind"] == "mul":
                break
            at = self.step(op, steps)
        scale, scores = self.number(op["in"][1]), self.op(op["in"][0], "matmul")
        if scale is None or scores is None or not scores.get("transpose_b"):
            return None
        steps.reverse()
        operands = [*scores["in"], product["in"][1], *(step.value for step in steps if step.value >= 0)]
        return {**product, "op": "attention", "in": operands, "scale": scale, "steps": steps, "scores": scores["dims"], "gone": self.gone}

    def statistic(self, number: int, kind: str) -> Optional[int]:
        """The value that is reduced and then broadcast to its extents again, with or without a bound in between; else None."""
        spread = self.op(number, "broadcast")
        bounded = self.op(spread["in"][0], "binary max") if spread else None
        below = bounded or spread
        reduced = self.op(below["in"][0], f"reduce {kind}") if below else None
        return int(reduced["in"][0]) if reduced else None

    def step(self, op: Dict[str, Any], steps: List[_Step]) -> int:
        """Notes a step. Returns the scores before it."""
        if op["op"] == "reshape":
            steps.append(_Step("reshape", dims=op["dims"]))
            return int(op["in"][0])
        if op["op"] == "binary":
            steps.append(_Step("add", self.unspread(op["in"][1])))
            return int(op["in"][0])
        keeps = self.number(op["in"][2]) == -math.inf
        condition = self.unspread(op["in"][0])
        steps.append(_Step("causal" if self.is_causal(condition) else "keep" if keeps else "hide", condition))
        return int(op["in"][1 if keeps else 2])

    def unspread(self, number: int) -> int:
        op = self.values.get(number)
        return int(op["in"][0]) if op is not None and op["op"] == "broadcast" else number

    def number(self, number: int) -> Optional[float]:
        op = self.values.get(self.unspread(number))
        return float(op["value"]) if op is not None and op["op"] == "scalar" else None

    def is_causal(self, number: int) -> bool:
        """Whether a value is the predicate row >= key, which the backend makes."""
        op = self.values.get(number, {})
        sides = [self.values.get(i, {}) for i in op.get("in", ())] if op.get("op") == "compare" else []
        return op.get("kind") == "ge" and [side.get("op") for side in sides] == ["iota"] * 2 and [side["axis"] for side in sides] == [0, 1]


def attend(op: Dict[str, Any], x: List[torch.Tensor]) -> torch.Tensor:
    """The op by torch's scaled dot product attention. `x`: q, k, v, and operands of steps."""
    q, k, v, *left = x
    steps: List[_Step] = op["steps"]
    if [step.kind for step in steps] == ["causal"]:
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, scale=op["scale"])
    bias: Optional[torch.Tensor] = None
    shape = torch.Size([*q.shape[:3], k.shape[2]])
    for step in steps:
        if step.kind == "reshape":
            bias = bias if bias is None else bias.expand(shape).reshape(list(step.dims))
            shape = torch.Size(step.dims)
            continue
        term = left.pop(0)
        if step.kind == "add":
            bias = term.to(q.dtype) if bias is None else bias + term.to(q.dtype)
        else:
            before = torch.zeros((), dtype=q.dtype, device=q.device) if bias is None else bias
            hidden = torch.full((), -math.inf, dtype=q.dtype, device=q.device)
            bias = torch.where(term, hidden, before) if step.kind == "hide" else torch.where(term, before, hidden)
    if bias is not None and bias.dim() < 2:
        bias = bias.reshape(1, -1)
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, bias, scale=op["scale"])
