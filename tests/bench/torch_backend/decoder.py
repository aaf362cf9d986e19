"""A decoder of Llama-3-8B's extents with a cache of its own: a step of decoding, without transformers."""

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Grouped-query attention with rotary positions; with a cache, one token a sequence after `past` others, which `seen` may mask."""

    def __init__(self, hidden, heads, kv_heads, past=0, batch=0, masked=False):
        super().__init__()
        self.heads, self.kv_heads, self.past = heads, kv_heads, past
        self.size = hidden // heads
        self.q, self.o = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.k, self.v = (nn.Linear(hidden, kv_heads * self.size, bias=False) for _ in range(2))
        if past:
            for name in ("keys", "values"):
                self.register_buffer(name, torch.randn(batch, kv_heads, past + 1, self.size))
            self.register_buffer("at", torch.tensor([past]))
        self.register_buffer("seen", torch.rand(batch, 1, 1, past + 1) < 0.9 if masked else None)

    def forward(self, x, cos, sin):
        b, s, _ = x.shape
        split = lambda y, heads: y.view(b, s, heads, self.size).transpose(1, 2)
        q, k, v = split(self.q(x), self.heads), split(self.k(x), self.kv_heads), split(self.v(x), self.kv_heads)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if self.past:
            k, v = self.keys.index_copy_(2, self.at, k), self.values.index_copy_(2, self.at, v)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.seen, is_causal=not self.past, enable_gqa=True)
        return self.o(y.transpose(1, 2).reshape(b, s, -1))


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Layer(nn.Module):
    def __init__(self, hidden, inner, heads, kv_heads, past, batch, masked):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.attention = Attention(hidden, heads, kv_heads, past, batch, masked)
        self.gate, self.up = (nn.Linear(hidden, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Layers of Llama-3-8B's extents between its embedding and its logits."""

    def __init__(self, layers, past=0, batch=0, masked=False, hidden=4096, inner=14336, heads=32, kv_heads=8):
        super().__init__()
        self.layers = nn.ModuleList(Layer(hidden, inner, heads, kv_heads, past, batch, masked) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden)

    def forward(self, x, cos, sin):
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


def decoder(layers, batch, tokens, past=0, masked=False, hidden=4096):
    """(model, inputs): `layers` of 32, where None means all."""
    model = Decoder(layers or 32, past, batch, masked)
    angles = torch.arange(past, past + tokens)[:, None] * torch.rand(64)[None]
    both = torch.cat([angles, angles], -1)
    return model, (torch.randn(batch, tokens, hidden), both.cos(), both.sin())
