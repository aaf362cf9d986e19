"""Attention through the pass of torch.compile's backend: partitions by the reference, compared with torch's operators, and operators left by name."""

import functools
import json
import math
import pathlib

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

import sinter
import sinter.torch
from sinter.torch.backend import planner
from sinter.torch.convert import attention
from sinter.torch.gate import library_kernels, measure
from sinter.torch.runtime import eager, run_chain, verify
from sinter.torch.partition.supported import OF_F32
from sinter.torch.gate.sizes import plain_hint

from everyday import sampled
from graphs import DEVICE, passed
from test_torch_backend import half, left, run

N, F = torch.nn, torch.nn.functional


class Attending(N.Module):
    """A layer's attention, from a residual to a residual. `attend`: (q, k, v) of [batch, heads, rows, width] to the same."""

    def __init__(self, attend=F.scaled_dot_product_attention, k=64, heads=4, shared=0, packed=False):
        super().__init__()
        self.heads, self.shared, self.attend = heads, shared or heads, attend
        columns = [k, *[k // heads * self.shared] * 2]
        self.norm, self.out = N.LayerNorm(k), N.Linear(k, k)
        self.linears = N.ModuleList(N.Linear(k, n) for n in ([sum(columns)] if packed else columns))

    def forward(self, x, *terms, of=None):
        b, s, k = x.shape
        y = self.norm(x)
        read = y if of is None else of
        if len(self.linears) == 1:
            parts = self.linears[0](y).view(b, s, -1, k // self.heads).split([self.heads, self.shared, self.shared], 2)
        else:
            parts = [f(y if i == 0 else read).view(b, -1, n, k // self.heads) for i, (f, n) in enumerate(zip(self.linears, self.shapes()))]
        y = self.attend(*(part.transpose(1, 2) for part in parts), *terms)
        return x + self.out(y.transpose(1, 2).reshape(b, s, k))

    def shapes(self):
        return self.heads, self.shared, self.shared


def attended(reports):
    """Nodes of attention that parts took."""
    return [node for report in reports for part in report.taken for node in part.nodes if attention.is_attention(node)]


def by_windows(windows, heads, rows):
    """Attention as in Swin: a bias for each head, and a mask for each window; the batch holds all windows several times."""

    def attend(q, k, v, bias, mask):
        spread = mask.view(1, windows, 1, rows, rows).expand(q.shape[0] // windows, -1, heads, -1, -1)
        return F.scaled_dot_product_attention(q, k, v, bias + spread.reshape(-1, heads, rows, rows))

    return attend


def repeated(q, k, v):
    """Attention as in Llama without ``enable_gqa``."""

    def repeat(x):
        b, h, s, d = x.shape
        return x[:, :, None].expand(b, h, q.shape[1] // h, s, d).reshape(b, q.shape[1], s, d)

    return F.scaled_dot_product_attention(q, repeat(k), repeat(v), is_causal=True)


def by_hand(q, k, v, bias):
    """Attention as in timm's Swin."""
    scores = (q * 0.3) @ k.transpose(-2, -1) + bias
    return scores.softmax(-1) @ v


def divided(q, k, v, bias):
    """Attention as in transformers' eager implementation."""
    scores = torch.matmul(q, k.transpose(2, 3)) / 4 + bias
    return F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype) @ v


def by_einsum(q, k, v):
    """Attention of [batch, heads, rows, width], as einops writes it: axes of 1 around each product."""
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * 0.25
    return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)


def by_einsum_with_bias(q, k, v, bias):
    scores = torch.einsum("bhid,bhjd->bhij", q, k) / 4 + bias
    return torch.einsum("bhij,bhjd->bhid", scores.softmax(-1), v)


def soft_capped(q, k, v, bias=None):
    """Attention as in Gemma 2, with its mask as a bias."""
    scores = torch.matmul(q, k.transpose(2, 3)) * 0.25
    scores = torch.tanh(scores / 30) * 30
    return F.softmax(scores if bias is None else scores + bias, dim=-1, dtype=torch.float32).to(q.dtype) @ v


def by_distance(q, k, v, slopes):
    """Attention with linear biases (ALiBi): a slope of each head times the distance in keys."""
    at = torch.arange(k.shape[2], device=k.device, dtype=torch.float32)
    far = at[None, :] - at[: q.shape[2], None]
    scores = (q @ k.transpose(-2, -1)).float() * 0.25 + slopes.view(-1, 1, 1) * far
    return scores.softmax(-1).to(q.dtype) @ v


def capped_near(q, k, v, slopes):
    """Scores capped, then by distance, then hidden from 20 keys before on, as a score_mod of FlexAttention writes them."""
    at = torch.arange(k.shape[2], device=k.device, dtype=torch.float32)
    far = at[None, :] - at[: q.shape[2], None]
    scores = torch.tanh((q @ k.transpose(-2, -1)).float() / 8) * 8 + slopes.view(-1, 1, 1) * far
    return torch.where((far <= 0) & (far > -20), scores, -math.inf).softmax(-1).to(q.dtype) @ v


def interleaved(q, k, v):
    return F.scaled_dot_product_attention(q, *(x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v)))


X = torch.randn(4, 6, 64).bfloat16()
KEYS = torch.ones(4, 1, 1, 6).bool()
KEYS[1, ..., 4:] = False
SEEN = KEYS & torch.ones(6, 6).bool().tril()
SEEN[2, :, :2] = False  # rows that see no key, as with pads on the left
FORMS = {
    "plain": (Attending(), (X,), ""),
    "packed": (Attending(packed=True), (X,), ""),
    "packed_groups": (Attending(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True), shared=2, packed=True), (X,), ""),
    "causal": (Attending(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.3)), (X,), ""),
    "keys": (Attending(), (X, KEYS), "select"),
    "no_key": (Attending(), (X, SEEN), "select"),
    "bias": (Attending(), (X, torch.randn(1, 4, 6, 6).bfloat16()), "add"),
    "bias_of_rows": (Attending(), (X, torch.randn(6, 6).bfloat16()), "add"),
    "infinite": (Attending(), (X, torch.zeros(4, 1, 6, 6).bfloat16().masked_fill(~SEEN, -math.inf)), "add"),
    "windows": (Attending(by_windows(2, 4, 6)), (X, torch.randn(1, 4, 6, 6).bfloat16(), torch.randn(2, 6, 6).bfloat16()), "add"),
    "biased_and_masked": (Attending(lambda q, k, v, b, m: F.scaled_dot_product_attention(q, k, v, b.masked_fill(~m, -math.inf))), (X, torch.randn(1, 4, 6, 6).bfloat16(), KEYS), "select"),
    "groups": (Attending(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True), shared=2), (X,), ""),
    "repeated": (Attending(repeated, shared=2), (X,), ""),
    "interleaved": (Attending(interleaved, shared=2), (X,), ""),
}


@functools.cache
def taken(name):
    """The model and the reports of a form."""
    model, inputs, _ = FORMS[name]
    return model, run(half(model)[0], *inputs)[1]


@pytest.mark.parametrize("name", FORMS)
def test_attention_is_one_part_with_its_projections(name):
    model, reports = taken(name)
    term = FORMS[name][2]
    (part,) = reports[0].taken
    assert len(attended(reports)) == 1 and not left(reports), left(reports)
    assert str(part.made.chain).count("matmul") == 3 + (2 if len(model.linears) == 1 else 4) - 1
    assert term in str(part.made.chain)


def wide(name):
    """A form with rows enough for a kernel of attention."""
    x = torch.randn(4, 80, 256).bfloat16()
    keys = torch.ones(4, 1, 1, 80).bool()
    bias, mask = torch.randn(1, 4, 80, 80).bfloat16(), torch.randn(2, 80, 80).bfloat16()
    attend, given, more = {
        "plain": (F.scaled_dot_product_attention, (), {}),
        "packed": (F.scaled_dot_product_attention, (), {"packed": True}),
        "keys": (F.scaled_dot_product_attention, (keys,), {}),
        "windows": (by_windows(2, 4, 80), (bias, mask), {}),
        "repeated": (repeated, (), {"shared": 2}),
        "interleaved": (interleaved, (), {"shared": 2}),
        "by_hand": (by_hand, (bias[0],), {}),
        "divided": (divided, (bias,), {}),
        "einsum": (by_einsum, (), {}),
        "einsum_with_bias": (by_einsum_with_bias, (bias,), {}),
        "soft_capped": (soft_capped, (), {}),
        "soft_capped_with_bias": (soft_capped, (bias,), {}),
        "by_distance": (by_distance, (0.5 ** torch.arange(4.0),), {}),
        "capped_near": (capped_near, (0.5 ** torch.arange(4.0),), {}),
    }[name]
    return half(Attending(attend, k=256, **more))[0], (x, *given)


WIDE = ["plain", "packed", "keys", "windows", "repeated", "interleaved", "by_hand", "divided", "einsum", "einsum_with_bias"]
MADE = ["soft_capped", "soft_capped_with_bias", "by_distance", "capped_near"]


@pytest.mark.parametrize("name", [*sampled(WIDE, 4), *MADE])
def test_a_kernel_of_attention_reads_what_projections_give_as_it_lies(name, context, need_compiler):
    """No copy, no bias in memory, no keys for each head: a norm, products, attention, and the last product with its residual."""
    model, inputs = wide(name)
    _, reports = run(model, *inputs)
    (part,) = reports[0].taken
    told = context.prepare(part.made.chain).explain()
    assert told.count("attention") and context.prepare(part.made.chain).kernel_count <= (4 if len(model.linears) == 1 else 6), told


def test_attention_by_products_is_one_part_with_the_last_projection():
    """No op of its chain is left that no output needs."""

    class Layer(N.Module):
        def __init__(self):
            super().__init__()
            self.norm, self.packed, self.out = N.LayerNorm(64), N.Linear(64, 192), N.Linear(64, 64)

        def forward(self, x):
            q, k, v = self.packed(self.norm(x)).view(4, 6, 3, 4, 16).permute(2, 0, 3, 1, 4).unbind()
            y = (q * 0.25 @ k.transpose(-2, -1)).softmax(-1) @ v
            return x + self.out(y.transpose(1, 2).reshape(4, 6, 64))

    _, reports = run(half(Layer())[0], X)
    (part,) = reports[0].taken
    assert str(part.made.chain).count("matmul") == 4 and not left(reports), left(reports)


def test_probabilities_that_others_read_are_left_to_torch():
    class Told(N.Module):
        def forward(self, q, k, v):
            p = (q @ k.transpose(-2, -1) * 0.3 + 1).softmax(-1)
            return (p @ v).relu() + p.sum(-1, keepdim=True)

    q = torch.randn(2, 4, 49, 32).bfloat16()
    _, reports = run(Told(), q, q.clone(), q.clone())
    assert left(reports)["aten.bmm.default"] == "a batched product"


def half_turned(x, by=-1.0):
    """A rotation as in rotary embeddings: the second half, times a number, comes before the first."""
    first, second = x.chunk(2, -1)
    return torch.cat([second * by, first], -1)


#: q and k of [batch, heads, rows, width], of which a number multiplies a part.
PARTLY_SCALED = {
    "part_of_q": lambda q, k: (torch.cat([q[..., :16] * 0.125, q[..., 16:].relu()], -1), k),
    "half_turned": lambda q, k: (half_turned(q), k),
    "both_turned": lambda q, k: (half_turned(q), half_turned(k, -2.0)),
    "new_keys": lambda q, k: (q, torch.cat([k[:, :, :40], k[:, :, 40:] * 0.125], 2)),
    "two_parts": lambda q, k: (torch.cat([q[..., :16] * 0.25, q[..., 16:] * 0.25], -1), k),
    "divided": lambda q, k: (torch.cat([q[..., :16] / 8, q[..., 16:]], -1), k),
    "one_tensor": lambda q, k: ((scaled := q * 0.25), scaled),
    "viewed": lambda q, k: ((q * 0.25).transpose(1, 2).contiguous().transpose(1, 2), k),
}


@pytest.mark.parametrize("name", sampled(PARTLY_SCALED, 4))
def test_a_number_that_multiplies_a_part_of_q_or_k_multiplies_no_more(name):
    class By(N.Module):
        def forward(self, q, k, v):
            q, k = PARTLY_SCALED[name](q, k)
            return (q @ k.transpose(-2, -1) + 1).softmax(-1) @ v

    torch.manual_seed(5)
    given = [torch.randn(2, 4, 80, 32).bfloat16() for _ in range(3)]
    _, reports = run(By(), *given)
    products = [node for part in reports[0].taken for node in part.nodes if node.meta.get("sinter_attention") == 1]
    assert len(products) == 1, left(reports)


def test_equal_layers_are_equal_parts():
    class Layer(N.Module):
        def __init__(self):
            super().__init__()
            self.attending, self.norm, self.inner, self.outer = Attending(), N.LayerNorm(64), N.Linear(64, 128), N.Linear(128, 64)

        def forward(self, x):
            y = self.attending(x)
            return y + self.outer(F.gelu(self.inner(self.norm(y))))

    _, reports = run(half(*[Layer() for _ in range(6)]), X)
    chains = [part.made.chain.digest for part in reports[0].taken]
    assert len(attended(reports)) == len(chains) == 6 and len(set(chains)) <= 3, chains


@pytest.fixture
def slow_kernels_of_torch(monkeypatch):
    """The gate takes what plans: which attention PyTorch has for a graph depends on the machine."""
    monkeypatch.setattr(planner, "attention_us", lambda *_: 1e9)
    monkeypatch.setattr(planner, "inductor_us", lambda *_: 1e9)


# ---------------------------------------------------------------- Symbolic sizes, gradients


def test_a_batch_alone_may_be_m():
    model = half(Attending(packed=True), N.LayerNorm(64))
    x = X.clone()
    torch._dynamo.mark_dynamic(x, 0)
    with torch.no_grad():
        compiled, reports = passed(model.to(DEVICE))
        for batch in (4, 3, 9):
            x = torch.randn(batch, 6, 64).bfloat16().to(DEVICE)
            torch._dynamo.mark_dynamic(x, 0)
            assert verify.difference(compiled(x), model(x), 2e-2)[1]
    assert all(c.within for c in verify.comparisons)
    (part,) = [part for part in reports[0].taken if any(map(attention.is_attention, part.nodes))]
    assert part.made.chain.uses_m and len(part.nodes) == 2, "beside projections whose rows are those of all tokens"


def test_rows_that_are_symbolic_stay_torchs():
    _, reports = run(half(Attending())[0], X, dynamic=True)
    of_attention = {why for name, why in left(reports).items() if "_scaled_dot_product" in name}  # whichever of PyTorch's it is
    assert of_attention == {"attention whose number of rows is symbolic"}, left(reports)


def test_attention_of_training_stays_torchs():
    model = half(Attending())[0].to(DEVICE)
    compiled, reports = passed(model)
    compiled(X.to(DEVICE)).float().sum().backward()
    assert not attended(reports) and "attention of which more than its values is read, as gradients need it" in left(reports).values()
    assert all(c.within for c in verify.comparisons)


# ---------------------------------------------------------------- What is left


def node_of(name, q=(2, 4, 6, 16), k=None, v=None, dtype=torch.bfloat16, arguments=(), **named):
    """A node of attention, as a graph of a GPU has it."""
    graph = torch.fx.Graph()

    def value(label, shape):
        node = graph.placeholder(label)
        node.meta["val"] = torch.empty(shape, dtype=dtype, device="meta")
        return node

    target = getattr(torch.ops.aten, name.split(".")[1]).default
    operands = [value(label, shape) for label, shape in (("q", q), ("k", k or q), ("v", v or k or q))]
    node = graph.call_function(target, (*operands, *arguments), named)
    node.meta["val"] = (torch.empty(q, dtype=dtype, device="meta"), None)
    return node


@pytest.mark.parametrize(
    "node, why",
    [
        (node_of(attention.FLASH), None),
        (node_of(attention.EFFICIENT, arguments=(None, False)), None),
        (node_of(attention.CUDNN, arguments=(None, False), scale=2.0), None),
        (node_of(attention.FLASH, k=(2, 2, 9, 16)), None),
        (node_of(attention.FLASH, arguments=(0.1,)), "attention with dropout"),
        (node_of(attention.EFFICIENT, dtype=torch.float32, arguments=(None, False)), "attention of float32"),
        (node_of(attention.FLASH, q=(2, 4, 6, 36)), "attention with heads of 36, which must be a multiple of 8 up to 128"),
        (node_of(attention.FLASH, q=(2, 4, 6, 192)), "attention with heads of 192, which must be a multiple of 8 up to 128"),
        (node_of(attention.FLASH, k=(2, 3, 6, 16)), "attention of 4 heads with 3 of keys"),
        (node_of(attention.FLASH, k=(2, 4, 9, 16), arguments=(0.0, True)), "causal attention that ends at the last key"),
        (node_of(attention.EFFICIENT, k=(2, 4, 9, 16), arguments=(None, False, 0.0, True)), None),
    ],
)
def test_what_no_kernel_takes_is_named(node, why):
    assert attention.why_not_attention(node) == why


def test_explain_says_why_attention_is_left(slow_kernels_of_torch):
    model = half(Attending(k=160), Attending(k=576))  # heads of 40 and 144
    model[1].norm, model[1].linears = N.LayerNorm(160), N.ModuleList(N.Linear(160, 576) for _ in range(3))
    model[1].out = N.Linear(576, 160)
    page = str(sinter.torch.explain(Both(model.bfloat16()).to(DEVICE), torch.randn(8, 512, 160).bfloat16().to(DEVICE)))
    taken, _, told = page.partition("left to Inductor:")
    assert taken.count("attention") == 1 and "attention with heads of 144, which must be a multiple of 8 up to 128" in told, page


class Both(N.Module):
    """Heads of 40 columns, then of 144."""

    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        x, second = self.layers[0](x), self.layers[1]
        q, k, v = (f(second.norm(x)).view(*x.shape[:2], 4, 144).transpose(1, 2) for f in second.linears)
        return x + second.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(*x.shape[:2], 576))


# ---------------------------------------------------------------- Rows that see no key


@pytest.mark.parametrize("hidden, sees", [(-math.inf, False), (torch.finfo(torch.bfloat16).min, False), (-1e38, True)])
def test_a_row_that_is_hidden_by_the_least_number_is_0_as_pytorchs_kernels_have_it(hidden, sees, slow_kernels_of_torch):
    q = torch.randn(2, 4, 80, 64).bfloat16()
    bias = torch.zeros(2, 1, 80, 80).bfloat16()
    bias[0, :, 7], bias[1, :, :, 50:] = hidden, hidden
    with torch.no_grad():
        compiled, reports = passed(F.scaled_dot_product_attention, {"verify": False})
        compiled(*(x.to(DEVICE) for x in (q, q.clone(), q.clone(), bias)))
    (part,) = reports[0].taken
    (found,) = run_chain.by_reference(part.made.chain, [q, q, q, bias], 0)
    row = found.view(2, 4, 80, 64)[0, :, 7].float()
    assert verify.difference(row, q[0].float().mean(1) if sees else torch.zeros_like(row), 2e-2)[1]
    shown = found.view(2, 4, 80, 64)[1]
    assert verify.difference(shown, F.scaled_dot_product_attention(q[1:], q[1:], q[1:], bias[1:])[0], 2e-2)[1]


# ---------------------------------------------------------------- The gate


def test_attention_that_pytorch_computes_sooner_is_left(slow_kernels_of_torch, monkeypatch):
    monkeypatch.setattr(planner, "attention_us", lambda *_: 0.5)
    page = sinter.torch.explain(half(Attending(k=256)).to(DEVICE), torch.randn(8, 200, 256).bfloat16().to(DEVICE))
    assert page.taken and any("PyTorch's attention 0.5 us" in why for _, why in page.left), str(page)


def test_the_gate_knows_what_was_measured():
    path = pathlib.Path(__file__).parents[3] / "tests/bench/results/h100-2026-11-27-61e2467-attention.json"
    if not path.exists():
        pytest.skip("what was measured is not beside this test, as in a bundle")
    with sinter.Context(target="h100") as h100:
        figures = h100.describe()["model"]
    names = {"flash": attention.FLASH, "efficient": attention.EFFICIENT, "cudnn": attention.CUDNN}
    seen = 0
    for row in json.loads(path.read_text())["rows"]:
        if "case" not in row:
            continue
        q, k = ((row["batch"], row["heads"], row[rows], row["width"]) for rows in ("rows", "keys"))
        for backend, name in names.items():
            if backend in row["us"]:
                node = node_of(name, q, k, is_causal=row["term"] == "causal", **({} if backend == "flash" else {"attn_bias": None, "compute_log_sumexp": False}))
                if row["term"] in ("mask", "bias"):
                    node.update_kwarg("attn_bias", node.args[0])
                ratio = library_kernels.attention_us(node, figures, plain_hint) / row["us"][backend]
                assert (0.35 if backend == "cudnn" else 0.75) < ratio < 1.3, (row["case"], backend, ratio)
                seen += 1
    assert seen == 10 + 15 + 15


# ---------------------------------------------------------------- Torch in a plan's place


@pytest.mark.parametrize("name", FORMS)
def test_torch_computes_a_part_by_its_own_attention(name, monkeypatch):
    _, reports = taken(name)
    chain = reports[0].taken[0].made.chain
    given = measure.drawn(chain, 0, "cpu")
    for i, x in enumerate(given):
        if x.dtype == torch.bool and x.dim() > 1:
            x[...] = True
            x[..., 0] = False
    calls, own = [], F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda *args, **named: calls.append(1) or own(*args, **named))
    found, expected = eager.by_torch(chain)(given, 0), run_chain.by_reference(chain, given, 0)
    assert calls == [1] and all(verify.difference(a, b, 2e-2)[1] for a, b in zip(found, expected))


# ---------------------------------------------------------------- Models


class First(N.Module):
    """The first result of a model of transformers."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        return self.model(*inputs)[0]


def bert(transformers):
    sizes = dict(hidden_size=64, intermediate_size=128, num_attention_heads=4, vocab_size=512, max_position_embeddings=32)
    mask = torch.ones(2, 16).long()
    mask[1, 11:] = 0
    return transformers.BertModel(transformers.BertConfig(num_hidden_layers=2, **sizes)), (torch.randint(0, 500, (2, 16)), mask), 2


def vit(transformers):
    sizes = dict(hidden_size=64, intermediate_size=128, num_attention_heads=4, image_size=64, patch_size=16)
    return transformers.ViTModel(transformers.ViTConfig(num_hidden_layers=2, **sizes)), (torch.randn(2, 3, 64, 64).bfloat16(),), 2


def gpt2(transformers):
    sizes = dict(n_layer=2, n_embd=64, n_head=4, vocab_size=512, n_positions=32, use_cache=False)
    return transformers.GPT2Model(transformers.GPT2Config(**sizes)), (torch.randint(0, 500, (2, 16)),), 2


def llama(transformers):
    sizes = dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, vocab_size=512, use_cache=False)
    return transformers.LlamaModel(transformers.LlamaConfig(**sizes)), (torch.randint(0, 500, (2, 16)),), 2


def whisper(transformers):
    sizes = dict(d_model=64, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=128, decoder_ffn_dim=128, max_source_positions=32, num_mel_bins=16)
    heads = dict(encoder_attention_heads=4, decoder_attention_heads=4, vocab_size=512, use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2)

    class Speech(N.Module):
        def __init__(self):
            super().__init__()
            self.model = transformers.WhisperModel(transformers.WhisperConfig(**sizes, **heads, decoder_start_token_id=1))

        def forward(self, features, ids):
            return self.model(input_features=features, decoder_input_ids=ids)

    return Speech(), (torch.randn(2, 16, 64).bfloat16(), torch.randint(3, 500, (2, 8))), 3


@pytest.mark.parametrize("make", [bert, vit, gpt2, llama, whisper])
def test_models_of_transformers(make):
    transformers = pytest.importorskip("transformers", reason="no transformers here: no whole model has its attention taken")
    torch.manual_seed(1)
    model, inputs, count = make(transformers)
    _, reports = run(First(model).eval().bfloat16(), *inputs)
    if DEVICE == "cuda" and left(reports).get("aten.bmm.default") == OF_F32:
        pytest.skip("torch spells this machine's attention with products of f32")
    assert len(attended(reports)) == count, left(reports)


def test_windows_of_timms_swin():
    timm = pytest.importorskip("timm", reason="no timm here: no Swin has its attention taken")
    torch.manual_seed(1)
    sizes = dict(img_size=32, patch_size=2, window_size=4, embed_dim=32, depths=(2, 2), num_heads=(2, 4), num_classes=0)
    model = timm.models.swin_transformer.SwinTransformer(**sizes).eval().bfloat16()
    _, reports = run(model, torch.randn(2, 3, 32, 32).bfloat16())
    products = [node.meta.get("sinter_attention") for part in reports[0].taken for node in part.nodes]
    assert sorted(filter(None, products)) == [1] * 4 + [2] * 4 or len(attended(reports)) == 4, left(reports)
