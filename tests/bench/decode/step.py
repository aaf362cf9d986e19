"""A decoding step around a contestant: what all share is here, their parts come from `contestants`."""

from typing import NamedTuple

import torch

from kernels import Attention


LARGEST = 448.0  # of e4m3


def quantize(x, scales):
    """x [.., k] as e4m3 codes and their f32 scales [.., 1], or [.., k / 128], one of 128 values."""
    groups = x.float().unflatten(-1, (-1, 128)) if scales == "group" else x.float().unsqueeze(-2)
    scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-10) / LARGEST
    codes = (groups / scale).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
    return codes.flatten(-2), scale.squeeze(-1)


class Codes(NamedTuple):
    """A matrix [out, in] of e4m3 codes, with f32 scales [out, 1] or [out / 128, in / 128]."""

    codes: torch.Tensor
    scale: torch.Tensor

    @staticmethod
    def of(matrix, scales):
        if scales == "row":
            return Codes(*quantize(matrix, "row"))
        n, k = matrix.shape
        blocks = matrix.float().view(n // 128, 128, k // 128, 128)
        scale = blocks.abs().amax((1, 3)).clamp(min=1e-10) / LARGEST
        codes = (blocks / scale[:, None, :, None]).clamp(-LARGEST, LARGEST).to(torch.float8_e4m3fn)
        return Codes(codes.view(n, k), scale)

    def float(self):
        n, k = self.codes.shape
        if self.scale.shape[0] == n:
            return self.codes.float() * self.scale
        return (self.codes.float().view(n // 128, 128, k // 128, 128) * self.scale[:, None, :, None]).view(n, k)

    def halves(self):
        return tuple(map(Codes, self.codes.chunk(2), self.scale.chunk(2)))


class Routed(NamedTuple):
    """A router's matrix [experts, in], and gate above up of all experts, [experts, 2 inner, in]; a row takes `top` of them."""

    router: torch.Tensor
    both: torch.Tensor
    top: int


def halves(matrix):
    """Gate and up of the two merged; of experts the router's matrix and theirs."""
    if isinstance(matrix, Routed):
        return matrix.router, matrix.both
    return matrix.halves() if isinstance(matrix, Codes) else matrix.chunk(2)


class Layer:
    """Weights of a layer, [out, in]."""

    def __init__(self, model, make):
        self.qkv, self.o = make(model.qkv, model.hidden), make(model.hidden, model.q)
        if model.experts:
            # Logits of a wide range: what a rounding takes instead of another weighs little then.
            router = make(model.experts, model.hidden) * 4
            self.gate_up = Routed(router, make(model.experts, 2 * model.inner, model.hidden), model.top)
            self.down = make(model.experts, model.hidden, model.inner)
        else:
            self.gate_up, self.down = make(2 * model.inner, model.hidden), make(model.hidden, model.inner)
        self.norm, self.post_norm = make(model.hidden), make(model.hidden)
        self.qk_gamma = make(2, model.head)

    def folded(self):
        """The same with the norms' weights multiplied into the products that follow them."""
        other = object.__new__(Layer)
        other.__dict__.update(self.__dict__)
        other.qkv, other.gate_up = self.qkv * self.norm, self.gate_up * self.post_norm
        return other


    def quantized(self, scales):
        """The same with products of codes."""
        other = object.__new__(Layer)
        other.__dict__.update(self.__dict__)
        for name in ("qkv", "o", "gate_up", "down"):
            setattr(other, name, Codes.of(getattr(self, name), scales))
        return other


class Weights:
    """Random weights of a model, one copy for all contestants. The embedding is the matrix of logits, too."""

    def __init__(self, model, device, dtype=torch.bfloat16, layers=None):
        generator = torch.Generator(device).manual_seed(1)

        def make(*shape):
            """Products keep variances; weights of norms lie around 1."""
            reach, middle = ((3 / shape[-1]) ** 0.5, 0.0) if len(shape) > 1 and shape[0] != 2 else (0.5, 1.0)
            made = torch.empty(shape, device=device, dtype=dtype)
            return made.uniform_(middle - reach, middle + reach, generator=generator)

        self.model = model
        self.layers = [Layer(model, make) for _ in range(layers or model.layers)]
        self.embedding = self.logits = make(model.vocabulary, model.hidden)
        self.norm = make(model.hidden)

    def folded(self):
        """A copy with the norms' weights in the products that follow them."""
        other = object.__new__(Weights)
        other.model, other.embedding, other.norm = self.model, self.embedding, self.norm
        other.layers = [layer.folded() for layer in self.layers]
        other.logits = self.logits * self.norm
        return other


    def quantized(self, scales):
        """The same with layers' weights in 8 bits; the matrix of logits stays."""
        other = object.__new__(Weights)
        other.__dict__.update(self.__dict__)
        other.layers = [layer.quantized(scales) for layer in self.layers]
        return other


class State:
    """What a step reads and changes besides weights: tokens, position, keys and values. Except for tokens and position, a step ends
    as it began, so that steps after `reset` are equal. The cache is a ring of `context` positions, all of which
    every step reads."""

    def __init__(self, weights, rows, context, early=False):
        model, embedding = weights.model, weights.embedding
        device, dtype = embedding.device, embedding.dtype
        generator = torch.Generator(device).manual_seed(2)
        self.rows, self.context = rows, context
        self.begin = torch.randint(model.vocabulary, (rows,), device=device, generator=generator)
        self.tokens = self.begin.clone()
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.embedded = torch.empty(rows, model.hidden, device=device, dtype=dtype)
        self.caches = [
            torch.empty(2, rows, model.kv_heads, context, model.head, device=device, dtype=dtype).uniform_(
                -1.7, 1.7, generator=generator
            )
            for _ in weights.layers
        ]
        angle = torch.arange(context, device=device)[:, None] * 1e4 ** -(
            torch.arange(model.head // 2, device=device) * 2 / model.head
        )
        self.turns = angle.cos(), angle.sin()
        self.attention = Attention(model, rows, context, device, dtype, early)

    def reset(self):
        self.tokens.copy_(self.begin)
        self.position.fill_(self.context // 2)

    def poison(self):
        """What a step writes before it reads it."""
        slot = int(self.position) % self.context
        places = [cache[:, :, :, slot] for cache in self.caches]
        for buffer in (self.embedded, self.attention.q, self.attention.out, self.attention.parts, *places):
            buffer.fill_(float("nan"))


def run(contestant, weights, state, attention=True, choose=True):
    """Enqueues one step; its logits [rows, vocabulary]. Without attention its result is what lies there already. `choose`: they give the
    next step's tokens; of a GPU that has a part of them they cannot."""
    torch.index_select(weights.embedding, 0, state.tokens, out=state.embedded)
    qkv, stream = contestant.first(state.embedded), state.embedded
    attended = state.attention.out
    for i, layer in enumerate(weights.layers):
        if attention:
            attended = state.attention(qkv, state.caches[i], layer.qk_gamma, state.turns, state.position)
        if i + 1 < len(weights.layers):
            stream, qkv = contestant.between(i, attended, stream)
    logits = contestant.last(attended, stream)
    if choose:
        torch.argmax(logits, 1, out=state.tokens)
    state.position.add_(1)
    return logits
