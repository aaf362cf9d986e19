"""Who computes what lies between the attentions of a step. Each has `first`, `between` and `last` (chains.py says of what)."""

import os
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "experts"))
import chains  # noqa: E402
import triton_experts  # noqa: E402
from kernels import add_rmsnorm, silu_mul  # noqa: E402
from step import Codes, Routed, halves, quantize  # noqa: E402
from variants import TORCH, parts_of  # noqa: E402

#: Tiles of Triton's experts up to so many rows: those that tests/bench/experts chose for Qwen3-30B-A3B on an H200.
TILES = {1: (16, 64, 128, 16, 4, 4), 4: (16, 64, 128, 16, 4, 2), 16: (16, 64, 256, 1, 4, 2), 64: (16, 64, 128, 1, 4, 3)}


# ---------------------------------------------------------------- PyTorch


def _scaled_linear(x, weight, fast):
    """x quantised, by row if weights are by channel, else by 128 of a row, and the GEMM of FP8 values."""
    by_row = weight.scale.shape[0] == weight.codes.shape[0]
    codes, scale = quantize(x, "row" if by_row else "group")
    if not by_row:
        scale = scale.t().contiguous().t()  # as cuBLASLt takes groups' scales: one group's of all rows side by side
    return torch._scaled_mm(codes, weight.codes.t(), scale_a=scale, scale_b=weight.scale.t(), out_dtype=x.dtype, use_fast_accum=fast)


def _promoted_linear(x, weight):
    return _scaled_linear(x, weight, False)


def _fast_linear(x, weight):
    return _scaled_linear(x, weight, True)


def _plain_linear(x, weight):
    """The same in float32: what codes' products are held against. It needs no GPU."""
    codes, scale = quantize(x, "row" if weight.scale.shape[0] == weight.codes.shape[0] else "group")
    wide = (codes.float().unflatten(-1, (scale.shape[-1], -1)) * scale.unsqueeze(-1)).flatten(-2)
    return F.linear(wide, weight.float()).to(x.dtype)


def _norm_linear(stream, gamma, weight, eps, linear):
    return linear(F.rms_norm(stream, gamma.shape, gamma, eps), weight)


def _experts(x, routed, down, chosen=None):
    """Slots sorted by experts, and grouped products. `chosen`: weights and ids, where the router's matrix does not give them."""
    router, both, top = routed
    weight, ids = chosen or torch.topk(torch.softmax(F.linear(x, router).float(), -1), top)
    weight = weight / weight.sum(-1, keepdim=True)
    of_slot, order = torch.sort(ids.reshape(-1))
    ends = torch.searchsorted(of_slot, torch.arange(len(both), device=x.device), right=True, out_int32=True)
    gate, up = F.grouped_mm(x[order // top], both.transpose(1, 2), offs=ends).chunk(2, -1)
    parts = F.grouped_mm(F.silu(gate) * up, down.transpose(1, 2), offs=ends) * weight.reshape(-1, 1)[order]
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order), device=x.device)
    return parts[back].view(len(x), top, -1).sum(1).to(x.dtype)


def _tile(rows):
    return next(tile for most, tile in TILES.items() if rows <= most or most == max(TILES))


def _by_triton(x, ids, weights, both, down):
    return triton_experts.Experts(len(x))(x, ids, weights, both, down, tile=_tile(len(x)))


def _by_plugin(x, ids, weights, both, down):
    """What vLLM computes with the plugin: Triton's kernels where no plan wins."""
    from sinter.torch import servers

    y = servers.experts(x, ids, weights, both, down)
    return _by_triton(x, ids, weights, both, down) if y is None else y


def _opaque(experts):
    """Router's choice and experts as an operator; `experts`: of rows, ids, weights and both matrices."""

    def mixed(x: torch.Tensor, logits: torch.Tensor, both: torch.Tensor, down: torch.Tensor, top: int) -> torch.Tensor:
        return experts(x, *triton_experts.route(logits, top), both, down)

    operator = torch.library.custom_op(f"sinter_bench::{experts.__name__}", mixed, mutates_args=())
    operator.register_fake(lambda x, logits, both, down, top: torch.empty_like(x))
    return lambda x, routed, down: operator(x, F.linear(x, routed.router).float(), routed.both, down, routed.top)


OPAQUE_EXPERTS = {"compile-triton": _opaque(_by_triton), "sinter-plugin": _opaque(_by_plugin)}


def _ffn(attended, stream, o, gamma, gate_up, down, eps, linear, behind, experts):
    """`behind`: the product that a residual is added to; over several GPUs it ends by a sum."""
    stream = stream + behind(attended, o)
    if isinstance(gate_up, Routed):
        return stream + experts(F.rms_norm(stream, gamma.shape, gamma, eps), gate_up, down)
    gate, up = _norm_linear(stream, gamma, gate_up, eps, linear).chunk(2, -1)
    return stream + behind(F.silu(gate) * up, down)


def _layer(attended, stream, o, gamma, gate_up, down, next_gamma, out, eps, linear, behind, experts):
    stream = _ffn(attended, stream, o, gamma, gate_up, down, eps, linear, behind, experts)
    return stream, _norm_linear(stream, next_gamma, out, eps, linear)


def _tail(attended, stream, o, gamma, gate_up, down, next_gamma, out, eps, linear, behind, experts):
    return _norm_linear(_ffn(attended, stream, o, gamma, gate_up, down, eps, linear, behind, experts), next_gamma, out, eps, F.linear)


class Torch:
    """Linears with gate and up, and queries, keys and values merged; compiled as one function from attention to attention, the
    same for all layers, with weights as arguments; or eager. For FP8, `fast` lets torch._scaled_mm accumulate as it likes. `behind`: see _ffn."""

    def __init__(self, weights, mode="eager", fast=False, behind=None):
        self.weights, self.eps = weights, weights.model.eps
        self.linear = F.linear
        if isinstance(weights.layers[0].o, Codes):
            self.linear = _plain_linear if mode == "eager" else _fast_linear if fast else _promoted_linear
        self.behind = behind or self.linear
        self.experts = OPAQUE_EXPERTS.get(mode, _experts)
        if mode == "sinter-plugin":
            from sinter.torch import servers

            servers.set_up(None, [32, 64])
        compiled = (lambda f: f) if mode == "eager" else lambda f: torch.compile(f, dynamic=False, mode=TORCH[mode])
        self._first, self._layer, self._tail = compiled(_norm_linear), compiled(_layer), compiled(_tail)

    def first(self, stream):
        layer = self.weights.layers[0]
        return self._first(stream, layer.norm, layer.qkv, self.eps, self.linear)

    def between(self, i, attended, stream):
        layer, after = self.weights.layers[i : i + 2]
        return self._layer(
            attended, stream, layer.o, layer.post_norm, layer.gate_up, layer.down, after.norm, after.qkv, self.eps,
            self.linear, self.behind, self.experts,
        )

    def last(self, attended, stream):
        layer, weights = self.weights.layers[-1], self.weights
        return self._tail(
            attended, stream, layer.o, layer.post_norm, layer.gate_up, layer.down, weights.norm, weights.logits, self.eps,
            self.linear, self.behind, self.experts,
        )


class Serving(Torch):
    """What servers run without a compiler: cuBLAS's products, and one kernel each for residual with norm, and activation."""

    def first(self, stream):
        layer = self.weights.layers[0]
        return F.linear(add_rmsnorm(stream, None, layer.norm, self.eps)[1], layer.qkv)

    def _normed(self, layer, attended, stream, gamma):
        stream, x = add_rmsnorm(F.linear(attended, layer.o), stream, layer.post_norm, self.eps)
        if isinstance(layer.gate_up, Routed):
            router, both, top = layer.gate_up
            ids, weights = triton_experts.route(F.linear(x, router).float(), top)
            mixed = _by_triton(x, ids, weights, both, layer.down)
            return add_rmsnorm(mixed, stream, gamma, self.eps)
        return add_rmsnorm(F.linear(silu_mul(F.linear(x, layer.gate_up)), layer.down), stream, gamma, self.eps)

    def between(self, i, attended, stream):
        layer, after = self.weights.layers[i : i + 2]
        stream, x = self._normed(layer, attended, stream, after.norm)
        return stream, F.linear(x, after.qkv)

    def last(self, attended, stream):
        _, x = self._normed(self.weights.layers[-1], attended, stream, self.weights.norm)
        return F.linear(x, self.weights.logits)


# ---------------------------------------------------------------- Sinter


def _key(part, flags, scales):
    return part, "folded" in flags, "unfused" in flags, scales


class Plans:
    """Plans of a model for a number of rows, prepared in parallel; variants, (flags, scales), share what they have in common."""

    def __init__(self, context, model, rows, variants):
        wanted = {_key(part, flags, scales) for flags, scales in variants for part in parts_of(flags)}
        begin = time.perf_counter()
        pending = {
            key: context.prepare_async(
                getattr(chains, key[0])(model, key[1], key[3]), rows, choice="unfused" if key[2] else "best"
            )
            for key in sorted(wanted, key=str)
        }
        self.by_key = {key: one.result() for key, one in pending.items()}
        self.seconds = time.perf_counter() - begin

    def of(self, flags, scales):
        """{name of the chain: plan} of a variant."""
        return {part: self.by_key[_key(part, flags, scales)] for part in parts_of(flags)}


def _flat(*matrices):
    """Buffers of a plan: of codes also their scales."""
    return [tensor for one in matrices for tensor in (one if isinstance(one, Codes) else (one,))]


class Sinter:
    """A plan for the ops between two attentions, bound once for each layer. `split`: two plans, cut inside the FFN. `folded`:
    norms' weights in the products that follow them. `pdl`: programmatic edges between plans, too."""

    def __init__(self, weights, state, plans, flags):
        model, rows = weights.model, state.rows
        make = lambda columns: torch.full(
            (rows, columns), float("nan"), device=state.embedded.device, dtype=state.embedded.dtype
        )
        self.pdl, self.folded = "pdl" in flags, "folded" in flags
        self.qkv, self.logits, self.inner = make(model.qkv), make(model.vocabulary), make(model.inner)
        self.streams, self.middle = (make(model.hidden), make(model.hidden)), make(model.hidden)
        bind_layer = self._split_layer if "split" in flags else self._whole_layer
        layers = weights.layers
        self._first = plans["first"].bind(state.embedded, *self._with(layers[0].norm, layers[0].qkv), out=self.qkv)
        self._layers = []
        for i, layer in enumerate(layers):
            source = self.streams[i % 2] if i else state.embedded
            self._layers.append(bind_layer(plans, weights, i, layer, state.attention.out, source))

    def _behind(self, weights, i):
        """The ops after layer i: whether it is the last, the norm and matrix of the next product, the outputs."""
        if i + 1 == len(weights.layers):
            return True, weights.norm, weights.logits, self.logits
        after = weights.layers[i + 1]
        return False, after.norm, after.qkv, (self.streams[(i + 1) % 2], self.qkv)

    def _with(self, gamma, *weights):
        return _flat(*weights) if self.folded else _flat(gamma, *weights)

    def _whole_layer(self, plans, weights, i, layer, attended, source):
        ends, gamma, out, outputs = self._behind(weights, i)
        upper = self._with(layer.post_norm, *halves(layer.gate_up))
        return (plans["last" if ends else "between"].bind(
            attended, source, *_flat(layer.o), *upper, *_flat(layer.down), *self._with(gamma, out), out=outputs),)

    def _split_layer(self, plans, weights, i, layer, attended, source):
        ends, gamma, out, outputs = self._behind(weights, i)
        upper = self._with(layer.post_norm, *halves(layer.gate_up))
        lower = plans["lower_last" if ends else "lower"]
        return (plans["upper"].bind(attended, source, *_flat(layer.o), *upper, out=(self.middle, self.inner)),
                lower.bind(self.inner, self.middle, *_flat(layer.down), *self._with(gamma, out), out=outputs))

    def first(self, stream):
        return self._first(pdl=self.pdl)

    def between(self, i, attended, stream):
        for binding in self._layers[i]:
            binding(pdl=self.pdl)
        return self.streams[(i + 1) % 2], self.qkv

    def last(self, attended, stream):
        for binding in self._layers[-1]:
            binding(pdl=self.pdl)
        return self.logits

    def poison(self):
        for buffer in (self.qkv, self.logits, self.inner, *self.streams, self.middle):
            buffer.fill_(float("nan"))
