"""Models of random weights, in bf16, with their inputs: (module, inputs, f64 module and inputs for the check)."""

import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Grouped-query attention with rotary positions; with a cache, one token a sequence behind `past` others."""

    def __init__(self, hidden, heads, kv_heads, past=0, batch=0):
        super().__init__()
        self.heads, self.kv_heads, self.past = heads, kv_heads, past
        self.size = hidden // heads
        self.q, self.o = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.k, self.v = (nn.Linear(hidden, kv_heads * self.size, bias=False) for _ in range(2))
        if past:
            for name in ("keys", "values"):
                self.register_buffer(name, torch.randn(batch, kv_heads, past + 1, self.size))
            self.register_buffer("at", torch.tensor([past]))

    def forward(self, x, cos, sin):
        b, s, _ = x.shape
        split = lambda y, heads: y.view(b, s, heads, self.size).transpose(1, 2)
        q, k, v = split(self.q(x), self.heads), split(self.k(x), self.kv_heads), split(self.v(x), self.kv_heads)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if self.past:
            k, v = self.keys.index_copy_(2, self.at, k), self.values.index_copy_(2, self.at, v)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=not self.past, enable_gqa=True)
        return self.o(y.transpose(1, 2).reshape(b, s, -1))


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Layer(nn.Module):
    def __init__(self, hidden, inner, heads, kv_heads, past, batch):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.attention = Attention(hidden, heads, kv_heads, past, batch)
        self.gate, self.up = (nn.Linear(hidden, inner, bias=False) for _ in range(2))
        self.down = nn.Linear(inner, hidden, bias=False)

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Layers of Llama-3-8B's extents between its embedding and its logits."""

    def __init__(self, layers, past=0, batch=0, hidden=4096, inner=14336, heads=32, kv_heads=8):
        super().__init__()
        self.layers = nn.ModuleList(Layer(hidden, inner, heads, kv_heads, past, batch) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden)

    def forward(self, x, cos, sin):
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


def decoder(layers, batch, tokens, past=0, hidden=4096):
    model = Decoder(layers, past, batch)
    angles = torch.arange(past, past + tokens)[:, None] * torch.rand(64)[None]
    both = torch.cat([angles, angles], -1)
    return model, (torch.randn(batch, tokens, hidden), both.cos(), both.sin())


def bert(layers):
    from transformers import BertConfig, BertModel

    model = BertModel(BertConfig(num_hidden_layers=layers))
    return First(model), (torch.randint(0, 30000, (8, 128)), torch.ones(8, 128, dtype=torch.long))


def vision(name, batch, channels_last, **more):
    import timm

    model, images = timm.create_model(name, **more), torch.randn(batch, 3, 224, 224)
    if channels_last:
        model, images = (x.to(memory_format=torch.channels_last) for x in (model, images))
    return model, (images,)


class First(nn.Module):
    """The first result of a model."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return self.model(*inputs)[0]


#: By name: (layers) -> (model, inputs), in float32 on the CPU.
MODELS = {
    "bert_base": lambda layers: bert(layers),
    "decode_b32": lambda layers: decoder(layers, 32, 1, past=511),
    "prefill_512": lambda layers: decoder(layers, 1, 512),
    "vit_b16": lambda layers: vision("vit_base_patch16_224", 32, False, depth=layers),
    "resnet50": lambda layers: vision("resnet50", 32, True),
}
