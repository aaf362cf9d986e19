"""Rows of ATen operators that multiply matrices or correlate images."""

from __future__ import annotations

from typing import Any, Sequence, Tuple

from ..._value import Value
from ..._operators import concat, conv2d, grouped_matmul_ends
from ..._scaled import Scaled, scaled_matmul
from .arrays import Array, Refused, extent, of
from .converter import PLACE, Converter, target_of
from .op_table import row
from .windows import CHANNELS_SECOND, channels_last, each_channel_by_itself


_MOST_STRIDE = 8  # the largest stride of a convolution's tensor maps
_ROW = 8  # channels of a pixel that a kernel reads at once: 16 bytes
#: Threads may compute a product with at most so many multiplications, and so many in one sum: tiles of tensor cores would be mostly empty.
_FEW_MULTIPLICATIONS, _FEW_SUMMED = 1 << 21, 64
#: Products of rows by a matrix: the position of the rows among the arguments; the matrix is the next argument.
OF_ROWS = {"aten.mm.default": 0, "aten.addmm.default": 1}


def operand(c: Converter, node: Any) -> Array:
    """An operand of a product, in the 16 bits that the graph gives it."""
    x, dtype = c.array(node), c.dtype(node)
    return x if str(x.value.dtype) == dtype else x.with_value(x.value.cast(dtype))


def _matrix(x: Array) -> Value:
    """The operand with its last two axes in the graph's order; a product reads exchanged axes at no cost."""
    rank = len(x.order)
    exchanged = (*range(rank - 2), rank - 1, rank - 2)
    return x.value.T if x.order == exchanged else x.plain


def _product(c: Converter, node: Any, a: Any, b: Any) -> Value:
    left, right = operand(c, a), operand(c, b)
    if c.by_threads and is_small(node):
        return _by_threads(left.plain, right.value if right.order == (1, 0) else right.plain.transpose(1, 0))
    return left.plain @ _matrix(right)


def is_small(node: Any) -> bool:
    """Whether threads may compute a product of matrices, in the kernel of its readers."""
    if target_of(node) not in OF_ROWS:
        return False
    rows, summed = (extent(size) for size in node.args[OF_ROWS[target_of(node)]].meta["val"].shape)
    columns = extent(node.meta["val"].shape[1])
    sizes = (rows, summed, columns)
    return all(isinstance(size, int) for size in sizes) and summed <= _FEW_SUMMED and rows * summed * columns <= _FEW_MULTIPLICATIONS


def _by_threads(a: Value, b: Value) -> Value:
    """Sums of products of the rows of `a` and of `b`."""
    shape = (a.shape[0], *b.shape)
    left, right = a.cast("f32").reshape(shape[0], 1, shape[2]), b.cast("f32").reshape(1, *b.shape)
    return (left.broadcast_to(shape) * right.broadcast_to(shape)).sum(-1).reshape(*shape[:2])


def _heads_of(node: Any) -> Any:
    """Batch and heads of the result of attention, if its only reader is a view that separates the two, with or without axes of 1; else None."""
    if node.meta.get(PLACE) != 2 or len(node.users) != 1:
        return None
    (view,) = node.users
    sizes, own = ([extent(size) for size in x.meta["val"].shape] for x in (view, node))
    apart = target_of(view).startswith("aten.view.") or target_of(view).startswith("aten.reshape.")
    same = [size for size in sizes[2:] if size != 1] == [size for size in own[1:] if size != 1]
    return sizes[:2] if apart and len(sizes) >= 4 and same and all(isinstance(size, int) for size in sizes) else None


@row("aten.mm.default", "aten.bmm.default", product=True)
def _mm(c: Converter, node: Any) -> Any:
    heads = _heads_of(node)
    if heads is not None:
        a, b = (operand(c, x).plain for x in node.args[:2])
        y = (a.reshape(*heads, *a.shape[1:]) @ b.reshape(*heads, *b.shape[1:])).cast(c.dtype(node))
        (view,) = node.users
        if view not in c.inside:
            return of(y.reshape(*c.dims(node)[0]))
        c.apart[view] = of(y.reshape(*c.dims(view)[0]) if len(c.dims(view)[0]) > 4 else y)
        return of(y), None  # only `view` reads it: one more view would be an op that no output needs
    y = _product(c, node, *node.args[:2])
    return of(y * c.scales[node] if node in c.scales else y, c.dims(node)[1])


@row("aten.addmm.default", "aten.baddbmm.default", product=True)
def _addmm(c: Converter, node: Any) -> Array:
    if node.kwargs.get("alpha", 1) != 1 or node.kwargs.get("beta", 1) != 1:
        raise Refused("factors of a product")
    bias = c.array(node.args[0])
    return of(_product(c, node, *node.args[1:3]) + bias.plain, c.dims(node)[1])


@row("aten._grouped_mm.default", product=True)
def _grouped_mm(c: Converter, node: Any) -> Array:
    """Multiplies rows, sorted by matrix, with the end offset of each matrix's rows. Rows past the last end are zeros; torch leaves them undefined."""
    names = dict(zip(("mat1", "mat2", "offs", "bias", "out_dtype"), node.args), **node.kwargs)
    a, w, ends = operand(c, names["mat1"]), operand(c, names["mat2"]), names.get("offs")
    if ends is None or len(a.dims) != 2 or len(w.dims) != 3:
        raise Refused("groups that are not rows of the first operand")
    if names.get("bias") is not None:
        raise Refused("a bias of a grouped product")
    exchanged = w.order == (0, 2, 1)
    matrices = w.value if exchanged else w.plain
    return of(grouped_matmul_ends(a.plain, matrices, c.array(ends).plain, layout="oi" if exchanged else "io"), c.dims(node)[1])


@row("aten.convolution.default", product=True)
def _convolution(c: Converter, node: Any) -> Array:
    """A convolution in one or more groups. Each channel of the image and of the result may be a group."""
    x, w, bias, stride, padding, dilation = node.args[:6]
    groups = node.args[8]
    image, weight = operand(c, x), operand(c, w)
    if image.folded:
        raise Refused("its images are rows of M")
    line = len(image.order) == 3  # an image of one row
    back = CHANNELS_SECOND[len(image.order)]

    def move(a: Array) -> Value:
        moved = channels_last(a)
        return moved.reshape(moved.shape[0], 1, *moved.shape[1:]) if line else moved

    first = ([1], [0], [1]) if line else ([], [], [])
    stride, padding, dilation = ([*row, *given] for row, given in zip(first, (stride, padding, dilation)))
    taps = [*first[0], *w.meta["val"].shape[2:]]
    apart = taps == stride and not any(padding) and all(step == 1 for step in dilation)
    if groups != 1 and groups == x.meta["val"].shape[1] == w.meta["val"].shape[0]:
        y = each_channel_by_itself(c, move(image), weight, taps, stride=stride, padding=padding, dilation=dilation)
    elif apart and groups == 1 and max(stride) > _MOST_STRIDE:
        y = _of_patches(move(image), move(weight), stride, weight.order == back)
    else:
        pixels, filters = move(image), move(weight)
        if groups == 1 and stride[1] == 2 and dilation[1] == 1:
            pixels, filters, stride, padding = _in_pairs(pixels, filters, stride, padding)
        y = conv2d(pixels, filters, stride=stride, padding=padding, dilation=dilation, groups=groups)
    if line:
        y = y.reshape(y.shape[0], *y.shape[2:])
    if bias is not None:
        y = y + c.array(bias).plain
    return Array(y, back)


def _in_pairs(image: Value, weight: Value, stride: Sequence[int], padding: Sequence[int]) -> Tuple[Value, Value, Sequence[int], Sequence[int]]:
    """Rewrites a convolution with a stride of two columns: each two pixels of a row become one pixel of twice the channels. Both pixels must fit
    into the bytes that a kernel reads of one pixel, as those of a photograph do. Half as many bytes are then copied with zeros, and half as many
    taps are read. Other convolutions stay as they are. `image`: [n, h, w, c]; `weight`: [k, r, s, c]."""
    n, height, width, c = image.shape
    k, rows, taps = weight.shape[:3]
    lead = padding[1] % 2  # taps of zeros, so that a window begins with a pair
    pairs, before = (taps + lead + 1) // 2, (padding[1] + lead) // 2
    after = (width + 2 * padding[1] - taps) // 2 - width // 2 - before + pairs
    if 2 * c > _ROW or width % 2 or taps < 2 or after < 0:
        return image, weight, stride, padding
    filters = weight
    if 2 * pairs != taps:
        zero = weight.builder.scalar(0.0, weight.dtype)
        zeros = [zero.broadcast_to((k, rows, columns, c)) for columns in (lead, 2 * pairs - taps - lead) if columns]
        filters = concat([*zeros[:lead], weight, *zeros[lead:]], 2)
    pads = (padding[0], padding[0], before, after)
    return image.reshape(n, height, width // 2, 2 * c), filters.reshape(k, rows, pairs, 2 * c), (stride[0], 1), pads


def _of_patches(image: Value, weight: Value, sides: Sequence[int], channels_last: bool) -> Value:
    """A convolution whose windows do not overlap, as a product of patches. The image is copied once, to patches in the order of the
    weight's memory. `image`: [n, h, w, c]; `weight`: [k, *sides, c]."""
    n, c = image.shape[0], image.shape[3]
    height, width = (size // side for size, side in zip(image.shape[1:3], sides))
    whole = image[:, : height * sides[0], : width * sides[1], :]
    patches = whole.reshape(n, height, sides[0], width, sides[1], c).transpose(*((0, 1, 3, 2, 4, 5) if channels_last else (0, 1, 3, 5, 2, 4)))
    filters = weight if channels_last else weight.transpose(0, 3, 1, 2)
    y = patches.reshape(n, height * width, sides[0] * sides[1] * c) @ filters.reshape(weight.shape[0], sides[0] * sides[1] * c).T
    return y.reshape(n, height, width, weight.shape[0])


@row("aten._scaled_mm.default", product=True)
def _scaled_mm(c: Converter, node: Any) -> Array:
    """a [m, k] @ w [k, n] of codes. a has one scale or one for each row, w has one scale or one for each column."""
    given = [*node.args, *(None,) * (8 - len(node.args))]
    a, w, scale_a, scale_w = given[:4]
    bias, scale_result, fast = (node.kwargs.get(name, given[at]) for name, at in (("bias", 4), ("scale_result", 5), ("use_fast_accum", 7)))
    if scale_result is not None:
        raise Refused("a scale of the result")
    codes = c.array(w)
    columns = codes.value if codes.order == (1, 0) else codes.plain.T
    operands = Scaled(c.array(a).plain, _scale(c, scale_a, 0)), Scaled(columns, _scale(c, scale_w, 1))
    y = scaled_matmul(*operands, accumulate="fast" if fast else "promoted")
    if bias is not None:
        y = y + c.array(bias).plain
    return of(y, c.dims(node)[1])


def _scale(c: Converter, node: Any, axis: int) -> Value:
    """A scale for all elements, [], or one for each row or column, [size, 1]."""
    value, sizes = c.array(node).plain, c.array(node).dims
    if all(size == 1 for size in sizes):
        return value.reshape() if sizes else value
    if len(sizes) != 2 or sizes[1 - axis] != 1:
        raise Refused(f"a scale of extents {list(sizes)}")
    return value if axis == 0 else value.reshape(sizes[1], 1)
