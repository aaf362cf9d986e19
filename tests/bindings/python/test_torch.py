"""sinter.torch on the CPU: operators, fake tensors, models, and how plans are found."""

import logging
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

import sinter
import sinter.torch
from sinter import _buffers
from sinter.torch.runtime import gated_mlp, launch, registered_chain, store as store_module

from conftest import SMALL


def weights(n=128, k=64, l=32, dtype=torch.bfloat16):
    torch.manual_seed(1)
    make = lambda *shape: (torch.randn(shape) / 8).to(dtype)
    return make(n, k), make(n, k), make(l, n)


def exact(x, gate, up, down, act):
    x, gate, up, down = (tensor.double() for tensor in (x, gate, up, down))
    return (act(x @ gate.T) * (x @ up.T)) @ down.T


@pytest.mark.parametrize("act", ["silu", "relu", "gelu_tanh", "gelu_erf"])
def test_operators_compute(act):
    gate, up, down = weights()
    x = torch.randn(2, 3, 64).bfloat16()
    reference = exact(x, gate, up, down, gated_mlp.ACTIVATIONS[act])
    split = sinter.torch.gated_mlp_split(x, gate, up, down, act)
    merged = sinter.torch.gated_mlp(x, torch.cat([gate, up]), down, act)
    assert split.shape == (2, 3, 32) and torch.equal(split, merged)
    assert (split.double() - reference).norm() / reference.norm() < 5e-3


def test_operators_pass_torchs_checks():
    gate, up, down = weights()
    x = torch.randn(3, 64).bfloat16()
    torch.library.opcheck(torch.ops.sinter.gated_mlp.default, (x, torch.cat([gate, up]), down, "relu"))


def test_fake_tensors_follow_shapes():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(5, 7, 64, dtype=torch.bfloat16, device="cuda")
        gate_up, down = (torch.empty(shape, dtype=torch.bfloat16, device="cuda") for shape in ((256, 64), (32, 128)))
        y = torch.ops.sinter.gated_mlp(x, gate_up, down)
        assert y.shape == (5, 7, 32) and y.dtype == x.dtype and y.device == x.device


def test_unsigned_bytes_are_a_workspace_and_no_operand():
    space = torch.zeros(64, dtype=torch.uint8)
    seen = _buffers.describe(space, "workspace", untyped=True)
    assert seen.shape == (64,) and seen.dtype.itemsize == 1 and seen.owner is space
    with pytest.raises(sinter.Error, match="torch.uint8, which no chain has"):
        _buffers.describe(space, "x")


def layer_weights(hidden=64, inner=96, q=128, columns=192):
    shapes = dict(o=(hidden, q), norm=(hidden,), gate_up=(2 * inner, hidden), down=(hidden, inner), next_norm=(hidden,))
    return {name: torch.ones(shape, dtype=torch.bfloat16) for name, shape in (*shapes.items(), ("next", (columns, hidden)))}


def test_layers_between_attentions_have_a_fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    layer = sinter.torch.BetweenAttentions(**layer_weights())
    shapes = [info.shape for info in layer.chain.buffers(5)]
    assert shapes == [(5, 128), (5, 64), (64, 128), (64,), (96, 64), (96, 64), (64, 96), (64,), (192, 64), (5, 64), (5, 192)]
    with FakeTensorMode(allow_non_fake_inputs=True):
        make = lambda *shape: torch.empty(shape, dtype=torch.bfloat16, device="cuda")
        layer._weights = [make(*weight.shape) for weight in layer._weights]
        stream, out = layer(make(7, 128), make(7, 64))
    assert stream.shape == (7, 64) and out.shape == (7, 192) and out.dtype == torch.bfloat16


def layer_tensors(rows=3):
    torch.manual_seed(7)
    make = lambda *shape: (torch.randn(shape) / shape[-1] ** 0.5).bfloat16()
    weights = [make(*weight.shape) for weight in layer_weights().values()]
    return make(rows, 128), make(rows, 64), weights


def test_a_layer_as_an_operator_computes():
    attended, stream, (o, norm, gate_up, down, next_norm, next) = layer_tensors()
    linear = lambda x, w: x @ w.double().T
    rms = lambda x, gamma: x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * gamma.double()
    total = stream.double() + linear(attended.double(), o)
    gate, up = linear(rms(total, norm), gate_up).chunk(2, -1)
    total = total + linear(torch.nn.functional.silu(gate) * up, down)
    wanted = total, linear(rms(total, next_norm), next)
    found = torch.ops.sinter.between_attentions(attended, stream, [o, norm, gate_up, down, next_norm, next], 1e-6)
    for one, other in zip(found, wanted):
        assert one.dtype == torch.bfloat16 and (one.double() - other).norm() / other.norm() < 1e-2


def test_a_layer_as_an_operator_passes_torchs_checks():
    attended, stream, weights = layer_tensors()
    torch.library.opcheck(torch.ops.sinter.between_attentions.default, (attended, stream, weights, 1e-6))
    with pytest.raises(sinter.Error, match="there are 5 weights"):
        torch.ops.sinter.between_attentions(attended, stream, weights[:5], 1e-6)


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda o: o.T, "o has strides"),
        (lambda o: o.view(torch.float16), "o is torch.float16"),
        (lambda o: o.view(torch.int16), "torch.int16"),
        (lambda o: o[:, :32], "o has strides"),
        (lambda o: o[:32], r"norm has shape \(64,\), not \(32,\)"),
    ],
    ids=["strides", "dtype", "no_number", "narrow", "short"],
)
def test_what_is_known_of_a_layer_is_not_what_its_weights_became(change, said):
    """The tensors and their addresses are the same."""
    from sinter.torch.serve import between_op

    weights = [torch.nn.Parameter(w, requires_grad=False) for w in layer_weights(q=64).values()]
    layer = between_op._layer(weights, 1e-6, False)
    assert between_op._layer(weights, 1e-6, False) is layer
    weights[0].data = change(weights[0].data)
    with pytest.raises(sinter.Error, match=said):
        between_op._layer(weights, 1e-6, False)


def test_layers_may_have_their_norms_in_the_matrices():
    plain, folded = layer_weights(), {**layer_weights(), "norm": None, "next_norm": None}
    layer = sinter.torch.BetweenAttentions(**folded)
    assert [info.shape for info in layer.chain.buffers(5)] == [
        (5, 128), (5, 64), (64, 128), (96, 64), (96, 64), (64, 96), (192, 64), (5, 64), (5, 192)
    ]
    one = sinter.torch.BetweenAttentions(**{**plain, "norm": None})
    assert len({layer._key, one._key, sinter.torch.BetweenAttentions(**plain)._key}) == 3


def test_layers_of_equal_shapes_share_a_chain():
    weights = layer_weights()
    apart = {**weights, "gate_up": tuple(weights["gate_up"].chunk(2))}
    keys = [sinter.torch.BetweenAttentions(**given)._key for given in (weights, apart, layer_weights(columns=200))]
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    "change, said",
    [
        (dict(norm=torch.ones(65).bfloat16()), r"norm has shape \(65,\), not \(64,\)"),
        (dict(down=torch.ones(64).bfloat16()), "norms have one axis"),
        (dict(next=torch.ones(192, 65).bfloat16()), r"next has shape \(192, 65\), not"),
        (dict(o=torch.ones(64, 128)), "o is torch.float32"),
        (dict(down=torch.ones(96, 64).bfloat16().T), "down has strides"),
        (dict(act="tanh"), "act is 'tanh'"),
        (dict(eps="x"), "eps"),
        (dict(eps=0), "eps is 0, must be more than 0"),
        (dict(pdl="no"), "pdl is 'no', neither True nor False"),
    ],
)
def test_layers_name_what_does_not_fit(change, said):
    with pytest.raises((sinter.Error, TypeError), match=said):
        sinter.torch.BetweenAttentions(**{**layer_weights(), **change})


def test_layers_are_prepared_on_a_gpu():
    layer = sinter.torch.BetweenAttentions(**layer_weights())
    with pytest.raises(sinter.Error, match="the weights are on cpu"):
        layer.prepare([1])
    with pytest.raises(sinter.Error, match=r"sizes\[1\]"):
        layer.prepare([1, 0])


def test_any_chain_has_a_fake():
    from torch._subclasses.fake_tensor import FakeTensorMode

    b = sinter.Builder()
    x, r = b.input("bf16", (sinter.M, 64)), b.input("bf16", (sinter.M, 64))
    chain = b.finish((x + r).cast("bf16"), (x * r).sum(1))
    key = sinter.torch.register_chain(chain)
    mode = FakeTensorMode()
    with mode:
        values = [torch.empty(9, 64, dtype=torch.bfloat16, device="cuda") for _ in range(2)]
        total, dots = torch.ops.sinter.run(values, key)
    assert total.shape == (9, 64) and total.dtype == torch.bfloat16
    assert dots.shape == (9,) and dots.dtype == torch.float32
    with mode, pytest.raises(sinter.Error, match="no chain 00 is registered"):
        torch.ops.sinter.run(values, "00")


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_without_a_break(dynamic):
    gate, up, down = weights()

    def step(x):
        return torch.ops.sinter.gated_mlp_split(x * 2, gate, up, down) + 1

    compiled = torch.compile(step, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for rows in (3, 5):
        x = torch.randn(rows, 64).bfloat16()
        assert torch.equal(compiled(x), step(x))


BAD = {
    r"gate_up has shape \(255, 64\), not \(256, 64\)": lambda x, g, d: (x, g[:255], d),
    "down has rank 1": lambda x, g, d: (x, g, d[0]),
    "x has rank 0": lambda x, g, d: (x[0, 0], g, d),
    "gate_up is torch.bfloat16 on cpu, x is torch.float32": lambda x, g, d: (x.float(), g, d),
    "strides": lambda x, g, d: (x, torch.cat([g, g], 1)[:, ::2], d),
    r"gate_up has shape \(256, 64\), not \(256, 65\)": lambda x, g, d: (torch.cat([x, x[:, :1]], 1), g, d),
}


@pytest.mark.parametrize("message", BAD)
def test_bad_tensors_are_named(message):
    gate, up, down = weights()
    with pytest.raises(sinter.Error, match=message):
        sinter.torch.gated_mlp(*BAD[message](torch.randn(3, 64).bfloat16(), torch.cat([gate, up]), down))


def test_bad_words_are_named():
    gate, up, down = weights()
    x = torch.randn(3, 64).bfloat16()
    with pytest.raises(sinter.Error, match="act is 'tanh'; there are silu"):
        sinter.torch.gated_mlp_split(x, gate, up, down, "tanh")
    with pytest.raises(sinter.Error, match="dtype is torch.float32"):
        sinter.torch.gated_mlp_split(x.float(), gate.float(), up.float(), down.float())
    with pytest.raises(sinter.Error, match="act is 3; there are silu"):
        sinter.torch.gated_mlp(x, torch.cat([gate, up]), down, 3)
    with pytest.raises(sinter.Error, match="chain is '.ud800', which is no key"):
        sinter.torch.run("\ud800", x)
    with pytest.raises(sinter.Error, match="on_miss is 'wait'"):
        sinter.torch.configure(on_miss="wait")
    with pytest.raises(sinter.Error, match=r"sizes\[0\] is 0"):
        sinter.torch.configure(sizes=[0])
    with pytest.raises(TypeError):
        sinter.torch.replace_mlp("model")
    with pytest.raises(sinter.Error, match="drives no GPU"):
        with sinter.Context(target="h200", cache_dir="") as context:
            sinter.torch.use_context(context)


WRONG = {
    r"context is a NoneType, not a sinter.Context": lambda: sinter.torch.use_context(None),
    r"sizes is 8, not a sequence": lambda: sinter.torch.configure(sizes=8),
    r"silu_and_mul is a int": lambda: sinter.torch.configure(silu_and_mul=3),
    r"model is a str": lambda: sinter.torch.prepare_model("m", [8]),
    r"model is a str, not": lambda: sinter.torch.restore_mlp("m"),
    r"sizes is 8": lambda: sinter.torch.BetweenAttentions(**layer_weights()).prepare(8),
    r"chain is a NoneType": lambda: sinter.torch.register_chain(None),
    r"chain is a int": lambda: sinter.torch.run(3, torch.ones(2)),
    r"o is a NoneType, not a tensor": lambda: sinter.torch.BetweenAttentions(**{**layer_weights(), "o": None}),
    r"gate_up is a NoneType": lambda: sinter.torch.BetweenAttentions(**{**layer_weights(), "gate_up": None}),
    r"x is a NoneType, not a tensor": lambda: sinter.torch.gated_mlp(None, torch.ones(2, 2), torch.ones(2, 1)),
    r"gate_up is a int, not a tensor": lambda: sinter.torch.gated_mlp(torch.ones(2, 2), 3, torch.ones(2, 1)),
    r"down is a NoneType, not a tensor": lambda: torch.ops.sinter.gated_mlp(torch.ones(2, 2), torch.ones(2, 2), None),
    r"up is a NoneType, not a tensor": lambda: sinter.torch.gated_mlp_split(*[torch.ones(2, 2)] * 2, None, torch.ones(2, 2)),
    r"input 1 is a NoneType, not a tensor": lambda: sinter.torch.run("00", torch.ones(2), None),
    r"attended is a NoneType, not a tensor": lambda: sinter.torch.BetweenAttentions(**layer_weights())(None, torch.ones(2, 64)),
    r"stream is a NoneType, not a tensor": lambda: torch.ops.sinter.between_attentions(torch.ones(2), None, [torch.ones(2)] * 6, 1e-6),
    r"context is a int, not a sinter.Context": lambda: sinter.torch.prepare_model(torch.nn.Linear(1, 1), [1], context=3),
    r"gate_up is a tuple": lambda: sinter.torch.BetweenAttentions(**{**layer_weights(), "gate_up": (torch.ones(2),)}),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_types_are_named(message):
    with pytest.raises(TypeError, match=message):
        WRONG[message]()


def test_declared_strides_are_kept(monkeypatch):
    """Strides of inputs that a chain declares as not contiguous, and of outputs in a graph."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    b = sinter.Builder()
    x, w = b.input("bf16", (sinter.M, 64)), b.constant("bf16", (64, 32), strides=(1, 64))
    y = (x @ w).cast("bf16")
    b.output(y, strides=(48, 1))
    b.output((y * 2).cast("bf16"), strides=(1, "M"))
    chain, seen = b.finish(), []
    plan = lambda *inputs, pdl: seen.append([value.stride() for value in inputs])
    monkeypatch.setattr(registered_chain.store, "find_chain", lambda *asked: plan)
    with FakeTensorMode():
        column_major = torch.empty(32, 64, dtype=torch.bfloat16, device="cuda").t()
        padded = torch.empty(5, 128, dtype=torch.bfloat16, device="cuda")[:, :64]
        registered_chain._run_cuda([padded, column_major], sinter.torch.register_chain(chain))
    assert seen == [[(64, 1), (1, 64)]]
    outputs = registered_chain._run_fake([torch.empty(5, 64).bfloat16(), torch.empty(32, 64).t()], chain.digest)
    assert [(tuple(value.shape), value.stride()) for value in outputs] == [((5, 32), (48, 1)), ((5, 32), (1, 5))]


def test_what_is_on_the_host_is_named():
    key = sinter.torch.register_chain(sinter.Chain.of(SMALL))
    with pytest.raises(sinter.Error, match="input 0 is on the host"):
        sinter.torch.run(key, torch.ones(3, 64).bfloat16())
    with pytest.raises(sinter.Error, match="without inputs"):
        sinter.torch.run(key)
    layer = sinter.torch.BetweenAttentions(**layer_weights())
    with pytest.raises(sinter.Error, match="input 0 is on the host"):
        layer(torch.ones(3, 128).bfloat16(), torch.ones(3, 64).bfloat16())
    with pytest.raises(sinter.Error, match=r"gate_up has shape \(191, 64\)"):
        sinter.torch.BetweenAttentions(**{**layer_weights(), "gate_up": torch.ones(191, 64).bfloat16()})


@pytest.mark.parametrize(
    "message, change",
    [
        (r"stream is torch.bfloat16 \(3, 65\)", lambda a, s, w: (a, torch.ones(3, 65).bfloat16(), w)),
        (r"attended is torch.bfloat16 \(2, 128\)", lambda a, s, w: (a[:2], s, w)),
        (r"attended is torch.float32", lambda a, s, w: (a.float(), s, w)),
        (r"stream has shape \(3,\)", lambda a, s, w: (a, s[:, 0], w)),
        (r"norms have one axis", lambda a, s, w: (a, s, [w[0], w[0], *w[2:]])),
        (r"up has shape \(95, 64\), not \(96, 64\)", lambda a, s, w: (a, s, [*w[:2], w[2][:191], *w[3:]])),
        (r"next has strides", lambda a, s, w: (a, s, [*w[:5], w[5].T.contiguous().T])),
    ],
)
def test_the_operator_of_a_layer_names_what_does_not_fit(message, change):
    with pytest.raises(sinter.Error, match=message):
        torch.ops.sinter.between_attentions(*change(*layer_tensors()), 1e-6)


def test_a_closed_context_is_not_taken(cache_dir, need_compiler):
    path = os.environ.get("FAKE_LIBCUDA")
    if not path:
        pytest.skip("FAKE_LIBCUDA names no fake driver")
    context = sinter.Context(0, driver_path=path, cache_dir=cache_dir)
    context.close()
    with pytest.raises(sinter.Error, match="the Context is closed"):
        sinter.torch.use_context(context)


# ---------------------------------------------------------------- Models


class LlamaMLP(torch.nn.Module):
    """transformers' module, by name and by what it holds."""

    def __init__(self, k=64, n=128, bias=False, act=torch.nn.SiLU):
        super().__init__()
        self.gate_proj = torch.nn.Linear(k, n, bias=bias)
        self.up_proj = torch.nn.Linear(k, n, bias=bias)
        self.down_proj = torch.nn.Linear(n, k, bias=bias)
        self.act_fn = act()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Layer(torch.nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.mlp = LlamaMLP(**options)

    def forward(self, x):
        return x + self.mlp(x)


def model(layers=2, dtype=torch.bfloat16, **options):
    torch.manual_seed(2)
    return torch.nn.Sequential(*[Layer(**options) for _ in range(layers)]).to(dtype).eval()


def test_replaced_models_compute_the_same():
    made = model()
    x = torch.randn(5, 64).bfloat16()
    keys = list(made.state_dict())
    with torch.no_grad():
        before = made(x)
        assert sinter.torch.replace_mlp(made) == ["0.mlp", "1.mlp"] and list(made.state_dict()) == keys
        after = made(x)
        assert (after - before).norm() / before.norm() < 1e-2
        assert torch.equal(torch.compile(made, backend="aot_eager", fullgraph=True)(x), after)
        assert sinter.torch.replace_mlp(made) == []
        assert sinter.torch.restore_mlp(made) == ["0.mlp", "1.mlp"] and torch.equal(made(x), before)


def test_gradients_flow_through_what_was_replaced():
    made = model(1)
    sinter.torch.replace_mlp(made)
    made(torch.randn(5, 64).bfloat16()).sum().backward()
    assert made[0].mlp.gate_proj.weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    "options", [dict(bias=True), dict(act=torch.nn.ReLU), dict(n=100), dict(k=60), dict(dtype=torch.float32)]
)
def test_what_does_not_fit_is_left_alone(options):
    made = model(**options)
    assert sinter.torch.replace_mlp(made) == []
    with pytest.raises(sinter.Error, match="no gated MLP"):
        sinter.torch.prepare_model(made, [1])


@pytest.mark.parametrize("gradients", [False, True])
def test_a_projection_that_is_put_in_later_computes(gradients, context, need_compiler):
    """Such a projection is an adapter's, or another Linear."""
    made, x = model(1), torch.randn(5, 64).bfloat16()
    sinter.torch.replace_mlp(made)
    mlp = made[0].mlp
    plain = torch.nn.Linear(128, 64, bias=False).bfloat16()
    for put in (torch.nn.Sequential(torch.nn.Linear(64, 128, bias=False)).bfloat16(), mlp.gate_proj):
        mlp.gate_proj, mlp.down_proj = put, plain
        with torch.set_grad_enabled(gradients):
            own = mlp.down_proj(torch.nn.functional.silu(mlp.gate_proj(x)) * mlp.up_proj(x))
            assert (mlp(x) - own).norm() / own.norm() < 1e-2
    mlp.gate_proj = torch.nn.Sequential(mlp.gate_proj)
    with pytest.raises(sinter.Error, match="no gated MLP"):
        sinter.torch.prepare_model(made, [1], context=context)
    mlp.train()
    sinter.torch.restore_mlp(made)
    assert made[0].mlp.down_proj is plain and type(made[0].mlp.gate_proj) is torch.nn.Sequential and made[0].mlp.training


def test_models_are_prepared_without_a_gpu(context, need_compiler):
    made = model()
    plans = sinter.torch.prepare_model(made, [1, 8, 8], context=context)
    line = "gated_ffn m=M n=128 k=64 l=64 act=silu layout=oi dtype=bf16"
    assert sorted(plans) == [(line, 1), (line, 8)] and all(len(digest) == 64 for digest in plans.values())
    sinter.torch.replace_mlp(made)
    assert sinter.torch.prepare_model(made, [1, 8], context=context) == plans
    with pytest.raises(sinter.Error, match="UNAVAILABLE.*prepare.measure is 11, but no measured choice is kept"):
        sinter.torch.prepare_model(made, [1], context=context, measure=11)
    with pytest.raises(sinter.Error, match="measure is 65"):
        sinter.torch.prepare_model(made, [1], context=context, measure=65)
    for sizes, message in (([], "sizes is empty"), ([0], "sizes"), ([2**40], "sizes")):
        with pytest.raises(sinter.Error, match=message):
            sinter.torch.prepare_model(made, sizes, context=context)
    with pytest.raises(sinter.Error, match="the model is on cpu, not on a GPU"):
        sinter.torch.prepare_model(made, [1])


def test_transformers_models_are_taken():
    transformers = pytest.importorskip("transformers")
    shape = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4)
    shape.update(num_key_value_heads=2, vocab_size=128, head_dim=16)
    for config, kind in (
        (transformers.LlamaConfig, transformers.LlamaForCausalLM),
        (transformers.Qwen3Config, transformers.Qwen3ForCausalLM),
    ):
        torch.manual_seed(3)
        made = kind(config(**shape)).bfloat16().eval()
        tokens = torch.randint(0, 128, (2, 7))
        with torch.no_grad():
            exact = made.float()(tokens).logits
            eager = made.bfloat16()(tokens).logits
            assert sinter.torch.replace_mlp(made) == ["model.layers.0.mlp", "model.layers.1.mlp"]
            ours = made(tokens).logits
        error = lambda logits: (logits.float() - exact).norm() / exact.norm()
        assert error(ours) <= 1.2 * error(eager)


# ---------------------------------------------------------------- How plans are found


class FakeContext:
    """Counts what is prepared."""

    device = 0
    must_hit = False
    _get = lambda self: None
    _workspaces = type("W", (), {"reserve": lambda self: None})()

    def __init__(self):
        self.prepared, self.measured = [], []
        self.fails = None

    def prepare(self, line, m):
        return self.prepare_many([line], [m])[0]

    def prepare_many(self, chains, ms, measure=0):
        if self.fails is not None:
            raise self.fails
        self.prepared += ms
        self.measured.append(measure)
        return [type("Plan", (), {"digest": f"{m}", "context": self})() for m in ms]


@pytest.fixture
def store(monkeypatch):
    made = store_module.Store()
    made.fake = FakeContext()
    made.use(made.fake)
    made.capturing = False
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: made.capturing)
    return made


LINE = "gated_ffn m=M n=128 k=64 l=64 act=silu dtype=bf16"


def test_plans_are_made_once_for_each_size(store):
    assert store.find(0, LINE, 5) is store.find(0, LINE, 5) and store.fake.prepared == [5]
    store.prepare(store.fake, [LINE], [8, 32])
    assert store.find(0, LINE, 7).digest == "8" and store.find(0, LINE, 9).digest == "32"
    assert store.find(0, LINE, 33).digest == "33" and store.fake.prepared == [5, 8, 32, 33]


def test_plans_that_measuring_chose_take_the_place_of_others(store):
    store.prepare(store.fake, [LINE], [8, 32])
    before = [store.find(0, LINE, rows) for rows in (7, 8, 30)]
    store.prepare(store.fake, [LINE], [8], measure=11)
    after = [store.find(0, LINE, rows) for rows in (7, 8, 30)]
    assert store.fake.measured == [0, 11] and after[0] is after[1] is not before[1] and after[2] is before[2]
    chain = sinter.Chain.from_text(LINE)
    first, other = store.prepare_chain(0, chain, "key", [8]), store.prepare_chain(0, chain, "key", [8])
    assert first == other != store.prepare_chain(0, chain, "key", [8], 11) == [store.find_chain(0, chain, "key", 8)]
    assert store.fake.measured == [0, 11, 0, 11]


def test_configured_sizes_are_prepared_at_first_sight(store):
    store.settings = store_module.Settings((8, 32), "torch")
    assert store.find(0, LINE, 9).digest == "32" and store.fake.prepared == [8, 32]
    assert store.find(0, LINE, 33) is None and store.fake.prepared == [8, 32]


def test_a_capture_prepares_nothing(store):
    store.capturing = True
    with pytest.raises(sinter.Error) as caught:
        store.find(0, LINE, 5)
    assert caught.value.code == sinter.Status.STREAM_CAPTURING and "prepared sizes: none" in caught.value.message
    store.prepare(store.fake, [LINE], [8])
    assert store.find(0, LINE, 5).digest == "8"
    with pytest.raises(sinter.Error, match="for 9 rows.*prepared sizes: 8"):
        store.find(0, LINE, 9)
    store.settings = store_module.Settings((), "torch")
    assert store.find(0, LINE, 9) is None


def test_what_is_refused_is_asked_once(store, caplog):
    store.fake.fails = sinter.Error(sinter.Status.NO_LEGAL_PLAN, "no family")
    with pytest.raises(sinter.Error, match="no family"):
        store.find(0, LINE, 5)
    store.fake.fails = None
    with pytest.raises(sinter.Error, match="no family"):
        store.find(0, LINE, 5)
    store.settings = store_module.Settings((8,), "torch")
    with caplog.at_level(logging.WARNING, "sinter"):
        assert store.find(0, LINE, 5) is None and store.find(0, LINE, 6) is None
    assert len(caplog.records) == 1 and store.fake.prepared == []


def test_a_passing_failure_is_tried_again(store):
    store.fake.fails = sinter.Error(sinter.Status.RESOURCE_EXHAUSTED, "no memory")
    with pytest.raises(sinter.Error):
        store.find(0, LINE, 5)
    store.fake.fails = None
    assert store.find(0, LINE, 5).digest == "5"


def test_operators_launch_what_was_found(gpu, launchable, monkeypatch):
    """The CUDA implementation on host memory: the fake driver's kernels read nothing."""
    n, k = 3072, 1024
    asked = []
    monkeypatch.setattr(launch, "current_of_torch", lambda device: 0)
    monkeypatch.setattr(registered_chain.store, "find", lambda device, line, rows: asked.append((line, rows)) or launchable)
    x, gate_up, down = (torch.zeros(shape, dtype=torch.bfloat16) for shape in ((2, 5, k), (2 * n, k), (k, n)))
    before = gpu.stats().launches
    y = gated_mlp._on_gpu(x, (gate_up,), down)
    assert y.shape == (2, 5, k) and gpu.stats().launches == before + 1
    assert asked == [(f"gated_ffn m=M n={n} k={k} l={k} act=silu layout=oi dtype=bf16", 10)]
    gated_mlp._on_gpu(x.transpose(0, 1), (gate_up[:n], gate_up[n:]), down, "silu")
    assert gpu.stats().launches == before + 2
    assert gated_mlp._on_gpu(x[:0], (gate_up,), down).shape == (0, 5, k) and gpu.stats().launches == before + 2
    shifted = torch.zeros(n * k + 8, dtype=torch.bfloat16)[1 : n * k + 1].view(k, n)
    with pytest.raises(sinter.Error, match="buffer 3 is at address .*, which is not aligned"):
        gated_mlp._on_gpu(x, (gate_up,), shifted)


def test_torch_computes_what_no_plan_is_for(monkeypatch):
    monkeypatch.setattr(registered_chain.store, "find", lambda device, line, rows: None)
    gate, up, down = weights()
    gate_up, x = torch.cat([gate, up]), torch.randn(3, 64).bfloat16()
    reference = sinter.torch.gated_mlp(x, gate_up, down)
    near = lambda y: (y.float() - reference.float()).norm() / reference.float().norm() < 2e-2
    assert near(gated_mlp._on_gpu(x, (gate_up,), down)) and near(gated_mlp._on_gpu(x, (gate, up), down))
    calls = []

    def fused(both):
        calls.append(both.shape)
        left, right = both.chunk(2, -1)
        return torch.nn.functional.silu(left) * right

    monkeypatch.setattr(registered_chain.store, "settings", store_module.Settings(silu_and_mul=fused))
    assert near(gated_mlp._on_gpu(x, (gate_up,), down)) and calls == [(3, 256)]


def test_plans_of_chains_are_found(store):
    chain = sinter.Chain.of(LINE)
    found = store.find_chain(0, chain, "key", 5)
    assert store.find_chain(0, chain, "key", 5) is found and store.fake.prepared == [5]
    store.capturing = True
    assert store.find_chain(0, chain, "key", 5) is found
    with pytest.raises(sinter.Error, match="run it once before the capture"):
        store.find_chain(0, chain, "key", 6)


def test_importing_opens_no_driver():
    code = "import sinter.torch, torch, sys; sys.exit('libsinter' in open('/proc/self/maps').read() or torch.cuda.is_initialized())"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_torch_buffers_are_checked(gpu, need_compiler):
    plan = gpu.prepare(SMALL, m=8)
    x, gamma = torch.ones(4, 64).bfloat16(), torch.ones(64).bfloat16()
    with pytest.raises(sinter.Error, match="input 0 .*is on the host, the plan runs on device 0"):
        plan(x, gamma)
    with pytest.raises(sinter.Error, match="requires a gradient"):
        plan(x.requires_grad_(), gamma)
    with torch.no_grad(), pytest.raises(sinter.Error, match="on the host"):
        plan(x, gamma)
    with pytest.raises(sinter.Error, match="torch.float64, which no chain has"):
        plan(gamma.double(), gamma)
    with pytest.raises(sinter.Error, match="not torch.strided"):
        plan(torch.eye(4).to_sparse(), gamma)
    with pytest.raises(sinter.Error, match="is on meta"):
        plan(torch.empty(4, 64, device="meta"), gamma)
