"""Single ops and small graphs, drawn at random by a named seed, that the gate is held against. A point is the same on every machine.

Drawing needs no torch; `traced`, `made` and `empty` do.
"""

import math
import random

#: Families, and how often each is drawn.
FAMILIES = {"attention": 4, "few_rows": 4, "product": 6, "norm": 4, "reduction": 4, "pointwise": 4, "convolution": 4, "experts": 1, "layer": 2}
MOST_BYTES = 1 << 29  # of one input
MOST_FLOP = 1 << 41
#: The grid of attention of few rows.
FEW_ROWS, KEYS, WIDTHS, SHARED, BATCHES = (1, 2, 4, 8), (128, 512, 1024, 4096, 8192, 32768), (64, 128), (1, 4, 7), (1, 8, 32)


class Input:
    """A tensor to be made. `kind`: "normal" values, "keep" (a mask that hides the last keys), "ids" below `below`, or "ends" of groups of rows;
    `order`: its axes from the slowest in memory; `weight`: a parameter of a model."""

    def __init__(self, *shape, dtype="bf16", kind="normal", order=None, weight=False, below=0):
        self.shape, self.dtype, self.kind, self.order, self.weight, self.below = shape, dtype, kind, order, weight, below

    @property
    def bytes(self):
        return math.prod(self.shape) * {"f32": 4, "s32": 4, "s64": 8, "bool": 1}.get(self.dtype, 2)


class Point:
    """A function of inputs. `what`: what was drawn, in words and numbers; `flop`: about what it multiplies."""

    def __init__(self, name, family, what, call, inputs, flop=0.0):
        self.name, self.family, self.what, self.call, self.inputs, self.flop = name, family, what, call, inputs, flop

    @property
    def fits(self):
        return max(x.bytes for x in self.inputs) <= MOST_BYTES and self.flop <= MOST_FLOP


def drawn(seed, index, family=None):
    """Point `index` of a seed; of one family where one is named."""
    by_chance = random.Random(f"{seed}:{family or ''}:{index}")
    name = family or by_chance.choices(list(FAMILIES), FAMILIES.values())[0]
    while True:
        what, call, inputs, flop = DRAW[name](by_chance)
        point = Point(f"{seed}-{family or 'any'}-{index}", name, what, call, inputs, flop)
        if point.fits:
            return point


def named(name):
    """The point of a name, "SEED-FAMILY-INDEX"."""
    seed, family, index = name.split("-")
    return drawn(int(seed), int(index), None if family == "any" else family)


def size(by_chance, low, high, step=1):
    """A multiple of `step`, log-uniform."""
    return max(step, round(math.exp(by_chance.uniform(math.log(low), math.log(high))) / step) * step)


def half(by_chance):
    return by_chance.choice(["bf16", "bf16", "f16"])


# ---------------------------------------------------------------- Attention


def attention(by_chance):
    rows = size(by_chance, 16, 4096)
    keys = by_chance.choice([rows, rows, size(by_chance, 16, 4096)])
    width, group = by_chance.choice([32, 64, 64, 80, 128]), by_chance.choice([1, 1, 1, 4, 7])
    term = by_chance.choice(["", "", "causal" if rows == keys else "", "keys", "bias"])
    return attending(size(by_chance, 1, 64), size(by_chance, 1, 16), group, rows, keys, width, term, half(by_chance), by_chance.choice([True, False]))


def few_rows(by_chance):
    batch, width, group = (by_chance.choice(of) for of in (BATCHES, WIDTHS, SHARED))
    rows, keys, term = by_chance.choice(FEW_ROWS), by_chance.choice(KEYS), by_chance.choice(["", "keys"])
    return attending(batch, by_chance.choice([4, 8]), group, rows, keys, width, term, "bf16", False)


def attending(batch, shared, group, rows, keys, width, term, dtype, tokens_first):
    """`shared`: heads of keys; `tokens_first`: operands lie as projections give them."""
    heads, order = shared * group, (0, 2, 1, 3) if tokens_first else None
    inputs = [Input(batch, n, s, width, dtype=dtype, order=order) for n, s in ((heads, rows), (shared, keys), (shared, keys))]
    if term == "keys":
        inputs.append(Input(batch, 1, 1, keys, dtype="bool", kind="keep"))
    if term == "bias":
        inputs.append(Input(1, heads, rows, keys, dtype=dtype, weight=True))

    def call(q, k, v, *terms):
        from torch.nn.functional import scaled_dot_product_attention

        return scaled_dot_product_attention(q, k, v, *terms, is_causal=term == "causal", enable_gqa=group > 1)

    what = {"batch": batch, "heads": heads, "shared": shared, "rows": rows, "keys": keys, "width": width, "term": term, "dtype": dtype}
    return what, call, inputs, 4.0 * batch * heads * rows * keys * width


def layer(by_chance):
    """An encoder's attention between its projections."""
    batch, rows, heads, width, dtype = size(by_chance, 1, 32), size(by_chance, 16, 1024), size(by_chance, 2, 16), 64, half(by_chance)
    k = heads * width
    inputs = [Input(batch, rows, k, dtype=dtype), Input(3 * k, k, dtype=dtype, weight=True), Input(3 * k, dtype=dtype, weight=True)]
    inputs += [Input(k, k, dtype=dtype, weight=True), Input(k, dtype=dtype, weight=True)]

    def call(x, packed, bias, out, out_bias):
        import torch.nn.functional as F

        parts = F.linear(x, packed, bias).view(batch, rows, 3 * heads, width).split([heads] * 3, 2)
        y = F.scaled_dot_product_attention(*(parts[i].transpose(1, 2) for i in range(3))).transpose(1, 2).reshape(batch, rows, k)
        return x + F.linear(y, out, out_bias)

    flop = 8.0 * batch * rows * k * k + 4.0 * batch * heads * rows * rows * width
    return {"batch": batch, "rows": rows, "heads": heads, "width": width, "dtype": dtype}, call, inputs, flop


# ---------------------------------------------------------------- Products

_FORMS = ("lone", "bias", "gelu", "silu", "residual", "norm_before", "norm_behind", "gated", "ffn", "softcap", "of_rows")


def product(by_chance):
    m, k, n = size(by_chance, 1, 16384), size(by_chance, 64, 8192, 8), size(by_chance, 64, 16384, 8)
    form, dtype = by_chance.choice(_FORMS), half(by_chance)
    x, w, b = Input(m, k, dtype=dtype), Input(n, k, dtype=dtype, weight=True), Input(n, dtype=dtype, weight=True)
    inputs = {
        "lone": [x, w], "bias": [x, w, b], "gelu": [x, w, b], "silu": [x, w, b], "softcap": [x, w],
        "residual": [x, w, b, Input(m, n, dtype=dtype)], "norm_before": [x, w, Input(k, dtype=dtype, weight=True)],
        "norm_behind": [x, w, b, Input(m, n, dtype=dtype)], "gated": [x, w, Input(n, k, dtype=dtype, weight=True)],
        "ffn": [x, w, b, Input(k, n, dtype=dtype, weight=True)], "of_rows": [Input(m, k, dtype=dtype), Input(m, n, dtype=dtype)],
    }[form]

    def call(x, w, b=None, r=None):
        import torch
        import torch.nn.functional as F

        if form == "of_rows":  # a weight's gradient
            return x.t() @ w
        if form == "norm_before":
            return F.linear(F.rms_norm(x, (k,), b), w)
        if form == "gated":
            return F.silu(F.linear(x, w)) * F.linear(x, b)
        y = F.linear(x, w, b)
        if form == "residual":
            return y + r
        if form == "norm_behind":
            return F.layer_norm(y + r, (n,))
        if form == "ffn":
            return F.linear(F.gelu(y), r)
        if form == "softcap":
            return torch.tanh(y / 30) * 30
        return F.gelu(y) if form == "gelu" else F.silu(y) if form == "silu" else y

    return {"form": form, "m": m, "k": k, "n": n, "dtype": dtype}, call, inputs, 2.0 * m * k * n * (2 if form in ("gated", "ffn") else 1)


def experts(by_chance):
    """Products of groups of rows by a matrix each, with a gate, and back."""
    matrices, rows = by_chance.choice([8, 16, 32, 64]), size(by_chance, 32, 8192)
    k, n, dtype = size(by_chance, 256, 4096, 64), size(by_chance, 256, 4096, 64), "bf16"
    inputs = [Input(rows, k, dtype=dtype), Input(matrices, k, 2 * n, dtype=dtype, weight=True), Input(matrices, n, k, dtype=dtype, weight=True)]
    inputs.append(Input(matrices, dtype="s32", kind="ends", below=rows))

    def call(x, first, second, ends):
        import torch
        import torch.nn.functional as F

        halves = torch._grouped_mm(x, first, ends).split([n, n], 1)
        return torch._grouped_mm(F.silu(halves[0]) * halves[1], second, ends)

    return {"matrices": matrices, "rows": rows, "k": k, "n": n, "dtype": dtype}, call, inputs, 6.0 * rows * k * n


# ---------------------------------------------------------------- Rows, columns, elements


def norm(by_chance):
    form = by_chance.choice(["layer", "rms", "add_layer", "add_rms", "softmax", "masked_softmax", "log_softmax", "embedding", "groups"])
    dtype = by_chance.choice(["bf16", "f16", "f32"])
    rows, columns = size(by_chance, 1, 65536), size(by_chance, 64, 16384, 8)
    while rows * columns > 1 << 27:
        rows = max(1, rows // 2)
    x, w = Input(rows, columns, dtype=dtype), Input(columns, dtype=dtype, weight=True)
    side = max(1, math.isqrt(columns // 64))
    table = max(128, min(65536, (1 << 27) // columns))
    inputs = {
        "layer": [x, w, w], "rms": [x, w], "add_layer": [x, w, w, x], "add_rms": [x, w, w, x], "softmax": [x], "log_softmax": [x],
        "masked_softmax": [x, Input(1, columns, dtype=dtype)], "groups": [Input(rows, 64, side, side, dtype=dtype), *[Input(64, dtype=dtype, weight=True)] * 2],
        "embedding": [Input(rows, dtype="s64", kind="ids", below=table), w, w, Input(table, columns, dtype=dtype, weight=True)],
    }[form]

    def call(x, w=None, b=None, r=None):
        import torch.nn.functional as F

        if form == "embedding":
            return F.layer_norm(F.embedding(x, r), (columns,), w, b)
        if form == "groups":
            return F.silu(F.group_norm(x, 8, w, b))
        if form in ("softmax", "log_softmax"):
            return F.softmax(x * 0.5, -1) if form == "softmax" else F.log_softmax(x, -1)
        if form == "masked_softmax":
            return F.softmax(x.float() + w, -1).type_as(w)
        y = x + r if r is not None else x
        z = F.rms_norm(y, (columns,), w) if "rms" in form else F.layer_norm(y, (columns,), w, b)
        return (y, z) if r is not None else z

    return {"form": form, "rows": rows, "columns": columns, "dtype": dtype}, call, inputs, 0.0


def reduction(by_chance):
    form = by_chance.choice(["sum", "mean", "amax", "var", "products", "bias_gradient", "norm_gradient", "image_mean"])
    dtype, axis = by_chance.choice(["bf16", "f16", "f32"]), by_chance.choice([0, 1])
    rows, columns = size(by_chance, 2, 65536), size(by_chance, 8, 16384, 8)
    while rows * columns > 1 << 27:
        rows = max(2, rows // 2)
    x = Input(rows, columns, dtype=dtype)
    inputs = {"products": [x, x], "bias_gradient": [x, x], "norm_gradient": [x, x, Input(rows, 1, dtype="f32")]}.get(form, [x])
    if form == "image_mean":
        side = max(1, math.isqrt(columns // 8))
        inputs = [Input(max(1, rows // 64), 64 * 8, side, side, dtype=dtype)]

    def call(x, y=None, z=None):
        import torch
        import torch.nn.functional as F

        if form == "image_mean":
            return F.relu(x).mean((2, 3))
        if form == "products":
            return (x.float() * y.float()).sum(axis)
        if form == "bias_gradient":
            dy = torch.where(y > 0, x, 0.0)
            return dy, dy.float().sum(0)
        if form == "norm_gradient":
            return (x.float() * y.float() * z).sum(0), x.float().sum(0)
        if form == "var":
            return x.float().var(axis)
        return x.amax(axis) if form == "amax" else x.sum(axis) if form == "sum" else x.mean(axis)

    return {"form": form, "axis": axis, "rows": rows, "columns": columns, "dtype": dtype}, call, inputs, 0.0


_UNARY = ("relu", "exp", "tanh", "sigmoid", "gelu", "abs", "neg", "square", "half")
_BINARY = ("add", "mul", "sub", "maximum")


def pointwise(by_chance):
    """A chain of element-wise ops, some of which read another tensor, a row, a column or a transposed matrix."""
    dtype = by_chance.choice(["bf16", "f16", "f32"])
    rows, columns = size(by_chance, 1, 65536), size(by_chance, 8, 16384, 8)
    while rows * columns > 1 << 26:
        rows = max(1, rows // 2)
    steps, inputs = [], [Input(rows, columns, dtype=dtype)]
    for _ in range(by_chance.choice([1, 2, 3, 4, 6, 8])):
        if by_chance.random() < 0.5:
            steps.append((by_chance.choice(_UNARY), None))
            continue
        operand = by_chance.choice(["full", "full", "row", "column", "turned"])
        shape = {"row": (1, columns), "column": (rows, 1)}.get(operand, (rows, columns))
        steps.append((by_chance.choice(_BINARY), len(inputs)))
        inputs.append(Input(*shape, dtype=dtype, order=(1, 0) if operand == "turned" else None, weight=operand == "row"))
    second = by_chance.random() < 0.2

    def call(*given):
        import torch
        import torch.nn.functional as F

        y, between = given[0], None
        for i, (kind, operand) in enumerate(steps):
            between = y if i == len(steps) // 2 and i else between
            step = _by_name(torch, F, kind)
            y = step(y) if operand is None else step(y, given[operand])
        return (y, between) if second and between is not None else y

    told = [kind if operand is None else f"{kind} {list(inputs[operand].shape)}{' turned' if inputs[operand].order else ''}" for kind, operand in steps]
    return {"steps": told, "rows": rows, "columns": columns, "dtype": dtype, "second": second}, call, inputs, 0.0


def _by_name(torch, functional, kind):
    own = {"square": lambda y: y * y, "half": lambda y: y * 0.5, "gelu": functional.gelu, "neg": lambda y: -y, "exp": lambda y: torch.exp(y * 0.125)}
    return own.get(kind) or getattr(torch, kind)


# ---------------------------------------------------------------- Images


def convolution(by_chance):
    taps, stride = by_chance.choice([1, 1, 3, 3, 3, 5, 7]), by_chance.choice([1, 1, 2])
    side, images, dtype = size(by_chance, 7, 112), size(by_chance, 1, 64), half(by_chance)
    by_channel = by_chance.random() < 0.2
    channels = size(by_chance, 16, 1024, 8)
    results = channels if by_channel else size(by_chance, 16, 1024, 8)
    form, last = by_chance.choice(["lone", "scale", "scale_relu", "silu", "residual"]), by_chance.choice([True, True, False])
    order = (0, 2, 3, 1) if last else None
    after = (side + 2 * (taps // 2) - taps) // stride + 1
    inputs = [Input(images, channels, side, side, dtype=dtype, order=order)]
    inputs.append(Input(results, 1 if by_channel else channels, taps, taps, dtype=dtype, order=order, weight=True))
    inputs += [Input(results, 1, 1, dtype=dtype, weight=True) for _ in range(2 if form in ("scale", "scale_relu", "residual") else 0)]
    if form == "residual":
        inputs.append(Input(images, results, after, after, dtype=dtype, order=order))

    def call(x, w, a=None, b=None, r=None):
        import torch.nn.functional as F

        y = F.conv2d(x, w, None, stride, taps // 2, 1, channels if by_channel else 1)
        if form == "silu":
            return F.silu(y)
        if form == "lone":
            return y
        y = y * a + b
        return F.relu(y + r) if r is not None else F.relu(y) if form == "scale_relu" else y

    what = {"form": form, "images": images, "channels": channels, "results": results, "side": side, "taps": taps, "stride": stride}
    flop = 2.0 * images * after * after * results * taps * taps * (1 if by_channel else channels)
    return {**what, "by_channel": by_channel, "channels_last": last, "dtype": dtype}, call, inputs, flop


DRAW = {
    "attention": attention, "few_rows": few_rows, "product": product, "norm": norm, "reduction": reduction, "pointwise": pointwise,
    "convolution": convolution, "experts": experts, "layer": layer,
}


# ---------------------------------------------------------------- By torch


def traced(point):
    """The point's function as a graph, as Dynamo would give it to a backend."""
    import torch

    graph = torch.fx.Graph()
    tracer = torch.fx.proxy.GraphAppendingTracer(graph)
    given = [torch.fx.Proxy(graph.placeholder(f"x{i}"), tracer) for i in range(len(point.inputs))]
    result = point.call(*given)
    graph.output(tuple(each.node for each in (result if isinstance(result, tuple) else (result,))))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def made(point, device, seed):
    """The point's inputs, with values by chance."""
    import torch

    generator = torch.Generator(device).manual_seed(seed)
    return [_tensor(torch, x, device, generator) for x in point.inputs]


def empty(point):
    """The point's inputs on the CPU without values, to plan for."""
    import torch

    return [_empty(torch, x, "cpu") for x in point.inputs]


def _dtype(torch, x):
    return {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "s32": torch.int32, "s64": torch.int64, "bool": torch.bool}[x.dtype]


def _empty(torch, x, device):
    order = x.order or tuple(range(len(x.shape)))
    stored = torch.empty([x.shape[axis] for axis in order], dtype=_dtype(torch, x), device=device)
    return stored.permute([order.index(axis) for axis in range(len(order))])


def _tensor(torch, x, device, generator):
    dtype = _dtype(torch, x)
    if x.kind == "ends":
        ids = torch.randint(x.shape[0], (x.below,), device=device, generator=generator)
        return torch.bincount(ids, minlength=x.shape[0]).cumsum(0).to(dtype)
    if x.kind == "ids":
        return torch.randint(x.below, x.shape, device=device, generator=generator, dtype=dtype)
    if x.kind == "keep":
        batch, keys = x.shape[0], x.shape[-1]
        ends = torch.randint(keys // 2, keys + 1, (batch, 1), device=device, generator=generator)
        return (torch.arange(keys, device=device) < ends).view(x.shape)
    return _empty(torch, x, device).normal_(generator=generator).mul_(0.5)
