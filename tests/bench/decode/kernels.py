"""Kernels that contestants share, in Triton: everything of attention, and the small kernels of the serving form.

TRITON_INTERPRET=1 runs them on a CPU, in f32. With EARLY each kernel of attention lets the next one begin, and waits itself before it
reads or writes: a kernel that follows attention and is launched by a programmatic edge can load its weights meanwhile.
"""

import torch
import triton
import triton.language as tl

POSITIONS = 64  # the fewest of a part


@triton.jit
def _begin(EARLY: tl.constexpr):
    if EARLY:
        tl.extra.cuda.gdc_launch_dependents()
        tl.extra.cuda.gdc_wait()


@triton.jit
def _place_head(
    qkv, gamma, cosine, sine, position, q_out, cache, heads, kv_heads, context, eps, HEAD: tl.constexpr, NORM: tl.constexpr,
    EARLY: tl.constexpr
):
    """One head of one row: normed, turned, written to `q_out` or to this position of the cache; values as they are."""
    _begin(EARLY)
    row, head = tl.program_id(0), tl.program_id(1)
    HALF: tl.constexpr = HEAD // 2
    lane = tl.arange(0, HALF)
    source = qkv + (row * (heads + 2 * kv_heads) + head) * HEAD + lane
    low, high = tl.load(source).to(tl.float32), tl.load(source + HALF).to(tl.float32)
    now = tl.load(position)
    slot = now % context
    if head < heads + kv_heads:
        if NORM:
            factor = tl.rsqrt((tl.sum(low * low) + tl.sum(high * high)) / HEAD + eps)
            weight = gamma + tl.where(head >= heads, HEAD, 0) + lane
            low = low * factor * tl.load(weight).to(tl.float32)
            high = high * factor * tl.load(weight + HALF).to(tl.float32)
        c, s = tl.load(cosine + slot * HALF + lane), tl.load(sine + slot * HALF + lane)
        low, high = low * c - high * s, high * c + low * s
    if head < heads:
        target = q_out + (row * heads + head) * HEAD + lane
    else:
        which = tl.where(head < heads + kv_heads, 0, 1)
        kv_head = head - heads - which * kv_heads
        plane = (which * tl.num_programs(0) + row) * kv_heads + kv_head
        target = cache + (plane.to(tl.int64) * context + slot) * HEAD + lane
    tl.store(target, low.to(cache.dtype.element_ty))
    tl.store(target + HALF, high.to(cache.dtype.element_ty))


@triton.jit
def _attend(
    q, cache, out, parts, statistics, context, scale, SPLITS: tl.constexpr, SPAN: tl.constexpr, GROUP: tl.constexpr,
    HEAD: tl.constexpr, BLOCK: tl.constexpr, EARLY: tl.constexpr
):
    """A group of query heads over SPAN positions of their key and value head."""
    _begin(EARLY)
    row, kv_head, split = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows, kv_heads = tl.num_programs(0), tl.num_programs(1)
    member, lane, place = tl.arange(0, 16), tl.arange(0, HEAD), tl.arange(0, BLOCK)
    in_group = member < GROUP
    query_row = (row * kv_heads + kv_head) * GROUP + member
    query = tl.load(q + query_row[:, None] * HEAD + lane[None, :], mask=in_group[:, None], other=0.0)
    keys = cache + (row * kv_heads + kv_head).to(tl.int64) * context * HEAD
    values = keys + (rows * kv_heads).to(tl.int64) * context * HEAD
    most = tl.full((16,), -1e30, tl.float32)
    total = tl.zeros((16,), tl.float32)
    sums = tl.zeros((16, HEAD), tl.float32)
    for turn in range(0, SPAN, BLOCK):
        at = split * SPAN + turn + place
        inside = (at < context)[:, None]
        offset = at[:, None] * HEAD + lane[None, :]
        key = tl.load(keys + offset, mask=inside, other=0.0)
        value = tl.load(values + offset, mask=inside, other=0.0)
        score = tl.dot(query, tl.trans(key)) * scale
        score = tl.where((at < context)[None, :], score, -1e30)
        top = tl.maximum(most, tl.max(score, 1))
        weight = tl.exp2(score - top[:, None])
        shrink = tl.exp2(most - top)
        total = total * shrink + tl.sum(weight, 1)
        sums = sums * shrink[:, None] + tl.dot(weight.to(value.dtype), value)
        most = top
    if SPLITS == 1:
        result = (sums / total[:, None]).to(out.dtype.element_ty)
        tl.store(out + query_row[:, None] * HEAD + lane[None, :], result, mask=in_group[:, None])
    else:
        part = query_row * SPLITS + split
        tl.store(parts + part[:, None] * HEAD + lane[None, :], sums, mask=in_group[:, None])
        tl.store(statistics + part * 2, most, mask=in_group)
        tl.store(statistics + part * 2 + 1, total, mask=in_group)


@triton.jit
def _join(parts, statistics, out, SPLITS: tl.constexpr, HEAD: tl.constexpr, EARLY: tl.constexpr):
    """The parts of one query head."""
    _begin(EARLY)
    head = tl.program_id(0)
    split, lane = tl.arange(0, SPLITS), tl.arange(0, HEAD)
    most = tl.load(statistics + (head * SPLITS + split) * 2)
    total = tl.load(statistics + (head * SPLITS + split) * 2 + 1)
    shrink = tl.exp2(most - tl.max(most, 0))
    sums = tl.load(parts + (head * SPLITS + split)[:, None] * HEAD + lane[None, :])
    result = tl.sum(sums * shrink[:, None], 0) / tl.sum(total * shrink, 0)
    tl.store(out + head * HEAD + lane, result.to(out.dtype.element_ty))


@triton.jit
def _add_rmsnorm(x, residual, gamma, stream, out, eps, COLUMNS: tl.constexpr, ADD: tl.constexpr, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    inside = column < COLUMNS
    total = tl.load(x + row * COLUMNS + column, mask=inside, other=0.0).to(tl.float32)
    if ADD:
        total += tl.load(residual + row * COLUMNS + column, mask=inside, other=0.0).to(tl.float32)
        tl.store(stream + row * COLUMNS + column, total.to(stream.dtype.element_ty), mask=inside)
    factor = tl.rsqrt(tl.sum(total * total) / COLUMNS + eps)
    weight = tl.load(gamma + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * COLUMNS + column, (total * factor * weight).to(out.dtype.element_ty), mask=inside)


@triton.jit
def _silu_mul(both, out, INNER: tl.constexpr, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = column < INNER
    gate = tl.load(both + row * 2 * INNER + column, mask=inside, other=0.0).to(tl.float32)
    up = tl.load(both + row * 2 * INNER + INNER + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(out + row * INNER + column, (gate / (1.0 + tl.exp(-gate)) * up).to(out.dtype.element_ty), mask=inside)


def shape_for(groups, context):
    """(splits, block, warps): parts of the positions, a power of two, while all parts fit on 132 SMs and each has a turn's positions;
    positions of a block's turn, and its warps. Measured on an H200."""
    splits = 1
    while 2 * splits * groups <= 132 and splits * POSITIONS < context:
        splits *= 2
    return (splits, 128, 8) if groups <= 132 and context >= 512 * splits else (splits, 64, 4)


class Attention:
    """Norm and turn of queries and keys, the write into the cache, attention; of one model, number of rows and context.

    Attributes:
        out: [rows, q], where the result lies.
        splits: parts of the positions, joined by a kernel of its own where there are several.
    """

    def __init__(self, model, rows, context, device, dtype, early=False):
        self.model, self.rows, self.context = model, rows, context
        self.options = {"EARLY": early, "launch_pdl": early}
        self.splits, block, warps = shape_for(rows * model.kv_heads, context)
        self.span = triton.cdiv(triton.cdiv(context, self.splits), block) * block
        self.turn = {"BLOCK": block, "num_warps": warps, "num_stages": 3}
        make = lambda *shape, of=dtype: torch.zeros(shape, dtype=of, device=device)
        self.q, self.out = make(rows, model.q), make(rows, model.q)
        self.parts = make(rows * model.heads, self.splits, model.head, of=torch.float32)
        self.statistics = make(rows * model.heads, self.splits, 2, of=torch.float32)

    def __call__(self, qkv, cache, gamma, turns, position):
        """cache [2, rows, kv heads, context, head]; gamma [2, head] of queries and keys; turns: cosines and sines."""
        model = self.model
        _place_head[(self.rows, model.heads + 2 * model.kv_heads)](
            qkv, gamma, turns[0], turns[1], position, self.q, cache, model.heads, model.kv_heads, self.context, model.eps,
            HEAD=model.head, NORM=model.qk_norm, num_warps=1, **self.options,
        )
        _attend[(self.rows, model.kv_heads, self.splits)](
            self.q, cache, self.out, self.parts, self.statistics, self.context, model.head**-0.5 * 1.4426950408889634,
            SPLITS=self.splits, SPAN=self.span, GROUP=model.heads // model.kv_heads, HEAD=model.head, **self.turn,
            **self.options,
        )
        if self.splits > 1:
            _join[(self.rows * model.heads,)](
                self.parts, self.statistics, self.out, SPLITS=self.splits, HEAD=model.head, num_warps=2, **self.options
            )
        return self.out


def add_rmsnorm(x, residual, gamma, eps):
    """(x + residual, its norm); (x, its norm) without a residual."""
    out, add = torch.empty_like(x), residual is not None
    stream = torch.empty_like(x) if add else x
    columns = x.shape[1]
    _add_rmsnorm[(x.shape[0],)](
        x, residual if add else x, gamma, stream, out, eps, COLUMNS=columns, ADD=add, BLOCK=triton.next_power_of_2(columns),
        num_warps=8,
    )
    return stream, out


def silu_mul(both):
    """silu(left half) * right half."""
    inner = both.shape[1] // 2
    out = both.new_empty(both.shape[0], inner)
    _silu_mul[(both.shape[0], triton.cdiv(inner, 1024))](both, out, INNER=inner, BLOCK=1024, num_warps=4)
    return out
