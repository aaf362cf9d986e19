"""The layers that are measured: what each is in PyTorch, and its chain. Nothing here needs a GPU before `Case.make` is called."""

import functools
import os
import sys
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Tuple

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import drawn  # noqa: E402

PRODUCTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "problems", "layer_products.txt")
ACTIVATIONS = ("identity", "gelu_erf", "gelu_tanh")


@dataclass
class Case:
    """`make(torch)` gives one set of operands. `rotated(operands)` are those that rotate, so that they are cold; the others are few."""

    group: str
    id: str
    rows: int
    chain: Any  # text of a chain, or a function of the package `sinter` that builds it
    make: Callable[[Any], Tuple[Any, ...]]
    eager: Callable[..., Any]  # in bf16, as a model calls it
    exact: Callable[..., Any]  # the same in the operands' type, which is float64
    elements: int  # that a set holds, results included
    peers: Tuple[str, ...] = ("eager", "compile")


def cases(group: str) -> List[Case]:
    return {"products": products, "rowwise": rowwise, "encoders": encoders, "images": images, "depthwise": depthwise}[group]()


GROUPS = ("products", "rowwise", "encoders", "images", "depthwise")
MOST_IMAGES = 64  # of those that a seed draws


@functools.lru_cache(maxsize=None)
def _by_id(group: str) -> Dict[str, Case]:
    return {case.id: case for case in cases(group)}


def case(group: str, name: str) -> Case:
    """The case of an id, which may say another number of rows or images than those of the list."""
    found = _by_id(group).get(name)
    return found or {"products": _other_product, "rowwise": _other_rows, "encoders": _other_encoder}.get(group, _other_images)(name)


def listed(group: str, seed: str) -> List[Tuple[Case, str]]:
    """The list, each case with what it is drawn by; and each layer with a number of rows or images that `seed` draws."""
    found = {case.id: (case, _stratum(group, case)) for case in cases(group)}
    for name in _drawn_ids(group, seed):
        found.setdefault(name, (case(group, name), "drawn"))
    return list(found.values())


def _stratum(group: str, case: Case) -> str:
    return str(case.rows) if group in ("products", "encoders") else case.id.split("-")[0]


def _drawn_ids(group: str, seed: str) -> List[str]:
    if group == "encoders":
        return [f"{name}-{drawn.rows(seed, f'{name} {i}')}" for name, *_ in ENCODERS for i in range(3)]
    if group == "products":
        return [f"{name}-{drawn.rows(seed, name)}" for name in dict.fromkeys(case.id.rsplit("-", 1)[0] for case in cases(group))]
    if group == "rowwise":
        kinds = dict.fromkeys((case.id.rsplit("-", 2)[0], case.id.rsplit("-", 1)[1]) for case in cases(group))
        return [f"{kind}-{drawn.rows(seed, f'{kind} {columns}')}-{columns}" for kind, columns in kinds]
    names = dict.fromkeys(case.id.split("-images-")[0] for case in cases(group) if not case.id.startswith("bilinear"))
    return [f"{name}-images-{drawn.rows(seed, name, MOST_IMAGES)}" for name in names]


def _random(torch: Any, *shape: int, scale: float = 1.0) -> Any:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * scale


# ---------------------------------------------------------------- Products with their bias and activation


def read_products(path: str = PRODUCTS) -> List[Tuple[str, str, Dict[str, str]]]:
    """(id, chain, its keys) of each line; other forms than these are refused, since the peers would compute something else."""
    found = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            words = line.split("#")[0].split()
            if not words:
                continue
            keys = dict(word.split("=") for word in words[2:])
            if words[1] != "matmul" or keys.get("act", "identity") not in ACTIVATIONS or not set(keys) <= {"m", "n", "k", "act", "bias1"}:
                raise ValueError(f"{words[0]}: only matmul with m, n, k, bias1 and act={'|'.join(ACTIVATIONS)} is measured here")
            found.append((words[0], " ".join(words[1:]), keys))
    return found


def products() -> List[Case]:
    return [_product(*line) for line in read_products()]


def _other_product(name: str) -> Case:
    layer, m = name.rsplit("-", 1)
    _, chain, keys = next(line for line in read_products() if line[0].rsplit("-", 1)[0] == layer)
    return _product(name, " ".join(f"m={m}" if word.startswith("m=") else word for word in chain.split()), {**keys, "m": m})


def _product(name: str, chain: str, keys: Dict[str, str]) -> Case:
    m, n, k = (int(keys[key]) for key in "mnk")
    act, bias = keys.get("act", "identity"), keys.get("bias1") == "1"

    def make(torch: Any) -> Tuple[Any, ...]:
        return (_random(torch, m, k), _random(torch, n, k, scale=k**-0.5)) + ((_random(torch, n),) if bias else ())

    def run(x: Any, w: Any, b: Any = None) -> Any:
        from torch.nn import functional

        y = functional.linear(x, w, b)
        return y if act == "identity" else functional.gelu(y, approximate="tanh" if act == "gelu_tanh" else "none")

    peers = ("eager",) if act == "identity" else ("eager", "compile") + (("epilogue",) if act == "gelu_tanh" and bias else ())
    return Case("products", name, m, chain, make, run, run, m * k + n * k + m * n, peers)


# ---------------------------------------------------------------- Gated FFNs, and two products with an activation between them


def ffns(path: str) -> List[Case]:
    """A case for each line of a problem list, which sinter_bench takes too."""
    with open(path, encoding="utf-8") as file:
        lines = [line.split("#")[0].split() for line in file]
    return [_ffn(words[0], " ".join(words[1:]), words[1], dict(word.split("=") for word in words[2:])) for words in lines if words]


def _ffn(name: str, chain: str, kind: str, keys: Dict[str, str]) -> Case:
    m, n, k, out = (int(keys[key]) for key in "mnkl")
    gated, turned = kind == "gated_ffn", keys["layout"] == "io"
    shapes = [(n, k)] * (2 if gated else 1) + [(out, n)]

    def make(torch: Any) -> Tuple[Any, ...]:
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16}[keys["dtype"]]
        weights = [_random(torch, *shape, scale=shape[1] ** -0.5).to(dtype) for shape in shapes]
        return (_random(torch, m, k).to(dtype), *(weight.T.contiguous() if turned else weight for weight in weights))

    def run(x: Any, *weights: Any) -> Any:
        import torch
        from torch.nn import functional as f

        product = torch.matmul if turned else f.linear
        act = {"relu": f.relu, "silu": f.silu, "gelu_erf": f.gelu, "gelu_tanh": lambda v: f.gelu(v, approximate="tanh"), "identity": lambda v: v}[keys["act"]]
        hidden = act(product(x, weights[0]))
        return product(hidden * product(x, weights[1]) if gated else hidden, weights[-1])

    return Case("ffns", name, m, chain, make, run, run, m * (k + out) + sum(a * b for a, b in shapes))


# ---------------------------------------------------------------- Rows: norms, activations, softmax

NORMS = ((512, 768), (6304, 768), (32768, 768), (8192, 1024), (4096, 4096), (16384, 5120), (64, 8192), (2000, 1280), (10000, 640))
SOFTMAX = ((1536, 128), (98304, 128), (12288, 197), (49152, 49), (12288, 1024), (128, 32000), (128, 151936), (40000, 256), (5000, 384))


def rowwise() -> List[Case]:
    found = []
    for rows, columns in NORMS:
        found += [_layernorm(rows, columns), _residual_rmsnorm(rows, columns), _bias_gelu_layernorm(rows, columns),
                  _gelu(rows, 4 * columns), _swiglu(rows, 4 * columns)]
    return found + [_softmax(rows, columns) for rows, columns in SOFTMAX]


def _other_rows(name: str) -> Case:
    kind, rows, columns = name.rsplit("-", 2)
    makers = {"layernorm": _layernorm, "residual_rmsnorm": _residual_rmsnorm, "bias_gelu_residual_layernorm": _bias_gelu_layernorm,
              "gelu": _gelu, "swiglu": _swiglu, "softmax": _softmax}
    return makers[kind](int(rows), int(columns))


def _rows_case(kind: str, rows: int, columns: int, options: str, make: Callable, run: Callable, elements: int) -> Case:
    return Case("rowwise", f"{kind}-{rows}-{columns}", rows, f"{kind} rows=M cols={columns}{options}", make, run, run, elements,
                ("compile", "autotune"))


def _layernorm(rows: int, columns: int) -> Case:
    def run(x: Any, gain: Any, bias: Any) -> Any:
        from torch.nn import functional

        return functional.layer_norm(x, (columns,), gain, bias, 1e-5)

    return _rows_case("layernorm", rows, columns, "", lambda t: (_random(t, rows, columns), _random(t, columns), _random(t, columns)),
                      run, 2 * rows * columns)


def _wide(x: Any) -> Any:
    """bf16 as f32, as Inductor computes it; float64 stays."""
    return x.float() if x.element_size() == 2 else x


def _residual_rmsnorm(rows: int, columns: int) -> Case:
    def run(x: Any, residual: Any, gain: Any) -> Any:
        stream = _wide(x) + _wide(residual)
        scale = (stream.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()
        return stream.to(x.dtype), (stream * scale * _wide(gain)).to(x.dtype)

    return _rows_case("residual_rmsnorm", rows, columns, "",
                      lambda t: (_random(t, rows, columns), _random(t, rows, columns), _random(t, columns)), run, 4 * rows * columns)


def _bias_gelu_layernorm(rows: int, columns: int) -> Case:
    def run(x: Any, bias: Any, residual: Any, gain: Any, shift: Any) -> Any:
        from torch.nn import functional

        stream = functional.gelu(_wide(x) + _wide(bias)) + _wide(residual)
        return functional.layer_norm(stream, (columns,), _wide(gain), _wide(shift), 1e-5).to(x.dtype)

    def make(t: Any) -> Tuple[Any, ...]:
        return (_random(t, rows, columns), _random(t, columns), _random(t, rows, columns), _random(t, columns), _random(t, columns))

    return _rows_case("bias_gelu_residual_layernorm", rows, columns, " gelu=erf", make, run, 3 * rows * columns)


def _gelu(rows: int, columns: int) -> Case:
    def run(x: Any) -> Any:
        from torch.nn import functional

        return functional.gelu(x)

    return _rows_case("gelu", rows, columns, " form=erf", lambda t: (_random(t, rows, columns),), run, 2 * rows * columns)


def _swiglu(rows: int, columns: int) -> Case:
    def run(x: Any) -> Any:
        from torch.nn import functional

        return (functional.silu(_wide(x[:, :columns])) * _wide(x[:, columns:])).to(x.dtype)

    return _rows_case("swiglu", rows, columns, "", lambda t: (_random(t, rows, 2 * columns),), run, 3 * rows * columns)


def _softmax(rows: int, columns: int) -> Case:
    def run(x: Any) -> Any:
        return (_wide(x) * 0.125).softmax(-1).to(x.dtype)

    return _rows_case("softmax", rows, columns, " scale=0.125", lambda t: (_random(t, rows, columns),), run, 2 * rows * columns)


# ---------------------------------------------------------------- What lies between two attentions of an encoder

ENCODERS = (("bert_base", 768, 3072), ("vit_b", 768, 3072), ("bert_large", 1024, 4096))  # hidden, inner
ENCODER_ROWS = (128, 512, 1024, 1576, 4096, 8192)


def encoders() -> List[Case]:
    return [_encoder(name, hidden, inner, rows) for name, hidden, inner in ENCODERS for rows in ENCODER_ROWS]


def _other_encoder(name: str) -> Case:
    model, rows = name.rsplit("-", 1)
    return next(_encoder(*encoder, int(rows)) for encoder in ENCODERS if encoder[0] == model)


def _encoder(name: str, hidden: int, inner: int, rows: int) -> Case:
    pre = name.startswith("vit")  # the norm stands before the FFN, and the sum goes on
    eps = 1e-6 if pre else 1e-12

    def run(a: Any, residual: Any, wo: Any, bo: Any, g1: Any, b1: Any, w1: Any, c1: Any, w2: Any, c2: Any, g2: Any, b2: Any,
            wq: Any, bq: Any) -> Any:
        from torch.nn import functional as f

        stream = f.linear(a, wo, bo) + residual
        x = f.layer_norm(stream, (hidden,), g1, b1, eps)
        y = f.linear(f.gelu(f.linear(x, w1, c1)), w2, c2) + (stream if pre else x)
        z = f.layer_norm(y, (hidden,), g2, b2, eps)
        return (y if pre else z), f.linear(z, wq, bq)

    def chain(sinter: Any) -> Any:
        b = sinter.Builder()
        a, residual = b.input("bf16", (sinter.M, hidden)), b.input("bf16", (sinter.M, hidden))
        wo, bo, g1, b1, w1, c1, w2, c2, g2, b2, wq, bq = (b.constant("bf16", shape) for shape in _weights(hidden, inner))
        stream = (a @ wo.T + bo + residual).cast("bf16")
        x = sinter.layernorm(stream, g1, b1, eps=eps).cast("bf16")
        h = sinter.gelu(x @ w1.T + c1, form="erf").cast("bf16")
        y = (h @ w2.T + c2 + (stream if pre else x)).cast("bf16")
        z = sinter.layernorm(y, g2, b2, eps=eps).cast("bf16")
        return b.finish(y if pre else z, (z @ wq.T + bq).cast("bf16"))

    def make(torch: Any) -> Tuple[Any, ...]:
        weights = [_random(torch, *shape, scale=shape[-1] ** -0.5 if len(shape) == 2 else 0.1) for shape in _weights(hidden, inner)]
        for gain in (2, 8):
            weights[gain] += 1
        return (_random(torch, rows, hidden), _random(torch, rows, hidden), *weights)

    elements = sum(shape[0] * (shape[1] if len(shape) == 2 else 1) for shape in _weights(hidden, inner)) + rows * 3 * hidden
    return Case("encoders", f"{name}-{rows}", rows, chain, make, run, run, elements, ("eager", "compile", "autotune"))


def _weights(hidden: int, inner: int) -> Tuple[Tuple[int, ...], ...]:
    return ((hidden, hidden), (hidden,), (hidden,), (hidden,), (inner, hidden), (inner,), (hidden, inner), (hidden,), (hidden,), (hidden,),
            (3 * hidden, hidden), (3 * hidden,))


# ---------------------------------------------------------------- Images: convolutions in groups, and between four pixels

#: Pixels of a side, channels, groups of layers of 3 x 3 taps with bias and ReLU, of three models.
GROUPED = {
    "regnety_16gf": ((56, 224, 2), (28, 448, 4), (14, 1232, 11), (7, 3024, 27)),
    "regnety_3_2gf": ((56, 72, 3), (28, 216, 9), (14, 576, 24), (7, 1512, 63)),
    "resnext50_32x4d": ((56, 128, 32), (28, 256, 32), (14, 512, 32), (7, 1024, 32)),
}
#: Pixels of a side before and behind, channels, whether the corners lie on each other: Segformer's decoder, and a U-Net's.
BILINEAR = ((16, 128, 256, False), (64, 128, 256, False), (56, 112, 128, True), (112, 224, 64, True))
#: Pixels of a side, channels, taps, stride, activation of layers of a convolution of each channel alone, with its bias.
DEPTHWISE = {
    "efficientnet_b0": ((112, 32, 3, 1, "silu"), (112, 96, 3, 2, "silu"), (56, 144, 3, 1, "silu"), (56, 144, 5, 2, "silu"),
                        (28, 240, 5, 1, "silu"), (28, 240, 3, 2, "silu"), (14, 480, 3, 1, "silu"), (14, 480, 5, 1, "silu"),
                        (14, 672, 5, 1, "silu"), (14, 672, 5, 2, "silu"), (7, 1152, 5, 1, "silu"), (7, 1152, 3, 1, "silu")),
    "mobilenet_v3": ((112, 16, 3, 1, "relu"), (112, 64, 3, 2, "relu"), (56, 72, 3, 1, "relu"), (56, 72, 5, 2, "relu"),
                     (28, 120, 5, 1, "relu"), (14, 672, 3, 1, "identity"), (7, 960, 5, 1, "identity")),
    "convnext_t": ((56, 96, 7, 1, "identity"), (28, 192, 7, 1, "identity"), (14, 384, 7, 1, "identity"), (7, 768, 7, 1, "identity")),
    "segformer_b0": ((64, 128, 3, 1, "gelu_erf"), (32, 256, 3, 1, "gelu_erf"), (16, 640, 3, 1, "gelu_erf")),
}
IMAGES = 32


WAVES = 16  # sounds of Wav2Vec2


def depthwise() -> List[Case]:
    return [found for n in (IMAGES, 1) for found in _depthwise_of(n)]


def images() -> List[Case]:
    return _grouped_of(IMAGES, WAVES) + [_bilinear(*each) for each in BILINEAR]


def _depthwise_of(n: int) -> List[Case]:
    return [_depthwise(name, n, *layer) for name, layers in DEPTHWISE.items() for layer in layers]


def _grouped_of(n: int, waves: int) -> List[Case]:
    found = [_grouped(name, n, (side, side), (3, 3), (1, 1), channels, groups)
             for name, layers in GROUPED.items() for side, channels, groups in layers]
    return found + [_grouped("wav2vec2", waves, (1, 499), (1, 128), (0, 64), 768, 16)]


def _other_images(name: str) -> Case:
    n = int(name.rsplit("-images-", 1)[1])
    return next(found for found in _depthwise_of(n) + _grouped_of(n, n) if name in (found.id, f"{found.id}-images-{n}"))


def _with_images(name: str, n: int, usual: int) -> str:
    return name + (f"-images-{n}" if n != usual else "")


def _first(x: Any) -> Any:
    """An image, channels last, with its channels first in PyTorch's order of the axes."""
    return x.permute(0, 3, 1, 2)


def _grouped(model: str, n: int, side: Tuple[int, int], taps: Tuple[int, int], pad: Tuple[int, int], channels: int, groups: int) -> Case:
    each = channels // groups
    chain = (f"conv b=M h={side[0]} w={side[1]} ic={channels} oc={channels} k={taps[0]},{taps[1]} pad={pad[0]},{pad[0]},{pad[1]},{pad[1]} "
             f"groups={groups} act=relu bias=1")

    def make(torch: Any) -> Tuple[Any, ...]:
        torch.backends.cudnn.benchmark = True
        return (_random(torch, n, *side, channels), _random(torch, channels, *taps, each, scale=(each * taps[0] * taps[1]) ** -0.5),
                _random(torch, channels))

    def run(x: Any, w: Any, b: Any) -> Any:
        from torch.nn import functional

        return functional.conv2d(_first(x), _first(w), b, padding=pad, groups=groups).relu().permute(0, 2, 3, 1)

    name = _with_images(f"{model}-{side[1]}", n, WAVES if model == "wav2vec2" else IMAGES)
    return Case("images", name, n, chain, make, run, run, 2 * n * side[0] * side[1] * channels)


def _depthwise(model: str, n: int, side: int, channels: int, taps: int, stride: int, act: str) -> Case:
    pad = taps // 2
    chain = f"depthwise_conv b=M h={side} w={side} ic={channels} k={taps} stride={stride} pad={pad} act={act} bias=1"

    def make(torch: Any) -> Tuple[Any, ...]:
        torch.backends.cudnn.benchmark = True
        return _random(torch, n, side, side, channels), _random(torch, channels, taps, taps, 1, scale=1 / taps), _random(torch, channels)

    def run(x: Any, w: Any, b: Any) -> Any:
        from torch.nn import functional

        y = functional.conv2d(_first(x), _first(w), b, stride=stride, padding=pad, groups=channels)
        found = {"silu": functional.silu, "relu": functional.relu, "gelu_erf": functional.gelu, "identity": lambda v: v}[act](y)
        return found.permute(0, 2, 3, 1)

    behind = (side + 2 * pad - taps) // stride + 1
    name = _with_images(f"{model}-{side}-{channels}-{taps}x{taps}" + (f"-by-{stride}" if stride > 1 else ""), n, IMAGES)
    return Case("depthwise", name, n, chain, make, run, run, n * channels * (side**2 + behind**2))


def _bilinear(before: int, behind: int, channels: int, corners: bool) -> Case:
    n = 8

    def chain(sinter: Any) -> Any:
        b = sinter.Builder()
        x = b.input("bf16", (n, before, before, channels))
        place = b.iota("f32", (behind,), 0)
        place = place * ((before - 1) / (behind - 1)) if corners else sinter.maximum((place + 0.5) * (before / behind) - 0.5, 0.0)
        first = sinter.minimum(place.cast("s32"), before - 1)
        second, share = sinter.minimum(first + 1, before - 1), sinter.minimum(sinter.maximum(place - first.cast("f32"), 0.0), 1.0)
        pixels = x.reshape(n, before * before, channels).transpose(1, 0, 2)

        def line(row: Any) -> Any:
            left, right = (pixels.gather((row * before).reshape(behind, 1) + column).cast("f32") for column in (first, second))
            return left + (right - left) * share.reshape(behind, 1, 1)

        top = line(first)
        y = top + (line(second) - top) * share.reshape(behind, 1, 1, 1)
        return b.finish(y.transpose(2, 0, 1, 3).cast("bf16"))

    def run(x: Any) -> Any:
        from torch.nn import functional

        return functional.interpolate(_first(x), size=(behind, behind), mode="bilinear", align_corners=corners).permute(0, 2, 3, 1)

    return Case("images", f"bilinear-{before}-{behind}-{channels}", 0, chain, lambda t: (_random(t, n, before, before, channels),), run, run,
                n * channels * (before**2 + behind**2))
