"""Functions of one operand, element by element. Written by ./dev bindings from include/sinter/*.h; do not edit."""

from __future__ import annotations

from ._builder import Value, builder_of

__all__ = [
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "tanh",
    "erf",
    "sigmoid",
    "relu",
    "reciprocal",
    "square",
    "sin",
    "cos",
    "floor",
    "ceil_pow2",
    "log1p",
    "expm1",
    "ceil",
    "round",
]


def exp(x: Value) -> Value:
    """e^x."""
    return builder_of(x)._unary("exp", x)


def log(x: Value) -> Value:
    """Natural logarithm."""
    return builder_of(x)._unary("log", x)


def sqrt(x: Value) -> Value:
    """Square root."""
    return builder_of(x)._unary("sqrt", x)


def rsqrt(x: Value) -> Value:
    """1 / sqrt(x)."""
    return builder_of(x)._unary("rsqrt", x)


def tanh(x: Value) -> Value:
    """Hyperbolic tangent."""
    return builder_of(x)._unary("tanh", x)


def erf(x: Value) -> Value:
    """Error function."""
    return builder_of(x)._unary("erf", x)


def sigmoid(x: Value) -> Value:
    """1 / (1 + e^-x)."""
    return builder_of(x)._unary("sigmoid", x)


def relu(x: Value) -> Value:
    """max(x, 0); NaN stays NaN."""
    return builder_of(x)._unary("relu", x)


def reciprocal(x: Value) -> Value:
    """1 / x."""
    return builder_of(x)._unary("reciprocal", x)


def square(x: Value) -> Value:
    """x * x."""
    return builder_of(x)._unary("square", x)


def sin(x: Value) -> Value:
    """Sine."""
    return builder_of(x)._unary("sin", x)


def cos(x: Value) -> Value:
    """Cosine."""
    return builder_of(x)._unary("cos", x)


def floor(x: Value) -> Value:
    """The largest integer that is not above x."""
    return builder_of(x)._unary("floor", x)


def ceil_pow2(x: Value) -> Value:
    """The smallest power of two that is not less, and 2^-126 or more."""
    return builder_of(x)._unary("ceil_pow2", x)


def log1p(x: Value) -> Value:
    """log(1 + x)."""
    return builder_of(x)._unary("log1p", x)


def expm1(x: Value) -> Value:
    """e^x - 1."""
    return builder_of(x)._unary("expm1", x)


def ceil(x: Value) -> Value:
    """The smallest integer that is not below x."""
    return builder_of(x)._unary("ceil", x)


def round(x: Value) -> Value:
    """To the nearest integer, halves to the even one."""
    return builder_of(x)._unary("round", x)
