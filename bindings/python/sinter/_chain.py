"""A finished chain."""

from __future__ import annotations

import ctypes
import json
from typing import Any, Dict, NamedTuple, Optional, Tuple, Union

from . import _abi
from ._argument import integer
from ._dtype import DType
from ._error import invalid
from ._handle import Handle
from ._library import call, call_for_digest, call_for_text, encode, library, take_text, text
from ._shape import Shape

M_MAX = 2**31 - 1
_CACHED_SIZES = 256


class TensorInfo(NamedTuple):
    """One buffer of a chain at some M.

    Attributes:
        name: as given to the builder, or "".
        dtype: of its elements.
        shape: extents, outermost first.
        strides: in elements, one per axis.
        bytes: from the first element to the end of the last.
        constant: weights: never changed while a plan uses them.
    """

    name: str
    dtype: DType
    shape: Shape
    strides: Shape
    bytes: int
    constant: bool


class Chain(Handle):
    """A graph of operators, immutable. Thread-safe; belongs to no context.

    Made by ``Chain.from_text``, ``Chain.from_json`` or ``Builder.finish``.
    """

    __slots__ = ("m", "line", "uses_m", "input_count", "output_count", "_buffers", "_m_axes", "_aliases")
    _release_name = "sinter_chain_release"

    def __init__(self, pointer: ctypes.c_void_p, m: Optional[int] = None, line: str = "") -> None:
        super().__init__(pointer)
        lib = library()
        #: The m of the text that the chain was made from, else None.
        self.m = m
        #: The canonical line of that text, else "".
        self.line = line
        #: Whether the symbol M occurs.
        self.uses_m: bool = lib.sinter_chain_uses_m(pointer) != 0
        self.input_count: int = lib.sinter_chain_get_input_count(pointer)
        self.output_count: int = lib.sinter_chain_get_output_count(pointer)
        self._buffers: Dict[int, Tuple[TensorInfo, ...]] = {}
        self._aliases: Optional[Dict[int, int]] = None
        self._m_axes = self._find_m_axes()

    @classmethod
    def from_text(cls, line: str) -> "Chain":
        """A chain from one line, for example "gated_ffn m=M n=3072 k=1024 l=1024 act=silu dtype=bf16".

        Raises:
            Error: INVALID_ARGUMENT naming the key, the value and what is allowed.
        """
        _need_str(line, "line")
        chain, out_line = ctypes.c_void_p(), ctypes.c_void_p()
        m = ctypes.c_int64()
        call(
            "sinter_x_chain_from_text",
            encode(line, "line"),
            ctypes.byref(chain),
            ctypes.byref(m),
            ctypes.byref(out_line),
        )
        return cls(chain, None if m.value < 0 else m.value, take_text(out_line))

    @classmethod
    def from_json(cls, document: Union[str, Dict[str, Any]]) -> "Chain":
        """A chain from its JSON form, as text or as what ``json.loads`` returns.

        Raises:
            Error: INVALID_ARGUMENT with the path of the value, or line and column of what is no JSON.
        """
        source = document if isinstance(document, str) else _dumped(document)
        chain = ctypes.c_void_p()
        call("sinter_x_chain_from_json", encode(source, "document"), ctypes.byref(chain))
        return cls(chain)

    @classmethod
    def of(cls, value: "ChainLike") -> "Chain":
        """`value` itself, or the chain of a text or JSON text."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, str):
            raise TypeError(f"chain is a {type(value).__name__}, not a sinter.Chain or a str")
        return cls.from_json(value) if value.lstrip().startswith("{") else cls.from_text(value)

    def to_json(self) -> str:
        """The JSON form, with ops in canonical order."""
        return call_for_text("sinter_x_chain_to_json", self._get())

    def __str__(self) -> str:
        """One line per op, in canonical order."""
        return call_for_text("sinter_x_chain_to_text", self._get())

    def _told(self) -> str:
        return self.line or self.digest[:12]

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical form, 64 hex digits."""
        return call_for_digest("sinter_x_chain_get_digest", self._get())

    def flops(self, m: int = 0) -> float:
        """2 m n k summed over the products at M = `m`."""
        m = integer(m, "m", 0, M_MAX)
        return float(library().sinter_x_chain_get_flops(self._get(), m))

    def inputs(self, m: int = 0) -> Tuple[TensorInfo, ...]:
        """The inputs in the order of their adds, at M = `m`."""
        return self.buffers(m)[: self.input_count]

    def outputs(self, m: int = 0) -> Tuple[TensorInfo, ...]:
        """The outputs in the order of their declaration, at M = `m`."""
        return self.buffers(m)[self.input_count :]

    def buffers(self, m: int = 0) -> Tuple[TensorInfo, ...]:
        """Inputs, then outputs, at M = `m`.

        Raises:
            Error: INVALID_ARGUMENT or OUT_OF_RANGE for m.
        """
        found = self._buffers.get(m)
        if found is None:
            m = integer(m, "m", 0, M_MAX)
            count = self.input_count + self.output_count
            found = tuple(self._read(index, m) for index in range(count))
            if len(self._buffers) < _CACHED_SIZES:
                self._buffers[m] = found
        return found

    def m_of(self, index: int, buffer_shape: Shape) -> Optional[int]:
        """What buffer `index` says of M by its shape; None when M is none of its extents."""
        axis = self._m_axes[index]
        return buffer_shape[axis] if axis is not None and axis < len(buffer_shape) else None

    def aliases(self) -> Dict[int, int]:
        """Outputs that may share an input's buffer: output index -> input index."""
        if self._aliases is None:
            outputs = json.loads(self.to_json())["outputs"]
            self._aliases = {i: output["alias"] for i, output in enumerate(outputs) if "alias" in output}
        return self._aliases

    def strides_use_m(self) -> bool:
        """Whether a stride grows with M, so that buffers serve one M only."""
        return any(a.strides != b.strides for a, b in zip(self.buffers(2), self.buffers(3)))

    def _read(self, index: int, m: int) -> TensorInfo:
        info = _abi.TensorInfo()
        call("sinter_chain_get_buffer", self._get(), index, m, ctypes.byref(info))
        return TensorInfo(
            text(info.name),
            DType(info.dtype),
            tuple(info.dims[: info.rank]),
            tuple(info.strides[: info.rank]),
            info.bytes,
            bool(info.flags & _abi.INPUT_CONSTANT),
        )

    def _find_m_axes(self) -> Tuple[Optional[int], ...]:
        def first(a: TensorInfo, b: TensorInfo) -> Optional[int]:
            differing = [i for i, (x, y) in enumerate(zip(a.shape, b.shape)) if x != y]
            return differing[0] if differing else None

        return tuple(first(a, b) for a, b in zip(self.buffers(2), self.buffers(3)))


ChainLike = Union[Chain, str]


def _dumped(document: object) -> str:
    try:
        return json.dumps(document)
    except TypeError as reason:
        raise TypeError(f"document is no JSON: {reason}") from None
    except (ValueError, RecursionError) as reason:
        raise invalid(f"document is no JSON: {reason}") from None


def _need_str(value: object, name: str) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} is a {type(value).__name__}, not a str")


def help_text(kind: Optional[str] = None) -> str:
    """The keys of a kind of the text form with bounds and defaults; without `kind` every kind, one a line.

    Raises:
        Error: INVALID_ARGUMENT naming the kinds there are.
    """
    name = None
    if kind is not None:
        _need_str(kind, "kind")
        name = encode(kind, "kind")
    return call_for_text("sinter_x_problem_help", name)
