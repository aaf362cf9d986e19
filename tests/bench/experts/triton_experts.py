"""A layer of experts in Triton, launch by launch as vLLM's fused_moe has it: the routing, slots sorted by experts and padded to tiles, gate and
up, silu, down times the weights, the sum. At a few rows slots are not sorted: each is a tile of its own.
"""

import torch
import triton
import triton.language as tl

#: Slots of a tile, columns, of k, tiles of slots that share columns in L2, warps, stages; up to so many rows. What vLLM 0.24 stores for H100
#: and H200 in bf16: what it stores most often, and what it stores for the models that are measured.
TILES = {
    4: [(16, 32, 64, 1, 4, 4), (16, 64, 64, 1, 4, 5), (16, 64, 128, 16, 4, 4), (16, 64, 128, 16, 4, 2), (16, 32, 256, 16, 4, 4),
        (16, 128, 128, 32, 8, 4), (16, 128, 64, 1, 4, 3)],
    16: [(16, 32, 128, 16, 4, 5), (16, 128, 64, 1, 4, 3), (16, 128, 64, 1, 8, 3), (16, 64, 256, 1, 4, 2), (16, 128, 128, 1, 4, 4),
         (16, 256, 64, 64, 8, 4)],
    64: [(16, 256, 128, 1, 8, 2), (32, 128, 128, 1, 4, 4), (16, 64, 128, 1, 4, 3), (16, 128, 128, 1, 8, 3), (16, 64, 64, 32, 4, 3),
         (16, 128, 128, 64, 4, 3)],
    256: [(32, 256, 128, 16, 4, 2), (32, 128, 128, 32, 4, 2), (64, 128, 128, 64, 4, 4), (16, 128, 128, 1, 8, 3), (64, 64, 64, 1, 4, 3),
          (128, 256, 64, 1, 8, 4)],
    1024: [(128, 256, 64, 16, 8, 4), (64, 128, 64, 32, 4, 3), (32, 128, 64, 1, 4, 3), (128, 128, 64, 1, 8, 3), (64, 128, 128, 1, 8, 4)],
    8192: [(128, 256, 64, 16, 8, 4), (128, 128, 64, 16, 4, 3), (128, 128, 64, 1, 8, 3), (64, 128, 64, 1, 8, 3)],
}

#: The same for e4m3 with scales of 128 x 128: k of a step is 128.
TILES_OF_CODES = {
    16: [(16, 64, 128, 1, 4, 4), (16, 128, 128, 32, 4, 4), (16, 128, 128, 1, 4, 3), (16, 64, 128, 1, 4, 5), (16, 256, 128, 16, 8, 3)],
    64: [(16, 128, 128, 32, 4, 3), (16, 128, 128, 16, 4, 4), (32, 128, 128, 32, 4, 3), (16, 64, 128, 1, 4, 4), (16, 256, 128, 16, 8, 3)],
    1024: [(64, 128, 128, 32, 4, 3), (32, 128, 128, 32, 4, 3), (64, 128, 128, 16, 4, 4), (64, 64, 128, 16, 4, 4), (16, 128, 128, 16, 4, 4),
           (128, 128, 128, 32, 8, 3)],
    8192: [(64, 128, 128, 32, 4, 3), (128, 128, 128, 32, 8, 3), (64, 128, 128, 16, 4, 4), (64, 256, 128, 32, 8, 3)],
}


@triton.jit
def _route(logits, ids, weights, EXPERTS: tl.constexpr, TOP: tl.constexpr, WIDE: tl.constexpr, SLOTS: tl.constexpr):
    """A row: softmax, the TOP largest with the lower place first among equals, renormalised. WIDE, SLOTS: powers of 2 that hold EXPERTS, TOP."""
    row = tl.program_id(0)
    expert = tl.arange(0, WIDE)
    x = tl.load(logits + row * EXPERTS + expert, mask=expert < EXPERTS, other=float("-inf"))
    p = tl.exp(x - tl.max(x, 0))
    p = tl.where(expert < EXPERTS, p / tl.sum(p, 0), -1.0)
    slot = tl.arange(0, SLOTS)
    taken, value = tl.zeros([SLOTS], tl.int32), tl.zeros([SLOTS], tl.float32)
    for t in tl.static_range(TOP):
        best, at = tl.max(p, 0, return_indices=True)
        taken, value = tl.where(slot == t, at, taken), tl.where(slot == t, best, value)
        p = tl.where(expert == at, -1.0, p)
    tl.store(ids + row * TOP + slot, taken, mask=slot < TOP)
    tl.store(weights + row * TOP + slot, value / tl.sum(value, 0), mask=slot < TOP)


@triton.jit
def _count(ids, cursor, total, experts, slots, R, size, EXPERTS: tl.constexpr, WIDE: tl.constexpr, BM: tl.constexpr, CHUNK: tl.constexpr):
    """The first program counts: where each expert's slots begin, padded to tiles of BM; each tile's expert; how many there are. The others
    fill `slots` [size] with R, which is not a slot. WIDE: a power of 2 above EXPERTS."""
    if tl.program_id(0) > 0:
        at = (tl.program_id(0) - 1) * CHUNK + tl.arange(0, CHUNK)
        tl.store(slots + at, R + tl.zeros([CHUNK], tl.int32), mask=at < size)
    else:
        expert = tl.arange(0, WIDE)
        counts = tl.zeros([WIDE], tl.int32)
        for begin in range(0, R, CHUNK):
            at = begin + tl.arange(0, CHUNK)
            counts += tl.histogram(tl.load(ids + at, mask=at < R, other=EXPERTS), WIDE)
        tiles = tl.where(expert < EXPERTS, (counts + BM - 1) // BM, 0)
        first = tl.cumsum(tiles, 0) - tiles
        tl.store(cursor + expert, first * BM)
        tl.store(total, tl.sum(tiles, 0) * BM)
        for tile in range(0, tl.max(tiles, 0)):
            tl.store(experts + first + tile, expert, mask=tile < tiles)


@triton.jit
def _place(ids, cursor, slots, R, CHUNK: tl.constexpr):
    """Each slot to its expert's, in the order that atomics give."""
    slot = tl.program_id(0) * CHUNK + tl.arange(0, CHUNK)
    here = slot < R
    at = tl.atomic_add(cursor + tl.load(ids + slot, mask=here, other=0), 1, mask=here)
    tl.store(slots + at, slot, mask=here)


@triton.jit(do_not_specialize=["R", "tiles_m"])
def _product(a, scales_a, w, scales_w, y, slots, experts, total, factors, R, tiles_m, N, K, PER: tl.constexpr, SORTED: tl.constexpr,
             WEIGHTED: tl.constexpr, SCALED: tl.constexpr, EVEN: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
             GROUP: tl.constexpr):
    """y[slot] = w[expert of the slot] a[slot // PER], times factors[slot] if WEIGHTED. a [.., K], w [.., N, K], y [R, N]; SCALED: of e4m3, with
    scales_a [.., K / 128] and scales_w [.., N / 128, K / 128], and BK is 128. EVEN: BK divides K."""
    tiles_n = tl.cdiv(N, BN)
    group = tl.program_id(0) // (GROUP * tiles_n)
    high = min(tiles_m - group * GROUP, GROUP)
    tile = group * GROUP + tl.program_id(0) % (GROUP * tiles_n) % high
    column = (tl.program_id(0) % (GROUP * tiles_n)) // high * BN + tl.arange(0, BN)
    if SORTED:
        if tile * BM >= tl.load(total):
            return
        slot = tl.load(slots + tile * BM + tl.arange(0, BM))
    else:
        slot = tl.where(tl.arange(0, BM) == 0, tile, R)
    expert = tl.load(experts + tile).to(tl.int64)
    there = slot < R
    at = tl.arange(0, BK)
    row = (slot // PER).to(tl.int64)
    within = (column % N).to(tl.int64)
    rows = a + row[:, None] * K + at[None, :]
    columns = w + expert * N * K + within[None, :] * K + at[:, None]
    sums = tl.zeros((BM, BN), tl.float32)
    for begin in range(0, K, BK):
        if EVEN:
            x = tl.load(rows + begin, mask=there[:, None], other=0.0)
            m = tl.load(columns + begin)
        else:
            inside = begin + at < K
            x = tl.load(rows + begin, mask=there[:, None] & inside[None, :], other=0.0)
            m = tl.load(columns + begin, mask=inside[:, None], other=0.0)
        if SCALED:
            of_rows = tl.load(scales_a + row * (K // BK) + begin // BK, mask=there, other=0.0)
            of_columns = tl.load(scales_w + (expert * (N // 128) + within // 128) * (K // BK) + begin // BK)
            sums += tl.dot(x, m) * of_rows[:, None] * of_columns[None, :]
        else:
            sums = tl.dot(x, m, sums)
    if WEIGHTED:
        sums *= tl.load(factors + slot, mask=there, other=0.0)[:, None]
    target = y + slot.to(tl.int64)[:, None] * N + column[None, :]
    tl.store(target, sums.to(y.dtype.element_ty), mask=there[:, None] & (column < N)[None, :])


@triton.jit
def _quantized(x, row, codes, scales, N, group):
    """Stores 128 elements of a row as e4m3, and their scale."""
    scale = tl.maximum(tl.max(tl.abs(x), 0), 1e-10) / 448.0
    tl.store(codes + row * N + group * 128 + tl.arange(0, 128), (x / scale).to(tl.float8e4nv))
    tl.store(scales + row * (N // 128) + group, scale)


@triton.jit
def _quantize(x, codes, scales, N):
    row, group = tl.program_id(0).to(tl.int64), tl.program_id(1)
    _quantized(tl.load(x + row * N + group * 128 + tl.arange(0, 128)).to(tl.float32), row, codes, scales, N, group)


@triton.jit
def _silu_mul_quantize(both, codes, scales, N):
    row, group = tl.program_id(0).to(tl.int64), tl.program_id(1)
    at = row * 2 * N + group * 128 + tl.arange(0, 128)
    gate, up = tl.load(both + at).to(tl.float32), tl.load(both + at + N).to(tl.float32)
    _quantized(gate / (1.0 + tl.exp(-gate)) * up, row, codes, scales, N, group)


@triton.jit
def _silu_mul(both, y, N, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64)
    gate = tl.load(both + row * 2 * N + at, mask=at < N, other=0.0).to(tl.float32)
    up = tl.load(both + row * 2 * N + N + at, mask=at < N, other=0.0).to(tl.float32)
    tl.store(y + row * N + at, (gate / (1.0 + tl.exp(-gate)) * up).to(y.dtype.element_ty), mask=at < N)


@triton.jit
def _sum(parts, residual, y, N, TOP: tl.constexpr, RESIDUAL: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.program_id(0).to(tl.int64)
    total = tl.zeros([BLOCK], tl.float32)
    for t in tl.static_range(TOP):
        total += tl.load(parts + (row * TOP + t) * N + at, mask=at < N, other=0.0).to(tl.float32)
    if RESIDUAL:
        total += tl.load(residual + row * N + at, mask=at < N, other=0.0).to(tl.float32)
    tl.store(y + row * N + at, total.to(y.dtype.element_ty), mask=at < N)


def route(logits, top):
    """ids s32 and weights f32 [rows, top] of f32 logits [rows, experts]: softmax, the largest, renormalised."""
    rows, experts = logits.shape
    ids = torch.empty(rows, top, device=logits.device, dtype=torch.int32)
    weights = torch.empty(rows, top, device=logits.device, dtype=torch.float32)
    _route[(rows,)](logits, ids, weights, EXPERTS=experts, TOP=top, WIDE=triton.next_power_of_2(experts), SLOTS=triton.next_power_of_2(top),
                    num_warps=1 if experts <= 256 else 4)
    return ids, weights


class Experts:
    """y [rows, l] bf16 = the sum over t of weights[.., t] w2[e] (silu(gate) * up), e = ids[.., t], + residual. x bf16 [rows, k]; ids s32 and
    weights f32 [rows, top]; w1 [experts, 2 n, k], gate first, w2 [experts, l, n]; of e4m3 with the `scales` of both."""

    def __init__(self, rows, codes=False):
        table = TILES_OF_CODES if codes else TILES
        self.tiles = next(tiles for most, tiles in table.items() if rows <= most or most == max(table))
        self.tile = self.tiles[0]

    def __call__(self, x, ids, weights, w1, w2, residual=None, tile=None, scales=None):
        tile = tile or self.tile
        rows, top = ids.shape
        experts, l, n = w2.shape
        slots = _sorted(ids, experts, tile[0]) if rows * top * 4 > experts else None
        if scales is None:
            both = _multiplied(x, w1, ids, slots, None, top, tile)
            inner = torch.empty(rows * top, n, device=x.device, dtype=x.dtype)
            _silu_mul[(rows * top, triton.cdiv(n, 1024))](both, inner, n, BLOCK=1024)
            parts = _multiplied(inner, w2, ids, slots, weights, 1, tile)
        else:
            codes, of_rows = _codes(x, x.shape[0], x.shape[1])
            _quantize[(rows, x.shape[1] // 128)](x, codes, of_rows, x.shape[1])
            both = _multiplied(codes, w1, ids, slots, None, top, tile, (of_rows, scales[0]))
            inner, of_inner = _codes(x, rows * top, n)
            _silu_mul_quantize[(rows * top, n // 128)](both, inner, of_inner, n)
            parts = _multiplied(inner, w2, ids, slots, weights, 1, tile, (of_inner, scales[1]))
        y = torch.empty(rows, l, device=x.device, dtype=x.dtype)
        _sum[(rows, triton.cdiv(l, 1024))](parts, residual, y, l, TOP=top, RESIDUAL=residual is not None, BLOCK=1024)
        return y

    def choose(self, time_us):
        """Takes the fastest tile. `time_us`: of a function that takes one and computes."""
        times = {}
        for tile in self.tiles:
            try:
                times[tile] = time_us(tile)
            except (RuntimeError, triton.runtime.errors.OutOfResources):
                torch.cuda.synchronize()
        self.tile = min(times, key=times.get)
        return self


def _sorted(ids, experts, bm):
    """Slots by experts, each expert's padded to `bm` with invalid slots; each tile's expert; the number of slots and padding."""
    slots = ids.numel()
    most = min(experts, slots) + (slots - min(experts, slots)) // bm  # tiles
    wide = triton.next_power_of_2(experts + 1)
    cursor, total, of_tile, order = (torch.empty(size, device=ids.device, dtype=torch.int32) for size in (wide, 1, most, most * bm))
    chunk = min(max(triton.next_power_of_2(slots), 256), 4096)
    _count[(1 + triton.cdiv(most * bm, chunk),)](ids, cursor, total, of_tile, order, slots, most * bm, EXPERTS=experts, WIDE=wide, BM=bm,
                                                CHUNK=chunk, num_warps=8)
    _place[(triton.cdiv(slots, 256),)](ids, cursor, order, slots, CHUNK=256)
    return order, of_tile, total


def _codes(like, rows, columns):
    """What a quantiser of 128 columns writes: codes and scales."""
    codes = torch.empty(rows, columns, device=like.device, dtype=torch.float8_e4m3fn)
    return codes, torch.empty(rows, columns // 128, device=like.device)


def _multiplied(a, w, ids, slots, factors, per, tile, scales=None):
    bn, count, (_, n, k) = tile[1], ids.numel(), w.shape
    order, experts, total = slots or (ids, ids, ids)
    tiles = experts.numel()
    of_a, of_w = scales or (None, None)
    y = torch.empty(count, n, device=a.device, dtype=a.dtype if scales is None else torch.bfloat16)
    _product[(tiles * triton.cdiv(n, bn),)](a, of_a, w, of_w, y, order, experts, total, factors, count, tiles, n, k,
                                            **_options(tile, per, slots is not None, factors is not None, scales is not None, k))
    return y


def _options(tile, per, in_order, weighted, scaled, k):
    bm, bn, bk, group, warps, stages = tile
    return {"PER": per, "SORTED": in_order, "WEIGHTED": weighted, "SCALED": scaled, "EVEN": k % bk == 0, "BM": bm, "BN": bn, "BK": bk,
            "GROUP": group, "num_warps": warps, "num_stages": stages}


def compile_all(executor, rows, codes, experts, top, hidden, inner):
    """Compiles the products in all tiles for so many rows, on the executor's threads; without it choosing a tile compiles one after another."""
    kind, scales = (torch.float8_e4m3fn, torch.float32) if codes else (torch.bfloat16, None)
    in_order = rows * top * 4 > experts
    with triton.AsyncCompileMode(executor, ignore_errors=True):
        for tile in Experts(rows, codes).tiles:
            for per, factors, n, k in ((top, None, 2 * inner, hidden), (1, torch.float32, hidden, inner)):
                _product.warmup(kind, scales, kind, scales, torch.bfloat16, torch.int32, torch.int32, torch.int32, factors, rows * top, 64, n, k,
                                grid=(1,), **_options(tile, per, in_order, factors is not None, codes, k))
