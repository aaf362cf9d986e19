"""Decides which nodes of a graph are captured, and states why each other node is left to Inductor."""

from __future__ import annotations

import math
from typing import Any, Callable, Iterable, List, Optional

from ..convert.arrays import DTYPES, HALVES, extent
from ..convert.aten import TABLE
from ..convert.attention import is_attention, why_not_attention
from ..convert.converter import CHOOSING, PLACE, PLACES, filled, target_of
from ..convert.op_table import viewed
from ..convert.products import OF_ROWS, is_small
from ..convert.foreach import is_list, of_numbers
from ..convert.windows import by_channel
from .partition import Kind

#: The most multiplications of a small batched product, which threads compute; attention's and larger ones stay with torch.
_MOST_BATCHED = 1 << 14
_MOST_RANK = 6
_ALIGNED = 16  # bytes: a tensor at an unaligned address is copied before a launch

#: Why a product of f32 operands is not captured, and what its model can do.
OF_F32 = "a product of f32: cast the model to bfloat16 or float16, or compile it under torch.autocast"
#: Why a product is not captured on another chip, where its kernels were never timed.
OF_HOPPER = "products are timed only on Hopper (sm_90a: H100, H200, GH200): Inductor keeps them"
#: Why a whole layer of PyTorch is not captured, and how to get its ops.
_FAST_PATH = "PyTorch's fast path, which hides the layer's ops: call torch.backends.mha.set_fastpath_enabled(False) before the model is compiled"

#: Operators that read no tensor, or only a property of one.
_NO_WORK = ("sym_", "split", "unbind", "_assert", "full", "iota", "scalar_tensor")
_NOT_TAKEN = {
    "_scaled_dot_product": "attention",
    "flash_attention": "attention",
    "flex_attention": "attention",
    "embedding": "rows by indices",
    "index": "rows by indices",
    "gather": "rows by indices",
    "scatter": "rows by indices",
    "convolution_backward": "gradient of a convolution",
    "pool": "pooling",
    "rand": "random numbers",
    "bernoulli": "random numbers",
    "seed": "random numbers",
    "sort": "sorting",
    "cumprod": "a scan",
    "upsample": "interpolation",
    "copy_": "a write into an input",
    "_transformer_encoder_layer_fwd": _FAST_PATH,
    "_native_multi_head_attention": _FAST_PATH,
}


def why_left(node: Any, device: Optional[str]) -> Optional[str]:
    """Why a computing node is not captured; None for a captured one. `device`: the device type of the nodes that are captured."""
    name = target_of(node)
    row = TABLE.get(name)
    if row is None:
        return _named(name)
    if name == "getitem":
        parent = node.args[0]
        return None if TABLE.get(target_of(parent), row).several and why_left(parent, device) is None else "of what is left"
    if filled(node) is not None:
        return "a number"
    operands = node.all_input_nodes
    if row.rows_by:
        table, ids = node.args[:2]
        if str(ids.meta["val"].dtype) not in ("torch.int64", "torch.int32"):
            return f"ids of {ids.meta['val'].dtype}"
        operands = [table]
    if is_attention(node):
        why = why_not_attention(node)
        if why is not None:
            return why
    elif row.first and any(target_of(user) != "getitem" or user.args[1] != 0 for user in node.users):
        return "more than its values is read"
    own = list(_tensors(node))[: 0 if name in PLACES else 1 if row.first or name in CHOOSING else None]
    for val in (*own, *(val for i in operands for val in _tensors(i))):
        why = _why_not_tensor(val, device)
        if why is not None:
            return why
    if is_list(node) and of_numbers(node):
        return "a list of numbers"
    return _why_not_product(node, name) if row.product and not is_attention(node) else None


def kinds(device: Optional[str], left: "dict[Any, str]") -> Callable[[Any], Kind]:
    """A function from a node to its properties for the partitioner. `left`: nodes that were refused meanwhile."""

    def kind(node: Any) -> Kind:
        if node.op != "call_function" or node in left or why_left(node, device) is not None:
            return Kind(False)
        if target_of(node) == "getitem" and node.args[0] in left:
            return Kind(False)
        row = TABLE[target_of(node)]
        single = is_attention(node) or node.meta.get(PLACE) == 2
        widest = max((val.element_size() for val in _tensors(node)), default=1)
        view = row.view and target_of(node) != "getitem"
        return Kind(True, not row.moves, view, row.several, single, widest, _weight_of(node), view and _is_unaligned(node))

    return kind


def _is_unaligned(node: Any) -> bool:
    """Whether a view begins at an unaligned address in memory that begins at an aligned one, such as a gate of a step."""
    val = node.meta["val"]
    begin = val.storage_offset() if hasattr(val, "storage_offset") else 0
    return isinstance(begin, int) and begin * val.element_size() % _ALIGNED != 0


def _weight_of(node: Any) -> Any:
    """The matrix of a product of rows. None for any other node, and for a small product: it does not divide a plan's search, which would take
    long in a part with many products."""
    return None if is_small(node) else matrix_of(node)


def matrix_of(node: Any) -> Any:
    """The matrix by which a product multiplies its rows, of which it may read a view. None for any other node."""
    if target_of(node) not in OF_ROWS:
        return None
    return viewed(node.args[OF_ROWS[target_of(node)] + 1])


def needs_hopper(node: Any) -> bool:
    """Whether a node is a product that kernels of products or of attention compute, never threads."""
    row = TABLE.get(target_of(node))
    if row is None or not (row.product or is_attention(node)):
        return False
    return not (is_small(node) or by_channel(node) or "bmm" in target_of(node))  # of batches threads may compute small ones


def computes(node: Any) -> bool:
    """Whether a report should list a node that is not captured: it is not a view, not a number, and not one of Python's own operators."""
    name = target_of(node)
    known = TABLE.get(name)
    if known is not None:
        return not known.moves and filled(node) is None
    return name.startswith(("aten.", "prims.")) and not any(word in name for word in _NO_WORK)


def _named(name: str) -> str:
    for part, why in _NOT_TAKEN.items():
        if part in name:
            return why
    return f"no op of a chain: {name}"


def _tensors(node: Any) -> Iterable[Any]:
    val = node.meta.get("val")
    vals: List[Any] = list(val) if isinstance(val, (list, tuple)) else [val]
    return [v for v in vals if hasattr(v, "dtype") and hasattr(v, "shape")]


def _why_not_tensor(val: Any, device: Optional[str]) -> Optional[str]:
    dtype = str(val.dtype)
    if dtype not in DTYPES:
        return f"dtype {dtype.replace('torch.', '')}"
    if len(val.shape) > _MOST_RANK:
        return f"rank {len(val.shape)}"
    if any(isinstance(size, int) and size == 0 for size in val.shape):
        return "no elements"
    if device is not None and val.device.type != device:
        return f"on {val.device.type}"
    if str(val.layout) != "torch.strided":
        return f"layout {val.layout}"
    return None


def _why_not_product(node: Any, name: str) -> Optional[str]:
    first = 1 if "add" in name else 0
    a, b = (node.args[first + i].meta["val"] for i in range(2))
    if name == "aten._scaled_mm.default":
        return None if DTYPES[str(a.dtype)] == DTYPES[str(b.dtype)] == "e4m3" else f"a product of {a.dtype} and {b.dtype}"
    if DTYPES[str(a.dtype)] not in HALVES:
        return OF_F32
    if name.startswith("aten.convolution"):
        return _why_not_convolution(node, b)
    if "bmm" in name and PLACE not in node.meta:
        sizes = [extent(size) for size in (*a.shape[1:], b.shape[-1])]
        if any(not isinstance(size, int) for size in sizes) or math.prod(sizes) > _MOST_BATCHED:
            return "a batched product"
    if _is_padded(node.args[first + 1]):
        return "a product whose second operand Inductor pads"
    return None


def _is_padded(node: Any) -> bool:
    """Whether a node is a view of a copy that Inductor's `pad_mm` made. It pads an operand whose K or columns are not a multiple of 16 bytes.
    Inductor measured that a product of the copy is faster. The copy and the slice of the result stay with Inductor, which can fuse them."""
    return target_of(viewed(node)) == "aten.constant_pad_nd.default"


def _joins(groups: int, channels: int, results: int) -> bool:
    """Whether kernels take groups of so many channels: one group, or a few adjacent groups, must have a multiple of 16 bytes of channels and of
    results."""
    return any(groups % n == channels * n % 8 == results * n % 8 == 0 for n in (1, 2, 4, 8))


def _why_not_convolution(node: Any, w: Any) -> Optional[str]:
    transposed, groups = node.args[6], node.args[8]
    if transposed:
        return "a transposed convolution"
    channels = node.args[0].meta["val"].shape[1]
    if groups != 1 and not groups == channels == w.shape[0] and not _joins(groups, w.shape[1], w.shape[0] // groups):
        return f"a convolution in groups of {w.shape[1]} channels"
    if len(w.shape) not in (3, 4):
        return f"a convolution of {len(w.shape) - 2} axes"
    return None
