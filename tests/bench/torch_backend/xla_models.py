"""FusionStitching's models in JAX, with the parameters of `training_models.py`'s modules under their names: logits, losses, and a step of training.
Images and filters have channels last.

A function of MODELS takes a Net and the inputs without labels. What a form says: `plain` or `cudnn`: who computes attention; a number: how many
steps of a recurrence an iteration of `lax.scan` has, `all`: no loop.
"""

import math

import jax
import jax.numpy as jnp
from jax import lax

RATE, BETAS, EPSILON, DECAY = 1e-4, (0.9, 0.999), 1e-8, 1e-2  # torch.optim.AdamW, at the rate of `training.py`
MOMENTUM = 0.1  # of batch norms' running statistics
IGNORED = -100  # a label that counts for nothing
SMOOTHING = {"transformer": 0.1}
#: By model: the forms that are tried, first what was the fastest on an H200.
FORMS = {"bert_base": ("cudnn", "plain"), "transformer": ("cudnn", "plain"), "dien": ("all", "1"), "asr": ("all", "1"), "crnn": ("all", "1")}
FORMS_TRAINED = {**FORMS, "dien": ("8", "1")}  # compiling all steps and their gradients takes minutes


class Net:
    """Parameters and buffers by PyTorch's names, and the layers that models are made of. Products are computed of `products`' type. In training all
    else is as autocast has it: norms, softmax and sums give f32; in inference they give the type of their input. `moved`: buffers after the step."""

    def __init__(self, values, form, heads=1, training=False, products=jnp.bfloat16):
        self.values, self.form, self.heads, self.training, self.products = values, form, heads, training, products
        self.moved = {}

    def __getitem__(self, name):
        return self.values[name]

    def widened(self, y, x):
        """`y`, which is f32, in the type that PyTorch gives such a result of `x`."""
        return y if self.training else y.astype(x.dtype)

    def product(self, x, weight, bias=None):
        """x @ weight.T + bias, of a weight [out, in]."""
        y = lax.dot_general(x.astype(self.products), weight.astype(self.products), (((x.ndim - 1,), (1,)), ((), ())))
        return y if bias is None else y + bias.astype(self.products)

    def linear(self, at, x):
        return self.product(x, self[f"{at}.weight"], self.values.get(f"{at}.bias"))

    def layer_norm(self, at, x, eps=1e-5):
        y = x.astype(jnp.float32)
        y = y - y.mean(-1, keepdims=True)
        y = y * lax.rsqrt(jnp.square(y).mean(-1, keepdims=True) + eps)
        return self.widened(y * self[f"{at}.weight"].astype(jnp.float32) + self[f"{at}.bias"].astype(jnp.float32), x)

    def batch_norm(self, at, x, eps=1e-5):
        """Over all axes but the last, which is the channels'."""
        y, axes = x.astype(jnp.float32), tuple(range(x.ndim - 1))
        if self.training:
            mean, count = y.mean(axes), x.size // x.shape[-1]
            var = jnp.square(y - mean).mean(axes)
            for name, new in (("running_mean", mean), ("running_var", var * (count / (count - 1)))):
                self.moved[f"{at}.{name}"] = (1 - MOMENTUM) * self[f"{at}.{name}"] + MOMENTUM * lax.stop_gradient(new)
        else:
            mean, var = (self[f"{at}.running_{name}"].astype(jnp.float32) for name in ("mean", "var"))
        y = (y - mean) * lax.rsqrt(var + eps)
        if f"{at}.weight" in self.values:
            y = y * self[f"{at}.weight"].astype(jnp.float32) + self[f"{at}.bias"].astype(jnp.float32)
        return y.astype(x.dtype)

    def softmax(self, x, axis):
        return self.widened(jax.nn.softmax(x.astype(jnp.float32), axis), x)

    def convolution(self, at, x, padding):
        """`x` is [rows, height, width, channels], the weight [out, height, width, in], as cuDNN reads them."""
        kernel = self[f"{at}.weight"].astype(self.products)
        y = lax.conv_general_dilated(x.astype(self.products), kernel, (1, 1), [(padding, padding)] * 2, dimension_numbers=("NHWC", "OHWI", "NHWC"))
        return y + self[f"{at}.bias"].astype(self.products)

    def attention(self, q, k, v, causal=False, lengths=None):
        """Of [rows, tokens, columns]; `lengths`: how many keys each row has."""
        q, k, v = (x.reshape(*x.shape[:2], self.heads, -1) for x in (q, k, v))
        if self.form == "cudnn":
            y = jax.nn.dot_product_attention(q, k, v, is_causal=causal, key_value_seq_lengths=lengths, implementation="cudnn")
        else:
            seen = jnp.ones((1, 1, q.shape[1], k.shape[1]), bool)
            if causal:
                seen = jnp.tril(seen[0, 0])[None, None]
            if lengths is not None:
                seen = seen & (jnp.arange(k.shape[1]) < lengths[:, None, None, None])
            scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * (1 / math.sqrt(q.shape[-1]))
            weights = jax.nn.softmax(jnp.where(seen, scores.astype(jnp.float32), -jnp.inf), -1).astype(v.dtype)
            y = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
        return y.reshape(*y.shape[:2], -1)

    def read(self, cell, state, xs, back=False):
        """The state's first array after each step, and the last state; `cell`: of a state and a step's inputs the next state."""
        def step(state, x):
            after = cell(state, x)
            return after, after[0]

        if self.form != "all":
            state, seen = lax.scan(step, state, xs, reverse=back, unroll=int(self.form))
            return seen, state
        count, seen = len(jax.tree.leaves(xs)[0]), []
        for i in reversed(range(count)) if back else range(count):
            state, y = step(state, jax.tree.map(lambda x, i=i: x[i], xs))
            seen.append(y)
        return jnp.stack(seen[::-1] if back else seen), state


# ---------------------------------------------------------------- Models


def bert(net, words, mask):
    lengths, gelu = mask.sum(-1), lambda x: jax.nn.gelu(x.astype(jnp.float32), approximate=False).astype(x.dtype)
    table = net["model.bert.embeddings.word_embeddings.weight"]
    at = "model.bert.embeddings"
    x = table[words] + net[f"{at}.token_type_embeddings.weight"][0] + net[f"{at}.position_embeddings.weight"][: words.shape[1]]
    x = net.layer_norm(f"{at}.LayerNorm", x, 1e-12)
    layer = 0
    while (at := f"model.bert.encoder.layer.{layer}") + ".output.dense.weight" in net.values:
        q, k, v = (net.linear(f"{at}.attention.self.{name}", x) for name in ("query", "key", "value"))
        y = net.linear(f"{at}.attention.output.dense", net.attention(q, k, v, lengths=lengths))
        x = net.layer_norm(f"{at}.attention.output.LayerNorm", y + x, 1e-12)
        y = net.linear(f"{at}.output.dense", gelu(net.linear(f"{at}.intermediate.dense", x)))
        x = net.layer_norm(f"{at}.output.LayerNorm", y + x, 1e-12)
        layer += 1
    at = "model.cls.predictions"
    x = net.layer_norm(f"{at}.transform.LayerNorm", gelu(net.linear(f"{at}.transform.dense", x)), 1e-12)
    return net.product(x, table, net[f"{at}.bias"])


def translator(net, source, target):
    table = net["table.weight"]
    hidden = table.shape[1]

    def embedded(words):
        angles = jnp.arange(words.shape[1])[:, None] / 10000 ** (jnp.arange(0, hidden, 2) / hidden)
        places = jnp.stack([jnp.sin(angles), jnp.cos(angles)], -1).reshape(words.shape[1], hidden)
        return table[words] * math.sqrt(hidden) + places

    def attended(at, x, memory, causal=False):
        weight, bias = net[f"{at}.in_proj_weight"], net[f"{at}.in_proj_bias"]
        if memory is x:
            q, k, v = jnp.split(net.product(x, weight, bias), 3, -1)
        else:
            q = net.product(x, weight[:hidden], bias[:hidden])
            k, v = jnp.split(net.product(memory, weight[hidden:], bias[hidden:]), 2, -1)
        return net.linear(f"{at}.out_proj", net.attention(q, k, v, causal))

    def fed(at, x):
        return net.linear(f"{at}.linear2", jax.nn.relu(net.linear(f"{at}.linear1", x)))

    x, y, layer = embedded(source), embedded(target), 0
    while (at := f"layers.encoder.layers.{layer}") + ".linear1.weight" in net.values:
        x = net.layer_norm(f"{at}.norm1", x + attended(f"{at}.self_attn", x, x))
        x = net.layer_norm(f"{at}.norm2", x + fed(at, x))
        layer += 1
    x, layer = net.layer_norm("layers.encoder.norm", x), 0
    while (at := f"layers.decoder.layers.{layer}") + ".linear1.weight" in net.values:
        y = net.layer_norm(f"{at}.norm1", y + attended(f"{at}.self_attn", y, y, causal=True))
        y = net.layer_norm(f"{at}.norm2", y + attended(f"{at}.multihead_attn", y, x))
        y = net.layer_norm(f"{at}.norm3", y + fed(at, y))
        layer += 1
    return net.product(net.layer_norm("layers.decoder.norm", y), table)


def interest(net, seen_goods, seen_kinds, good, kind):
    goods, kinds = net["goods.weight"], net["kinds.weight"]
    seen = jnp.concatenate([goods[seen_goods], kinds[seen_kinds]], -1)  # [steps, batch, both]
    offer = jnp.concatenate([goods[good], kinds[kind]], -1)

    def read(at, x, attention=None):
        def cell(state, step):
            (h,), (xr, xz, xn) = state, jnp.split(step[0], 3, -1)
            hr, hz, hn = jnp.split(net.linear(f"{at}.of_state", h), 3, -1)
            change = 1 - jax.nn.sigmoid(xz + hz)
            n = jnp.tanh(xn + jax.nn.sigmoid(xr + hr) * hn)
            return (h + (change if attention is None else step[1] * change) * (n - h),)

        start = jnp.zeros((x.shape[1], net[f"{at}.of_state.weight"].shape[1]), x.dtype)
        return net.read(cell, (start,), (net.linear(f"{at}.of_input", x), attention))

    states, _ = read("first", seen)
    asked = jnp.broadcast_to(net.linear("offer", offer), states.shape)
    x = jnp.concatenate([asked, states, asked - states, asked * states], -1)
    x = jax.nn.sigmoid(net.linear("score.2", jax.nn.sigmoid(net.linear("score.0", x))))
    _, (last,) = read("second", states, net.softmax(net.linear("score.4", x), 0))
    total = net.widened(seen.astype(jnp.float32).sum(0), seen)
    x = net.linear("out.0", jnp.concatenate([last, offer, total, offer * total], -1))
    for i in (1, 3):
        p = jax.nn.sigmoid(net.batch_norm(f"out.{i}.norm", x, 1e-9))
        x = net.linear(f"out.{i + 1}", p * x + (1 - p) * net[f"out.{i}.alpha"] * x)
    return x


def lstm(net, at, x, back=False, normed=False):
    """All states of [steps, rows, inputs]."""
    def cell(state, step):
        h, c = state
        gates = step + net.linear(f"{at}.of_state", h)
        i, f, g, o = jnp.split(net.layer_norm(f"{at}.norm", gates) if normed else gates, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c

    start = jnp.zeros((x.shape[1], net[f"{at}.of_state.weight"].shape[1]), x.dtype)
    return net.read(cell, (start, start), net.linear(f"{at}.of_input", x), back)[0]


def listener(net, x):
    layer = 0
    while (at := f"layers.{layer}") + ".of_input.weight" in net.values:
        x = net.layer_norm(f"norms.{layer}", lstm(net, at, x, normed=True))
        layer += 1
    return net.linear("out", x)


def reader(net, x):
    at = 0
    for pool in ((2, 2), (2, 2), None, (2, 1), None, (2, 1)):
        x = jax.nn.relu(net.batch_norm(f"images.{at + 1}", net.convolution(f"images.{at}", x, 1)))
        if pool:
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, *pool, 1), (1, *pool, 1), "VALID")
        at += 4 if pool else 3
    x = jax.nn.relu(net.convolution(f"images.{at}", x, 0))[:, 0].transpose(1, 0, 2)  # [width, rows, channels]
    return net.linear("out", jnp.concatenate([lstm(net, "cells.0", x), lstm(net, "cells.1", x, back=True)], -1))


#: As ``training_models.MODELS``.
MODELS = {"bert_base": bert, "transformer": translator, "dien": interest, "asr": listener, "crnn": reader}


# ---------------------------------------------------------------- Training


def cross_entropy(logits, labels, smoothing=0.0):
    """As torch.nn.functional's. The label's logit is a masked sum, which XLA computes in the kernels that read the logits."""
    logits = logits.astype(jnp.float32)
    whole = jax.nn.logsumexp(logits, -1)
    at = jnp.where(labels[..., None] == jnp.arange(logits.shape[-1]), logits, 0).sum(-1)
    losses = whole - (1 - smoothing) * at - smoothing * logits.mean(-1)
    counted = labels != IGNORED
    return jnp.where(counted, losses, 0).sum() / counted.sum()


def inference(model, form, heads, products=jnp.bfloat16):
    """A function that gives the logits for values and inputs, the last of which are labels."""
    return lambda values, *inputs: MODELS[model](Net(values, form, heads, products=products), *inputs[:-1])


def started(parameters, buffers):
    """The state that a step takes and gives."""
    zeros = lambda: {name: jnp.zeros_like(x) for name, x in parameters.items()}
    return {"parameters": parameters, "buffers": buffers, "first": zeros(), "second": zeros(), "steps": jnp.zeros((), jnp.float32)}


def step(model, form, heads, products=jnp.bfloat16):
    """A function that gives the next state by AdamW and the loss, for a state and inputs. After a first step `first` is a tenth of the gradients."""
    def loss_of(parameters, buffers, inputs):
        net = Net({**parameters, **buffers}, form, heads, True, products)
        loss = cross_entropy(MODELS[model](net, *inputs[:-1]), inputs[-1], SMOOTHING.get(model, 0.0))
        return loss, {**buffers, **net.moved}

    def call(state, *inputs):
        (loss, buffers), gradients = jax.value_and_grad(loss_of, has_aux=True)(state["parameters"], state["buffers"], inputs)
        steps = state["steps"] + 1
        first = jax.tree.map(lambda m, g: BETAS[0] * m + (1 - BETAS[0]) * g, state["first"], gradients)
        second = jax.tree.map(lambda v, g: BETAS[1] * v + (1 - BETAS[1]) * g * g, state["second"], gradients)
        size, scale = RATE / (1 - BETAS[0] ** steps), lax.rsqrt(1 - BETAS[1] ** steps)
        moved = lambda p, m, v: p * (1 - RATE * DECAY) - size * m / (jnp.sqrt(v) * scale + EPSILON)
        parameters = jax.tree.map(moved, state["parameters"], first, second)
        return {"parameters": parameters, "buffers": buffers, "first": first, "second": second, "steps": steps}, loss

    return call
