"""Shapes of the models whose decoding step is measured, and what a step must move at least."""

from dataclasses import dataclass, replace

# The stream that this chip's memory gives, read only: docs/cost-model.md.
BYTES_PER_S = 4.55e12
BF16 = 2
#: What shares a scale of a layer's 8-bit weights (e4m3): an output channel, or 128 x 128 of them. None: weights are bf16.
SCALES = {"fp8": "row", "fp8-block": "group"}


@dataclass(frozen=True)
class Model:
    """A decoder whose layers are attention and a gated FFN, or a mixture of gated FFNs, each after an RMS norm."""

    name: str
    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    vocabulary: int
    qk_norm: bool
    eps: float
    #: Gated FFNs of width `inner` in a layer, of which a row takes `top`; 0: one that all take.
    experts: int = 0
    top: int = 0

    @property
    def q(self):
        """Columns of the queries, which equal attention's result's."""
        return self.heads * self.head

    @property
    def kv(self):
        return self.kv_heads * self.head

    @property
    def qkv(self):
        """Columns of the merged product: queries, keys, values."""
        return self.q + 2 * self.kv

    def matrices(self):
        """[out, in] of a layer's products, of a mixture without the experts'."""
        if self.experts:
            return (self.qkv, self.hidden), (self.hidden, self.q), (self.experts, self.hidden)
        return (self.qkv, self.hidden), (self.hidden, self.q), (2 * self.inner, self.hidden), (self.hidden, self.inner)

    def touched(self, rows):
        """Experts of a layer that `rows` rows take, where a router takes each alike."""
        return self.experts * (1 - (1 - self.top / self.experts) ** rows) if self.experts else 0

    def layer_bytes(self, scales=None, rows=1):
        """Weights of a layer that `rows` rows read, and what scales them."""
        products = sum(scaled_bytes(n, k, scales) for n, k in self.matrices()) + BF16 * self.touched(rows) * 3 * self.inner * self.hidden
        return products + BF16 * (2 * self.hidden + (2 * self.head if self.qk_norm else 0))

    def weight_bytes(self, scales=None, rows=1):
        """Weights that a step reads: layers, the last norm, the matrix of logits. From the embedding it reads a row a token."""
        return self.layers * self.layer_bytes(scales, rows) + BF16 * self.hidden * (1 + self.vocabulary)

    def cache_bytes(self, rows, context):
        """Keys and values that a step reads."""
        return BF16 * self.layers * 2 * self.kv * rows * context


def part_of(model, ranks):
    """What each of `ranks` GPUs has of a model: some of the heads, of the columns of MLPs, and of the logits."""
    shares = {name: getattr(model, name) // ranks for name in ("inner", "heads", "kv_heads", "vocabulary")}
    return replace(model, name=f"{model.name}/TP{ranks}", **shares)


def scaled_bytes(n, k, scales):
    """A matrix of bf16, or of codes with f32 scales."""
    if scales is None:
        return BF16 * n * k
    return n * k + 4 * (n if scales == "row" else -(-n // 128) * (k // 128))


MODELS = {
    model.name: model
    for model in (
        Model("Qwen3-0.6B", 1024, 3072, 28, 16, 8, 128, 151936, True, 1e-6),
        Model("Llama-3.2-1B", 2048, 8192, 16, 32, 8, 64, 128256, False, 1e-5),
        Model("Qwen3-4B", 2560, 9728, 36, 32, 8, 128, 151936, True, 1e-6),
        Model("Qwen3-8B", 4096, 12288, 36, 32, 8, 128, 151936, True, 1e-6),
        Model("Llama-3-8B", 4096, 14336, 32, 32, 8, 128, 128256, False, 1e-5),
    )
}

#: Mixtures of experts, with as many layers as leave room on a GPU of 80 GB.
MIXTURES = {"Qwen3-30B-A3B-12L": Model("Qwen3-30B-A3B-12L", 2048, 768, 12, 32, 4, 128, 151936, True, 1e-6, 128, 8)}

#: Models of several GPUs, with as many layers as leave room for all of them beside a part.
LARGE = {
    model.name: model
    for model in (
        Model("Qwen3-32B-12L", 5120, 25600, 12, 64, 8, 128, 151936, True, 1e-6),
        Model("Llama-3-70B-12L", 8192, 28672, 12, 64, 8, 128, 128256, False, 1e-5),
    )
}
ALL = {**MODELS, **MIXTURES, **LARGE}

# Models for the tests: every part of a step, in no time.
TINY = Model("tiny", 64, 96, 2, 4, 2, 32, 128, True, 1e-6)
TINY_MIXTURE = Model("tiny mixture", 64, 32, 2, 4, 2, 32, 128, True, 1e-6, 8, 2)
TINY8 = Model("tiny8", 128, 256, 2, 4, 2, 32, 128, True, 1e-6)


def limit_us(model, rows, context, attention=True, scales=None):
    """Microseconds that a step's bytes take."""
    moved = model.weight_bytes(scales, rows) + (model.cache_bytes(rows, context) if attention else 0)
    return moved / BYTES_PER_S * 1e6
