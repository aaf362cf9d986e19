"""The step in float32 from the same weights, op by op: what logits are held against."""

import torch
import torch.nn.functional as F


def _norm(x, gamma, eps):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * gamma.float()


def _linear(x, weight):
    return F.linear(x, weight.float())


def _turn(x, turns, slot):
    half = x.shape[-1] // 2
    low, high = x[..., :half], x[..., half:]
    c, s = turns[0][slot], turns[1][slot]
    return torch.cat((low * c - high * s, high * c + low * s), -1)


def _attend(model, qkv, cache, gamma, turns, slot):
    """[rows, q]. The cache is not written."""
    rows = qkv.shape[0]
    heads = qkv.view(rows, -1, model.head)
    q, k, v = heads.split((model.heads, model.kv_heads, model.kv_heads), 1)
    if model.qk_norm:
        q, k = _norm(q, gamma[0], model.eps), _norm(k, gamma[1], model.eps)
    keys, values = cache.float()
    keys[:, :, slot], values[:, :, slot] = _turn(k, turns, slot), v
    q = _turn(q, turns, slot).view(rows, model.kv_heads, -1, model.head)
    weight = torch.softmax(q @ keys.transpose(-1, -2) * model.head**-0.5, -1)
    return (weight @ values).reshape(rows, model.q)


def _mixed(x, layer):
    """[rows, hidden], the weighted sum of each row's experts, one after another."""
    router, both, top = layer.gate_up
    weight, ids = torch.topk(torch.softmax(_linear(x, router), -1), top)
    weight, found = weight / weight.sum(-1, keepdim=True), torch.zeros_like(x)
    for expert in ids.unique().tolist():
        row, slot = torch.where(ids == expert)
        gate, up = _linear(x[row], both[expert]).chunk(2, -1)
        found.index_add_(0, row, _linear(F.silu(gate) * up, layer.down[expert]) * weight[row, slot, None])
    return found


@torch.no_grad()
def logits(weights, state):
    """[rows, vocabulary], f32, of the step that `state` stands before. Nothing of the state changes."""
    model, slot = weights.model, int(state.position) % state.context
    stream = weights.embedding[state.tokens].float()
    for layer, cache in zip(weights.layers, state.caches):
        qkv = _linear(_norm(stream, layer.norm, model.eps), layer.qkv)
        stream = stream + _linear(_attend(model, qkv, cache, layer.qk_gamma, state.turns, slot), layer.o)
        x = _norm(stream, layer.post_norm, model.eps)
        if model.experts:
            stream = stream + _mixed(x, layer)
            continue
        gate, up = _linear(x, layer.gate_up).chunk(2, -1)
        stream = stream + _linear(F.silu(gate) * up, layer.down)
    return _linear(_norm(stream, weights.norm, model.eps), weights.logits)
