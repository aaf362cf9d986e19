"""Models of the training benchmark by name: batch -> (module, draw), random float32 weights on the default device. A module gives its loss
while it trains, and its logits in evaluation; `draw` makes a batch of inputs, another one each time.

Transformers and images come from transformers and timm as they are published; the recurrent ones are FusionStitching's workloads in plain
PyTorch. Their cells are written out step by step, as cuDNN has none of them: a GRU whose update is weighed by attention, an LSTM with
layer norms, and an LSTM whose products PyTorch may choose. What computes in 16 bits is autocast's choice.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

STEP = 7919  # from a word to the next, a prime that divides no vocabulary


def ids(*shape, below):
    return torch.randint(0, below, shape)


def sentences(batch, tokens, below):
    """Words each of which tells the next, as much as words do. Where they tell nothing, a language model first learns how often each
    label occurs and stays there for a number of steps that rounding decides."""
    return (ids(batch, 1, below=below) + STEP * torch.arange(tokens)) % below


class Labelled(nn.Module):
    """A model of transformers, which computes its loss itself; inputs by name, the last of which are the labels."""

    def __init__(self, model, *names, **fixed):
        super().__init__()
        self.model, self.names, self.fixed = model, names, fixed

    def forward(self, *inputs):
        given = dict(zip(self.names if self.training else self.names[:-1], inputs))
        result = self.model(**given, **self.fixed)
        return result.loss if self.training else result.logits


class Classified(nn.Module):
    """A model that gives the logits of classes."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x, labels):
        return judged(self, self.model(x), labels)


def judged(model, logits, labels, **more):
    """The loss of rows of logits, or the logits."""
    return F.cross_entropy(logits.flatten(0, -2), labels.flatten(), **more) if model.training else logits


# ---------------------------------------------------------------- Published models


def bert(batch, dropout=0.0, tokens=128, **sizes):
    """Masked words of sentences of full length: one of seven is asked for. The mask of the sentences' words is given, as tokenizers give
    it: without one transformers makes one whose rows repeat a single element, for which PyTorch has attention only by f32 products."""
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, **sizes)

    def draw():
        words = ids(batch, tokens, below=config.vocab_size)
        asked = torch.rand(batch, tokens) < 1 / 7
        return words, torch.ones_like(words), torch.where(asked, words, -100)

    return Labelled(BertForMaskedLM(config), "input_ids", "attention_mask", "labels"), draw


def gpt2(batch, dropout=0.0, tokens=512, **sizes):
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(resid_pdrop=dropout, embd_pdrop=dropout, attn_pdrop=dropout, use_cache=False, **sizes)
    model = GPT2LMHeadModel(config)
    model.loss_type = "ForCausalLM"  # else transformers warns in each call, which breaks the graph

    def draw():
        words = sentences(batch, tokens, config.vocab_size)
        return words, words.clone()

    return Labelled(model, "input_ids", "labels", use_cache=False), draw


def images(name, channels_last):
    def make(batch, dropout=0.0, side=224, **sizes):
        import timm

        model = timm.create_model(name, drop_rate=dropout, **sizes)
        format = torch.channels_last if channels_last else torch.contiguous_format

        def draw():
            return torch.randn(batch, 3, side, side).contiguous(memory_format=format), ids(batch, below=1000)

        return Classified(model.to(memory_format=format)), draw

    return make


# ---------------------------------------------------------------- FusionStitching's workloads


class Translator(nn.Module):
    """The base Transformer: six layers each of encoder and decoder, one table of words for both and for the logits."""

    def __init__(self, words=32000, hidden=512, heads=8, inner=2048, layers=6, dropout=0.1):
        super().__init__()
        self.hidden = hidden
        self.table = nn.Embedding(words, hidden)
        nn.init.normal_(self.table.weight, std=hidden**-0.5)
        self.layers = nn.Transformer(hidden, heads, layers, layers, inner, dropout, batch_first=True)
        self.dropout = nn.Dropout(dropout)

    def embedded(self, words):
        at = torch.arange(words.shape[1], device=words.device)[:, None]
        angles = at / 10000 ** (torch.arange(0, self.hidden, 2, device=words.device) / self.hidden)
        places = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
        return self.dropout(self.table(words) * math.sqrt(self.hidden) + places)

    def forward(self, source, target, labels):
        length = target.shape[1]
        mask = torch.full((length, length), -math.inf, device=target.device).triu(1)
        y = self.layers(self.embedded(source), self.embedded(target), tgt_mask=mask, tgt_is_causal=True)
        return judged(self, F.linear(y, self.table.weight), labels, label_smoothing=0.1)


def translator(batch, dropout=0.0, tokens=128, **sizes):
    model = Translator(dropout=dropout, **sizes)
    below = model.table.num_embeddings

    def draw():
        source, target = (sentences(batch, tokens + 1, below) for _ in range(2))
        return source[:, 1:].contiguous(), target[:, :-1].contiguous(), target[:, 1:].contiguous()

    return model, draw


class GruCell(nn.Module):
    """One step; ``attention`` [rows, 1] weighs how much of the state may change."""

    def __init__(self, inputs, hidden):
        super().__init__()
        self.of_input, self.of_state = nn.Linear(inputs, 3 * hidden), nn.Linear(hidden, 3 * hidden)

    def forward(self, from_input, h, attention=None):
        xr, xz, xn = from_input.chunk(3, -1)
        hr, hz, hn = self.of_state(h).chunk(3, -1)
        z = torch.sigmoid(xz + hz)
        n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
        change = 1 - z if attention is None else attention * (1 - z)
        return h + change * (n - h)


class Dice(nn.Module):
    """An activation that batch statistics place."""

    def __init__(self, width):
        super().__init__()
        self.norm, self.alpha = nn.BatchNorm1d(width, eps=1e-9, affine=False), nn.Parameter(torch.zeros(width))

    def forward(self, x):
        p = torch.sigmoid(self.norm(x))
        return p * x + (1 - p) * self.alpha * x


class Interest(nn.Module):
    """DIEN: what a user looked at, read by a GRU, weighed by attention to the goods on offer, and read again."""

    def __init__(self, goods=10000, kinds=1000, width=18, hidden=36):
        super().__init__()
        self.goods, self.kinds = nn.Embedding(goods, width), nn.Embedding(kinds, width)
        both = 2 * width
        self.first, self.second = GruCell(both, hidden), GruCell(hidden, hidden)
        self.score = nn.Sequential(nn.Linear(4 * hidden, 80), nn.Sigmoid(), nn.Linear(80, 40), nn.Sigmoid(), nn.Linear(40, 1))
        self.offer = nn.Linear(both, hidden)
        self.out = nn.Sequential(nn.Linear(hidden + 3 * both, 200), Dice(200), nn.Linear(200, 80), Dice(80), nn.Linear(80, 2))

    def read(self, cell, x, attention=None):
        h, states = x.new_zeros(x.shape[1], cell.of_state.in_features), []
        for i, step in enumerate(cell.of_input(x)):
            h = cell(step, h, None if attention is None else attention[i])
            states.append(h)
        return states

    def forward(self, seen_goods, seen_kinds, good, kind, labels):
        seen = torch.cat([self.goods(seen_goods), self.kinds(seen_kinds)], -1)  # [steps, batch, both]
        offer = torch.cat([self.goods(good), self.kinds(kind)], -1)
        states = torch.stack(self.read(self.first, seen))
        asked = self.offer(offer).expand_as(states)
        attention = torch.softmax(self.score(torch.cat([asked, states, asked - states, asked * states], -1)), 0)
        last = self.read(self.second, states, attention)[-1]
        total = seen.sum(0)
        return judged(self, self.out(torch.cat([last, offer, total, offer * total], -1)), labels)


def interest(batch, dropout=0.0, steps=32, **sizes):
    seen = lambda below: ids(steps, batch, below=below)
    model = Interest(**sizes)
    goods, kinds = model.goods.num_embeddings, model.kinds.num_embeddings
    return model, lambda: (seen(goods), seen(kinds), ids(batch, below=goods), ids(batch, below=kinds), ids(batch, below=2))


class LstmCell(nn.Module):
    """One step of an LSTM; ``norm`` lays a layer norm over the gates, as recognisers of speech have it."""

    def __init__(self, inputs, hidden, norm=False):
        super().__init__()
        self.of_input, self.of_state = nn.Linear(inputs, 4 * hidden), nn.Linear(hidden, 4 * hidden, bias=False)
        self.norm = nn.LayerNorm(4 * hidden) if norm else nn.Identity()

    def forward(self, from_input, h, c):
        i, f, g, o = self.norm(from_input + self.of_state(h)).chunk(4, -1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    def read(self, x, back=False):
        """All states of [steps, rows, inputs]."""
        steps = self.of_input(x).unbind()
        h = c = x.new_zeros(x.shape[1], self.of_state.in_features)
        states = []
        for step in reversed(steps) if back else steps:
            h, c = self(step, h, c)
            states.append(h)
        return torch.stack(states[::-1] if back else states)


class Listener(nn.Module):
    """Five layers of LSTM with layer norms over frames of sound, and the logits of pieces of words."""

    def __init__(self, hidden=1024, layers=5, frame=240, classes=4096):
        super().__init__()
        self.layers = nn.ModuleList(LstmCell(hidden if i else frame, hidden, norm=True) for i in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.out = nn.Linear(hidden, classes)

    def forward(self, x, labels):
        for layer, norm in zip(self.layers, self.norms):
            x = norm(layer.read(x))
        return judged(self, self.out(x), labels)


def listener(batch, dropout=0.0, steps=16, **sizes):
    model = Listener(**sizes)
    frame, classes = model.layers[0].of_input.in_features, model.out.out_features
    return model, lambda: (torch.randn(steps, batch, frame), ids(steps, batch, below=classes))


class Reader(nn.Module):
    """CRNN: convolutions over a line of text, an LSTM from either side along it."""

    def __init__(self, hidden=256, classes=37, cells=True):
        super().__init__()
        layers, before = [], 1
        for channels, pool in ((64, (2, 2)), (128, (2, 2)), (256, None), (256, (2, 1)), (512, None), (512, (2, 1))):
            layers += [nn.Conv2d(before, channels, 3, 1, 1), nn.BatchNorm2d(channels), nn.ReLU()]
            layers += [nn.MaxPool2d(pool, pool)] if pool else []
            before = channels
        self.images = nn.Sequential(*layers, nn.Conv2d(512, 512, 2), nn.ReLU())
        self.cells = nn.ModuleList(LstmCell(512, hidden) for _ in range(2)) if cells else None
        self.line = None if cells else nn.LSTM(512, hidden, bidirectional=True)
        self.out = nn.Linear(2 * hidden, classes)

    def forward(self, x, labels):
        x = self.images(x).squeeze(2).permute(2, 0, 1)
        if self.line is None:
            x = torch.cat([self.cells[0].read(x), self.cells[1].read(x, back=True)], -1)
        else:
            x = self.line(x)[0]
        return judged(self, self.out(x), labels)


def reader(cells):
    def make(batch, dropout=0.0, width=100, **sizes):
        model = Reader(cells=cells, **sizes).to(memory_format=torch.channels_last)

        def draw():
            x = torch.randn(batch, 1, 32, width).contiguous(memory_format=torch.channels_last)
            return x, ids(width // 4 - 1, batch, below=model.out.out_features)

        return model, draw

    return make


#: By name: what makes it, batches of training, batches of inference.
MODELS = {
    "bert_base": (bert, (8, 32), (32,)),
    "gpt2": (gpt2, (4,), ()),
    "vit_b16": (images("vit_base_patch16_224", False), (32,), ()),
    "resnet50": (images("resnet50", True), (32,), ()),
    "transformer": (translator, (32,), ()),
    "dien": (interest, (256,), (256,)),
    "asr": (listener, (8,), (8,)),
    "crnn": (reader(True), (8,), (8,)),
    "crnn_cudnn": (reader(False), (8,), (8,)),
}

#: Of the same models so small that a CPU trains them in seconds.
SMALL = {
    "bert_base": dict(batch=2, tokens=32, num_hidden_layers=1, hidden_size=64, num_attention_heads=2, intermediate_size=128, vocab_size=256),
    "gpt2": dict(batch=2, tokens=32, n_layer=1, n_embd=64, n_head=2, vocab_size=256),
    "vit_b16": dict(batch=2, side=32, img_size=32, depth=1, embed_dim=64, num_heads=2),
    "resnet50": dict(batch=8, side=64, layers=(1, 1, 1, 1)),
    "transformer": dict(batch=2, tokens=16, words=128, hidden=64, heads=2, inner=128, layers=1),
    "dien": dict(batch=8, steps=3, goods=64, kinds=16),
    "asr": dict(batch=4, steps=3, hidden=64, layers=2, frame=32, classes=64),
    "crnn": dict(batch=2, width=32, hidden=32),
    "crnn_cudnn": dict(batch=2, width=32, hidden=32),
}
