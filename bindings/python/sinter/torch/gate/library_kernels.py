"""Estimates the time of the library kernels that Inductor calls: products, convolutions, attention."""

from __future__ import annotations

import math
from typing import Any, Dict, Tuple

from ..convert.aten import TABLE
from ..convert.attention import CUDNN, EFFICIENT, FLASH, call_of, is_attention, scores_of
from ..convert.converter import target_of
from ..convert.windows import by_channel, groups_of
from .sizes import Hint, bytes_of, count_of, hinted, sizes_of

#: The shares of the tensor cores' and of the memory's rate that kernels reach which Inductor calls or generates, and the time that they take in
#: addition, from the end of the kernel before. Fitted to 135 products and 35 parts of 14 models, in CUDA graphs on an H100.
_PRODUCT_SHARE = 0.78
PRODUCT_START_US = 3.5
MEMORY_SHARE = 0.9
MEMORY_START_US = 1.9
#: Tile sizes of a library's product, in rows and columns of its result. The library takes the best.
_TILES = ((128, 256), (128, 128), (128, 64), (64, 256), (64, 128), (64, 64), (64, 32), (64, 16))
#: How many blocks may share the depth of a tile if there are few tiles, and the cost of joining their sums.
_SPLITS = (1, 2, 4, 8)
_JOIN_US = 3.0
#: PyTorch's grouped product: rows and columns of its tiles, and the share of the memory's rate that it reaches. Fitted to 32 products of four
#: mixtures on an H200 (docs/lab/grouped-products.md): off by 13 % in the root mean square, and by 29 % at most; there it takes longer.
_GROUPED_TILE = 128
_GROUPED_SHARE = 0.64
#: Multiplications of one multiprocessor in each microsecond of a library's depthwise convolution. The memory's time is added, because both do not
#: overlap. Off by 17 % in the root mean square of eight layers of 32 images on an H100, 38 % at most (docs/lab/windows.md).
_CHANNEL_RATE = 5.7e4
#: cuDNN's convolutions: the share of the tensor cores' rate, and their tiles, whose depth no blocks share. Fitted to 28 convolutions of
#: tests/bench/torch_backend/gate-h200.jsonl.
_CONVOLUTION_SHARE = 0.4
_CONVOLUTION_TILES = ((128, 128), (128, 64))
#: PyTorch's kernels of attention. The start, in microseconds from the end of the kernel before. For each score, in picoseconds of all of 132
#: multiprocessors: the time in addition to its products, the time for a column of a head, and the time for a value that is added to it. The share of
#: the memory's rate. Rows and keys that are computed together. Fitted to the 15 sizes of
#: tests/bench/results/h100-2026-11-27-61e2467-attention.json. Off by 11 % in the root mean square.
_ATTENTION = {
    FLASH: (3.35, 0.343, 0.0133, 0.0, 0.67, 64, 64),
    EFFICIENT: (7.75, 1.149, 0.0166, 1.59, 1.0, 64, 32),
}
#: cuDNN's kernels of attention, which PyTorch takes on an H200, fitted to the 202 sizes of tests/bench/torch_backend/gate-h200.jsonl. Blocks of 128
#: rows walk over all keys: nanoseconds for a key, and for a key and a column of a head, then both with a bias, and the share added if the rows are
#: full. Each wave of blocks and each launch take so many microseconds; a bias adds to that. Off by 6 to 12 % in the root mean square at 2 to 8 rows.
_CUDNN_ROWS = 128
_CUDNN_KEY, _CUDNN_BIASED_KEY = (5.4, 0.047), (8.8, 0.081)
_CUDNN_FULL = 0.27
_CUDNN_WAVE_US, _CUDNN_START_US, _CUDNN_BIAS_US = 0.8, 4.2, 1.6
#: cuDNN's kernel for one row splits the keys: microseconds at 128 keys and for each doubling, without and with a bias, and the share of the
#: memory's rate for heads of fewer than 96 columns and for others. Off by 11 %.
_CUDNN_ONE_ROW, _CUDNN_ONE_BIASED_ROW = (4.0, 0.6), (6.1, 0.7)
_CUDNN_ONE_ROW_SHARES = (0.83, 0.97)


def flop_of(node: Any, hint: Hint) -> float:
    """Multiplications and additions of a product; 0 for any other node."""
    row = TABLE.get(target_of(node))
    if row is None or not row.product:
        return 0.0
    if is_attention(node):
        q, _, v = (x.meta["val"] for x in call_of(node)[:3])
        return 2.0 * _scores(node, hint) * int(q.shape[3] + v.shape[3])
    result = count_of(node.meta["val"], hint)
    operand = node.args[1 if "add" in target_of(node) else 0].meta["val"]
    if "convolution" in target_of(node):
        return 2.0 * result * math.prod(sizes_of(node.args[1].meta["val"], hint)[1:])
    return 2.0 * result * sizes_of(operand, hint)[-1]


def product_us(node: Any, flop: float, figures: Dict[str, float], hint: Hint) -> float:
    """The time of waves of blocks, one block on each multiprocessor, with the best tile. A wave takes the longer of its multiplications and its
    operand loads. Meanwhile operands and result are read and written in memory; weights are not in a cache. Groups of a convolution are separate
    products."""
    if by_channel(node):
        passed = sum(bytes_of(i, hint) for i in (node, node.args[0])) / (MEMORY_SHARE * figures["hbm_bytes_per_us"])
        return float(flop / 2 / (_CHANNEL_RATE * figures["sm_count"]) + passed + PRODUCT_START_US)
    sizes = sizes_of(node.meta["val"], hint)
    convolves = "convolution" in target_of(node)
    columns = sizes[1 if convolves else -1]
    rows, groups = math.prod(sizes) // columns, groups_of(node)
    if "_grouped_mm" in target_of(node):
        return _grouped_us(node, rows, columns, flop, figures, hint)
    codes = "scaled" in target_of(node)
    share = _CONVOLUTION_SHARE if convolves else _PRODUCT_SHARE
    rate = share * figures["tensor_fp8_flop_per_us" if codes else "tensor_flop_per_us"] / figures["sm_count"]
    depth = flop / (2 * rows * columns)
    intake = figures["sm_intake_bytes_per_us"] / (1 if codes else 2)

    def waves_us(tile: Tuple[int, int], split: int) -> float:
        blocks = math.ceil(rows / tile[0]) * math.ceil(columns / groups / tile[1]) * groups * split
        if split > 1 and blocks > figures["sm_count"]:
            return math.inf
        wave = max(2 * tile[0] * tile[1] / rate, (tile[0] + tile[1]) / intake) * depth / split
        return math.ceil(blocks / figures["sm_count"]) * wave + (_JOIN_US if split > 1 else 0)

    tiles, splits = (_CONVOLUTION_TILES, (1,)) if convolves else (_TILES, _SPLITS)
    waves = min(waves_us(tile, split) for tile in tiles for split in splits)
    moved = sum(bytes_of(i, hint) for i in (node, *node.all_input_nodes)) / (MEMORY_SHARE * figures["hbm_bytes_per_us"])
    return float((waves**4 + moved**4) ** 0.25 + PRODUCT_START_US)


def _grouped_us(node: Any, rows: int, columns: int, flop: float, figures: Dict[str, float], hint: Hint) -> float:
    """Each matrix has tiles of its own rows, on average half a tile more than if all tiles were full. A kernel before finds them. Few rows read at
    most as many matrices."""
    matrices = sizes_of(node.args[1].meta["val"], hint)[0]
    apart = max(1, min(matrices, rows))
    blocks = apart * max(1.0, rows / apart / _GROUPED_TILE + 0.5) * math.ceil(columns / _GROUPED_TILE)
    rate = _PRODUCT_SHARE * figures["tensor_flop_per_us"] / figures["sm_count"]
    wave = max(2 * _GROUPED_TILE**2 / rate, 4 * _GROUPED_TILE / figures["sm_intake_bytes_per_us"]) * flop / (2 * rows * columns)
    moved = sum(bytes_of(i, hint) for i in (node, node.args[0])) + bytes_of(node.args[1], hint) * apart / matrices
    waves, streamed = math.ceil(blocks / figures["sm_count"]) * wave, moved / (_GROUPED_SHARE * figures["hbm_bytes_per_us"])
    return float((waves**4 + streamed**4) ** 0.25 + 2 * PRODUCT_START_US)


def attention_us(node: Any, figures: Dict[str, float], hint: Hint) -> float:
    """Microseconds of PyTorch's own attention. If the graph does not name the backend, of the fastest backend that takes it."""
    call, name = call_of(node), target_of(node)
    names = [name] if name in (*_ATTENTION, CUDNN) else [CUDNN, FLASH if call.bias is None else EFFICIENT]
    return min(_cudnn_us(node, figures, hint) if each == CUDNN else _attention_us(node, figures, hint, *_ATTENTION[each]) for each in names)


def _cudnn_us(node: Any, figures: Dict[str, float], hint: Hint) -> float:
    call, (batch, heads, rows, keys) = call_of(node), hinted(scores_of(node), hint)
    columns, biased = int(call.q.meta["val"].shape[3] + call.v.meta["val"].shape[3]) / 2, call.bias is not None
    moved = 2 * sum(bytes_of(x, hint) for x in (call.q, call.k)) / figures["hbm_bytes_per_us"]
    if rows == 1:
        start, doubling = _CUDNN_ONE_BIASED_ROW if biased else _CUDNN_ONE_ROW
        return start + doubling * math.log2(max(1.0, keys / 128)) + moved / _CUDNN_ONE_ROW_SHARES[columns >= 96]
    seen: float = math.ceil(keys / 128) * 128
    seen = (seen + 128) / 2 if call.causal else seen
    of_key, of_column = _CUDNN_BIASED_KEY if biased else _CUDNN_KEY
    full = 1 + _CUDNN_FULL * min(1.0, (rows - 1) / 64)
    each = (_CUDNN_KEY[0] + _CUDNN_KEY[1] * columns) * full + (of_key - _CUDNN_KEY[0]) + (of_column - _CUDNN_KEY[1]) * columns
    waves = math.ceil(batch * heads * math.ceil(rows / _CUDNN_ROWS) / figures["sm_count"])
    walked = waves * (seen * each * 1e-3 + _CUDNN_WAVE_US)
    return float((walked**4 + moved**4) ** 0.25 + _CUDNN_START_US + (_CUDNN_BIAS_US if biased else 0))


def _attention_us(
    node: Any, figures: Dict[str, float], hint: Hint, start: float, score: float, column: float, term: float, share: float, rows: int, keys: int
) -> float:
    call = call_of(node)
    sizes = hinted(scores_of(node), hint)
    columns = int(call.q.meta["val"].shape[3] + call.v.meta["val"].shape[3]) / 2
    seen: float = math.ceil(sizes[3] / keys) * keys
    seen = (seen + rows) / 2 if call.causal else seen
    scores = sizes[0] * sizes[1] * math.ceil(sizes[2] / rows) * rows * seen
    each = score + column * columns + (0 if call.bias is None else term)
    moved = 2 * sum(bytes_of(x, hint) for x in (call.q, call.k)) / (share * figures["hbm_bytes_per_us"])
    return start + max(scores * each * 1e-6 * 132 / figures["sm_count"], moved)


def _scores(node: Any, hint: Hint) -> float:
    """The number of scores that are computed: half of them if the attention is causal."""
    sizes = hinted(scores_of(node), hint)
    return math.prod(sizes) / (2 if call_of(node).causal else 1)
