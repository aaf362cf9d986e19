"""The servers' plugins against stand-ins of the interfaces that they use."""

import logging
import pathlib
import sys
import types

import pytest

torch = pytest.importorskip("torch")

import sinter
import sinter.torch
from sinter.torch import servers
from sinter.torch.runtime import store

# Next to the package, in the source tree or in a bundle.
PLUGINS = pathlib.Path(sinter.__file__).parents[1] / "plugins"
if not PLUGINS.exists():
    pytest.skip("the plugins are installed, or not here", allow_module_level=True)


class LinearMethod:
    def apply(self, layer, x, bias=None):
        return torch.nn.functional.linear(x, layer.weight, bias)


class UnquantizedLinearMethod(LinearMethod):
    pass


class Fp8LinearMethod(LinearMethod):
    pass


class Linear(torch.nn.Module):
    """The attributes that both servers' linear layers have."""

    def __init__(self, inputs, outputs, parts=1, bias=False, method=UnquantizedLinearMethod, dtype=torch.bfloat16, sums=True):
        super().__init__()
        self.input_size, self.input_size_per_partition = inputs, inputs // parts
        self.tp_size, self.reduce_results = parts, sums
        self.quant_method = method()
        weight = torch.randn(outputs, inputs // parts) / 8
        self.weight = torch.nn.Parameter(weight.to(dtype), requires_grad=False)
        self.bias = torch.nn.Parameter(torch.zeros(outputs, dtype=dtype)) if bias else None

    def forward(self, x, forward_batch=None):
        return self.quant_method.apply(self, x, self.bias), None


class ColumnParallelLinear(Linear):
    """One of `parts` has all inputs; of its outputs these."""

    def __init__(self, inputs, outputs, parts=1, **options):
        super().__init__(inputs, outputs, **options)
        self.tp_size = parts


class MergedColumnParallelLinear(ColumnParallelLinear):
    pass


class RowParallelLinear(Linear):
    def forward(self, x, forward_batch=None):
        part, bias = super().forward(x)
        return (all_reduce(part) if self.tp_size > 1 and self.reduce_results else part), bias


class QKVParallelLinear(ColumnParallelLinear):
    pass


def all_reduce(x):
    """vLLM's, over the ranks that test_split_layers has."""
    return sys.modules["vllm.distributed"].tensor_model_parallel_all_reduce(x) if "vllm.distributed" in sys.modules else x


class MergedColumnParallelLinearWithLoRA(torch.nn.Module):
    def __init__(self, base_layer):
        super().__init__()
        self.base_layer, self.weight, self.quant_method = base_layer, base_layer.weight, base_layer.quant_method

    def forward(self, x):
        return self.base_layer(x)


class Mlp(torch.nn.Module):
    def __init__(self, k=64, n=128, parts=1, sums=True, **options):
        super().__init__()
        torch.manual_seed(4)
        self.gate_up_proj = MergedColumnParallelLinear(k, 2 * n // parts, parts=parts, **options)
        self.down_proj = RowParallelLinear(n, k, parts=parts, sums=sums, **options)
        self.own_calls = 0

    def own(self, x):
        self.own_calls += 1
        gate, up = self.gate_up_proj(x)[0].chunk(2, -1)
        return self.down_proj(torch.nn.functional.silu(gate) * up)[0]


class RMSNorm(torch.nn.Module):
    """vLLM's: adds the residual first, where there is one."""

    has_weight, variance_size_override, variance_epsilon = True, None, 1e-5

    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter((torch.rand(size) + 0.5).bfloat16(), requires_grad=False)

    def forward(self, x, residual=None):
        if residual is None:
            return torch.nn.functional.rms_norm(x, x.shape[-1:], self.weight, self.variance_epsilon)
        residual = residual + x
        return self.forward(residual), residual


class Attention(torch.nn.Module):
    def __init__(self, k, parts=1, **options):
        super().__init__()
        self.qkv_proj = QKVParallelLinear(k, 2 * k // parts, parts=parts, **options)
        self.o_proj = RowParallelLinear(k, k, parts=parts, **options)

    def forward(self, positions, hidden_states):
        q, kv = self.qkv_proj(hidden_states)[0].chunk(2, -1)
        return self.o_proj(q * torch.sigmoid(kv))[0]


class Layer(torch.nn.Module):
    def __init__(self, mlp, **options):
        super().__init__()
        self.self_attn, self.mlp = Attention(64, **options), mlp(**{name: options[name] for name in options if name == "parts"})
        self.input_layernorm, self.post_attention_layernorm = RMSNorm(64), RMSNorm(64)

    def forward(self, positions, hidden_states, residual):
        if residual is None:
            residual, hidden_states = hidden_states, self.input_layernorm(hidden_states)
        else:
            hidden_states, residual = self.input_layernorm(hidden_states, residual)
        hidden_states = self.self_attn(positions=positions, hidden_states=hidden_states)
        hidden_states, residual = self.post_attention_layernorm(hidden_states, residual)
        return self.mlp(hidden_states), residual


class Model(torch.nn.Module):
    """The parts of LlamaModel and Qwen2Model that the plugin uses."""

    endpoints = (8192,)

    def __init__(self, mlp, count=3, **options):
        super().__init__()
        torch.manual_seed(5)
        self.layers = torch.nn.ModuleList([Layer(mlp, **options) for _ in range(count)])
        self.norm = RMSNorm(64)
        config = types.SimpleNamespace(cudagraph_capture_sizes=[1, 2, 40], compile_ranges_endpoints=[*self.endpoints])
        load = types.SimpleNamespace(load_format="auto")
        self.vllm_config = types.SimpleNamespace(compilation_config=config, load_config=load, additional_config={})

    def load_weights(self, weights):
        return {name for name, _ in weights}

    def forward(self, positions, hidden_states):
        residual = None
        for layer in self.layers:
            hidden_states, residual = layer(positions, hidden_states, residual)
        return self.norm(hidden_states, residual)[0]

    def __call__(self, *arguments):
        return self.forward(*arguments)


def module(monkeypatch, name, **members):
    made = types.ModuleType(name)
    made.__path__ = []
    for key, value in members.items():
        setattr(made, key, value)
    monkeypatch.setitem(sys.modules, name, made)
    parent, _, child = name.rpartition(".")
    if parent:
        setattr(sys.modules[parent], child, made)
    return made


def pass_manager():
    """The parts of vLLM's InductorPass and PostGradPassManager that the plugin uses."""
    from torch._inductor.custom_graph_pass import CustomGraphPass

    class InductorPass(CustomGraphPass):
        def is_applicable_for_range(self, compile_range):
            return True

    class PostGradPassManager(CustomGraphPass):
        """The caller sets `compile_range`, which vLLM keeps in a context."""

        def __init__(self, compile_range):
            self.passes, self.compile_range = [], types.SimpleNamespace(start=compile_range[0], end=compile_range[1])

        def configure(self, config):
            self.passes += config or ()

        def add(self, pass_):
            assert isinstance(pass_, InductorPass)
            self.passes.append(pass_)

        def __call__(self, graph):
            for pass_ in self.passes:
                if pass_.is_applicable_for_range(self.compile_range):
                    pass_(graph)

        def uuid(self):
            return str([pass_.uuid() for pass_ in self.passes])

    return InductorPass, PostGradPassManager


def samplers(monkeypatch):
    """The samplers of vLLM's two model runners: each draws token 7."""

    class Sampler:
        logprobs_mode, use_fp64_gumbel = "raw_logprobs", False

        def sample(self, logits, expanded_idx_mapping, idx_mapping_np, pos, input_ids, expanded_local_pos, return_logprobs=False):
            return torch.full((len(logits),), 7), logits.float()

    class OlderSampler:
        use_fp64_gumbel = False

        def forward(self, logits, sampling_metadata, predict_bonus_token=False, logprobs_mode_override=None):
            return types.SimpleNamespace(sampled_token_ids=torch.full((len(logits), 1), 7, dtype=torch.int32), logprobs_tensors=None)

    class InputBatch:
        def _make_sampling_metadata(self):
            return self.metadata

    class SamplerOutput(types.SimpleNamespace):
        pass

    for name in ("v1", "v1.worker", "v1.worker.gpu", "v1.worker.gpu.sample", "v1.sample"):
        module(monkeypatch, f"vllm.{name}")
    module(monkeypatch, "vllm.v1.worker.gpu.sample.sampler", Sampler=Sampler)
    module(monkeypatch, "vllm.v1.worker.gpu_input_batch", InputBatch=InputBatch)
    module(monkeypatch, "vllm.v1.sample.sampler", Sampler=OlderSampler)
    module(monkeypatch, "vllm.v1.outputs", SamplerOutput=SamplerOutput)
    return Sampler, OlderSampler, InputBatch


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    monkeypatch.setattr(store.store, "settings", store.Settings())
    for name in ("sinter_vllm", "sinter_sglang"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.fixture
def vllm(monkeypatch):
    """Modules that the plugin imports, as vLLM 0.24 to 0.33 have them."""
    monkeypatch.setattr(Layer, "forward", Layer.forward)  # the plugin assigns it

    class LlamaMLP(Mlp):
        def forward(self, x):
            return self.own(x)

    class Qwen2MLP(Mlp):
        def forward(self, x):
            return self.own(x)

    class LlamaModel(Model):
        def __call__(self, *arguments):
            return super().__call__(*arguments)

        def load_weights(self, weights):
            return super().load_weights(weights)

    class Qwen2Model(Model):
        def __call__(self, *arguments):
            return super().__call__(*arguments)

        def load_weights(self, weights):
            return super().load_weights(weights)

    class Qwen3Model(Qwen2Model):
        pass

    made = module(monkeypatch, "vllm", __version__="0.33.0")
    platform = types.SimpleNamespace(get_device_capability=lambda: (9, 0))
    module(monkeypatch, "vllm.platforms", current_platform=platform)
    for name in ("vllm.model_executor", "vllm.model_executor.models", "vllm.model_executor.layers", "vllm.compilation"):
        module(monkeypatch, name)
    module(monkeypatch, "vllm.distributed", tensor_model_parallel_all_reduce=lambda x: 2 * x)
    sys.modules["vllm.distributed"].get_tensor_model_parallel_world_size = lambda: made.ranks
    made.ranks = 1
    for name in ("vllm.compilation.passes", "vllm.compilation.passes.inductor_pass", "vllm.compilation.passes.pass_manager"):
        module(monkeypatch, name)
    passes = sys.modules["vllm.compilation.passes.inductor_pass"], sys.modules["vllm.compilation.passes.pass_manager"]
    passes[0].InductorPass, passes[1].PostGradPassManager = pass_manager()
    made.PassManager = passes[1].PostGradPassManager
    module(monkeypatch, "vllm.compilation.caching", aot_compile_hash_factors=lambda config: ["own"])
    module(monkeypatch, "vllm.model_executor.layers.layernorm", RMSNorm=RMSNorm)
    module(
        monkeypatch,
        "vllm.model_executor.layers.linear",
        MergedColumnParallelLinear=MergedColumnParallelLinear,
        RowParallelLinear=RowParallelLinear,
        QKVParallelLinear=QKVParallelLinear,
        UnquantizedLinearMethod=UnquantizedLinearMethod,
    )
    module(monkeypatch, "vllm.model_executor.models.llama", LlamaMLP=LlamaMLP, LlamaModel=LlamaModel)
    module(monkeypatch, "vllm.model_executor.models.qwen2", Qwen2MLP=Qwen2MLP, Qwen2Model=Qwen2Model)
    module(monkeypatch, "vllm.model_executor.models.qwen3", Qwen3Model=Qwen3Model)
    monkeypatch.syspath_prepend(str(PLUGINS / "sinter-vllm"))
    made.platform, made.LlamaMLP, made.Qwen2MLP = platform, LlamaMLP, Qwen2MLP
    made.samplers = samplers(monkeypatch)
    made.models = (LlamaModel, LlamaMLP), (Qwen2Model, Qwen2MLP), (Qwen3Model, Qwen2MLP)
    return made


@pytest.fixture
def sglang(monkeypatch):
    """Modules that the plugin imports, as SGLang 0.5.23 has them."""

    class HookType:
        AROUND = "around"

    class HookRegistry:
        hooks = []

        @classmethod
        def register(cls, target, hook, hook_type):
            cls.hooks.append((target, hook, hook_type))

        @classmethod
        def apply(cls, target, original):
            for hooked, hook, kind in cls.hooks:
                if hooked == target:
                    assert kind == HookType.AROUND
                    return lambda *arguments, **named: hook(original, *arguments, **named)

    made = module(monkeypatch, "sglang", __version__="0.5.23")
    for name in ("sglang.srt", "sglang.srt.layers", "sglang.srt.plugins", "sglang.srt.layers.quantization"):
        module(monkeypatch, name)
    linears = dict(MergedColumnParallelLinear=MergedColumnParallelLinear, RowParallelLinear=RowParallelLinear)
    module(monkeypatch, "sglang.srt.layers.linear", **linears)
    module(monkeypatch, "sglang.srt.layers.quantization.unquant", UnquantizedLinearMethod=UnquantizedLinearMethod)
    module(monkeypatch, "sglang.srt.plugins.hook_registry", HookRegistry=HookRegistry, HookType=HookType)
    monkeypatch.syspath_prepend(str(PLUGINS / "sinter-sglang"))
    made.registry = HookRegistry
    return made


def close(ours, own):
    return (ours.float() - own.float()).norm() / own.float().norm() < 1e-2


def test_vllms_mlps_are_replaced(vllm):
    import sinter_vllm

    own = Mlp().own(torch.ones(3, 64).bfloat16())
    sinter_vllm.register()
    sinter_vllm.register()
    for kind in (vllm.LlamaMLP, vllm.Qwen2MLP):
        mlp = kind()
        assert close(mlp(torch.ones(3, 64).bfloat16()), own) and mlp.own_calls == 0
    assert store.store.settings.sizes == servers.SIZES and store.store.settings.on_miss == "torch"


def test_vllms_mlp_is_compiled_in_one_graph(vllm):
    import sinter_vllm

    sinter_vllm.register()
    mlp = vllm.LlamaMLP()
    x = torch.ones(3, 64).bfloat16()
    assert torch.equal(torch.compile(mlp, backend="aot_eager", fullgraph=True)(x), mlp(x)) and mlp.own_calls == 0


def own_and_taken(vllm, kind, mlp, **options):
    """A model's result without the plugin and with it, and the model that was taken."""
    import sinter_vllm

    positions, x = torch.arange(5), torch.randn(5, 64).bfloat16()
    own = Model.__call__(kind(mlp, **options), positions, x)
    sinter_vllm.register()
    taken = kind(mlp, **options)
    return own, taken(positions, x), taken


def test_vllms_layers_are_linked(vllm):
    for kind, mlp in vllm.models:
        own, result, taken = own_and_taken(vllm, kind, mlp)
        assert close(result, own) and not torch.equal(result, own)
        calls = [layer.mlp.own_calls for layer in taken.layers]
        kinds = [type(projection).__name__ for layer in taken.layers for projection in layer.self_attn.children()]
        assert calls == [0, 0, 0]
        assert kinds == ["QKVParallelLinear", "Passed", "Passed", "Passed", "Passed", "RowParallelLinear"]
        assert taken.state_dict().keys() == kind(mlp).state_dict().keys()
        assert store.store.settings.sizes == (1, 8, 48)


def test_linked_layers_are_compiled_in_one_graph(vllm):
    (kind, mlp), *_ = vllm.models
    own, result, taken = own_and_taken(vllm, kind, mlp)
    compiled = torch.compile(taken.forward, backend="aot_eager", fullgraph=True, dynamic=True)
    torch.manual_seed(6)
    for rows in (5, 7):
        x = torch.randn(rows, 64).bfloat16()
        assert torch.equal(compiled(torch.arange(rows), x), taken(torch.arange(rows), x))


def test_a_model_that_is_traced_inside_of_another_is_not_linked(vllm):
    """As vLLM's Ernie4_5ForCausalLM, which is compiled as a whole, and whose decoder is a LlamaModel."""
    import sinter_vllm

    sinter_vllm.register()
    for kind, mlp in vllm.models:
        inner, inputs = kind(mlp), (torch.arange(5), torch.randn(5, 64).bfloat16())
        torch._dynamo.reset()
        outer = torch.compile(lambda *given: 2 * inner(*given), backend="aot_eager", fullgraph=True)
        assert close(outer(*inputs), 2 * Model.__call__(inner, *inputs)) and not hasattr(inner, "sinter_looked")
        assert not any(hasattr(layer, "sinter_own") for layer in inner.layers)


@pytest.mark.parametrize("why", ["bias", "quantised", "tensor parallel", "another layer", "aux", "norm", "eps", "one layer", "no attention"])
def test_layers_that_do_not_fit_keep_vllms_path(vllm, why, caplog, monkeypatch):
    kind, mlp = vllm.models[0]
    options = {"bias": dict(bias=True), "quantised": dict(method=Fp8LinearMethod), "one layer": dict(count=1)}.get(why, {})
    positions, x = torch.arange(2), torch.randn(2, 64).bfloat16()
    import sinter_vllm

    sinter_vllm.register()
    model = kind(mlp, **options)
    if why == "tensor parallel":
        model.layers[1].self_attn.o_proj.input_size_per_partition = 32
    if why == "another layer":
        model.layers[2] = type("Special", (Layer,), {})(mlp)
    if why == "no attention":
        for layer in model.layers:
            layer.attention = layer.self_attn
            del layer.self_attn
        monkeypatch.setattr(Layer, "forward", lambda self, positions, hidden_states, residual: (self.mlp(hidden_states), hidden_states))
    if why == "aux":
        model.aux_hidden_state_layers = (1,)
    if why == "norm":
        model.layers[1].input_layernorm.has_weight = False
    if why == "eps":
        for norm in (norm for layer in model.layers for norm in layer.modules() if isinstance(norm, RMSNorm)):
            norm.variance_epsilon = 0.0
    with caplog.at_level(logging.WARNING, "sinter"):
        model(positions, x)
    assert "a model of vLLM keeps its own path" in caplog.text
    assert not any(hasattr(layer, "sinter_after") for layer in model.layers)
    assert all(layer.mlp.own_calls == 0 for layer in model.layers)  # each MLP is taken separately


def test_what_vllm_compiled_without_the_plugin_is_not_taken(vllm):
    import sinter_vllm

    sinter_vllm.register()
    sinter_vllm.register()
    assert vllm.compilation.caching.aot_compile_hash_factors(None) == ["own", f"sinter {sinter.__version__}, graphs"]


GATES = {
    "quantised": dict(method=Fp8LinearMethod),
    "bias": dict(bias=True),
    "float32": dict(dtype=torch.float32),
    "no multiple of 8": dict(n=100),
}


@pytest.mark.parametrize("name", GATES)
def test_what_does_not_fit_keeps_vllms_path(vllm, name):
    import sinter_vllm

    sinter_vllm.register()
    mlp = vllm.LlamaMLP(**GATES[name])
    mlp(torch.ones(3, 64, dtype=mlp.down_proj.weight.dtype))
    assert mlp.own_calls == 1


def test_lora_keeps_vllms_path(vllm):
    import sinter_vllm

    sinter_vllm.register()
    mlp = vllm.LlamaMLP()
    mlp.gate_up_proj = MergedColumnParallelLinearWithLoRA(mlp.gate_up_proj)
    mlp(torch.ones(3, 64).bfloat16())
    assert mlp.own_calls == 1


def away_from_vllm(vllm, caplog):
    import sinter_vllm

    with caplog.at_level(logging.WARNING, "sinter"):
        sinter_vllm.register()
    vllm.LlamaMLP()
    mlp = vllm.LlamaMLP()
    mlp(torch.ones(3, 64).bfloat16())
    assert mlp.own_calls == 1
    return caplog.text


@pytest.mark.parametrize("asked, later", [("", ""), ("8192", "; up to 8192 as plans get ready in the background")])
def test_a_taken_model_is_one_line_and_counted(vllm, caplog, monkeypatch, asked, later):
    import sinter_vllm

    monkeypatch.setenv("SINTER_PREFILL_ROWS", asked)

    for options, text in (({}, "3 layers from attention to attention"), (dict(count=1), "1 gated MLPs")):
        kind, mlp = vllm.models[0]
        sinter.torch.reset()
        caplog.clear()
        with caplog.at_level(logging.INFO, sinter_vllm.LOGGER):
            sinter_vllm.register()
            model = kind(mlp, **options)
            for _ in range(2):
                model(torch.arange(2), torch.randn(2, 64).bfloat16())
        lines = [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]
        assert lines == [f"sinter: active in vLLM's LlamaModel: {text}, for up to 48 rows{later}"]
        assert sinter.torch.counts().layers == len(model.layers)
    assert sinter_vllm.LOGGER.startswith("vllm.")  # vLLM sets up the loggers below its own


CONFIG = dict(hidden_size=64, intermediate_size=128, num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5, torch_dtype="bfloat16")


@pytest.mark.parametrize("folded", [False, True])
def test_a_config_names_the_plans_that_a_plugin_asks_for(vllm, context, folded):
    import sinter_vllm._layers as layers

    kind, mlp = vllm.models[0]
    first, second = list(kind(mlp).layers)[:2]
    weights, eps = layers.weights_of(first, second)
    made = servers.prepare_config(CONFIG, context, [1, 8], folded=folded)
    assert set(made) == {
        (name, size)
        for name in (servers._key(weights, eps, folded), "gated_ffn m=M n=128 k=64 l=64 act=silu layout=oi dtype=bf16")
        for size in (1, 8)
    }
    assert all(len(digest) == 64 for digest in made.values())


@pytest.mark.parametrize(
    "change, text",
    [(dict(hidden_size=None), "hidden_size"), (dict(torch_dtype="float32"), "float32"), (dict(torch_dtype=None), "torch_dtype None")],
)
def test_a_config_that_does_not_fit_is_refused(context, change, text):
    config = {name: value for name, value in {**CONFIG, **change}.items() if value is not None}
    with pytest.raises(sinter.Error, match=text):
        servers.prepare_config(config, context, [1])


def test_a_model_that_is_not_taken_is_no_line(vllm, caplog):
    import sinter_vllm

    kind, mlp = vllm.models[0]
    sinter.torch.reset()
    with caplog.at_level(logging.INFO):
        sinter_vllm.register()
        kind(lambda: mlp(method=Fp8LinearMethod), method=Fp8LinearMethod)(torch.arange(2), torch.randn(2, 64).bfloat16())
    assert "active" not in caplog.text and sinter.torch.counts().layers == 0


def test_sglangs_taken_mlps_are_a_line_a_shape_and_counted(sglang, caplog, monkeypatch):
    import sinter_sglang

    monkeypatch.setattr(sinter_sglang, "_is_hopper", lambda x: True)
    sinter.torch.reset()
    sinter_sglang.register()
    forward = sglang.registry.apply("sglang.srt.models.llama.LlamaMLP.forward", lambda self, x, forward_batch=None: self.own(x))
    with caplog.at_level(logging.INFO, "sinter"):
        for mlp in (Mlp(), Mlp(), Mlp(n=64), Mlp(bias=True)):
            for _ in range(2):
                forward(mlp, torch.ones(3, 64).bfloat16(), None)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [f"sinter: active in SGLang's Mlp of 64 x {n}, for up to 512 rows" for n in (128, 64)]
    assert sinter.torch.counts().layers == 3


def test_plugins_are_switched_off(vllm, caplog, monkeypatch):
    monkeypatch.setenv("SINTER_PLUGINS", "0")
    assert "SINTER_PLUGINS is 0" in away_from_vllm(vllm, caplog)


def test_another_version_is_left_alone(vllm, caplog):
    vllm.__version__ = "0.40.1"
    assert "version 0.40.1 is not one of 0.24 to 0.33" in away_from_vllm(vllm, caplog)


def test_another_chip_is_left_alone(vllm, caplog):
    vllm.platform.get_device_capability = lambda: (10, 0)
    assert "not of the Hopper architecture" in away_from_vllm(vllm, caplog)
    vllm.platform.get_device_capability = lambda: 1 / 0
    assert "capability is not known" in away_from_vllm(vllm, caplog)


def test_batch_invariance_is_respected(vllm, caplog, monkeypatch):
    monkeypatch.setenv("VLLM_BATCH_INVARIANT", "1")
    assert "VLLM_BATCH_INVARIANT" in away_from_vllm(vllm, caplog)


def test_another_forward_is_left_alone(vllm, caplog):
    def forward(self, x, extra=None):
        return self.own(x)

    vllm.LlamaMLP.forward = forward
    assert "takes other arguments" in away_from_vllm(vllm, caplog)


def test_without_vllm_nothing_fails(monkeypatch, caplog):
    monkeypatch.syspath_prepend(str(PLUGINS / "sinter-vllm"))
    monkeypatch.setitem(sys.modules, "vllm", None)
    import sinter_vllm

    with caplog.at_level(logging.WARNING, "sinter"):
        sinter_vllm.register()
    assert "cannot be imported" in caplog.text


def test_sglangs_mlps_are_hooked(sglang, caplog, monkeypatch):
    import sinter_sglang

    monkeypatch.setattr(sinter_sglang, "_is_hopper", lambda x: True)
    sinter_sglang.register()
    sinter_sglang.register()
    assert len(sglang.registry.hooks) == 3  # of MLPs two, of experts one
    x = torch.ones(3, 64).bfloat16()
    for target in ("sglang.srt.models.llama.LlamaMLP.forward", "sglang.srt.models.qwen2.Qwen2MLP.forward"):
        forward = sglang.registry.apply(target, lambda self, x, forward_batch=None: self.own(x))
        mlp = Mlp()
        assert close(forward(mlp, x, forward_batch=object()), Mlp().own(x)) and mlp.own_calls == 0
        for options in (*GATES.values(), dict(parts=2)):  # the last one sums by itself
            mlp = Mlp(**options)
            forward(mlp, torch.ones(3, 64, dtype=mlp.down_proj.weight.dtype), None)
            assert mlp.own_calls == 1


def test_sglangs_mlps_stay_its_own_on_a_cpu(sglang):
    import sinter_sglang

    sinter_sglang.register()  # SGLang packs weights in place for some CPUs
    forward = sglang.registry.apply("sglang.srt.models.llama.LlamaMLP.forward", lambda self, x, forward_batch=None: self.own(x))
    mlp = Mlp()
    forward(mlp, torch.ones(3, 64).bfloat16())
    assert mlp.own_calls == 1


@pytest.mark.parametrize("how", ["version", "deterministic", "SINTER_PLUGINS is 0"])
def test_sglang_is_left_alone(sglang, caplog, monkeypatch, how):
    import sinter_sglang

    if how == "version":
        sglang.__version__ = "0.6.0"
    elif how.startswith("SINTER_PLUGINS"):
        monkeypatch.setenv("SINTER_PLUGINS", "0")
    else:
        monkeypatch.setenv("SGLANG_ENABLE_DETERMINISTIC_INFERENCE", "true")
    with caplog.at_level(logging.WARNING, "sinter"):
        sinter_sglang.register()
    assert sglang.registry.hooks == [] and how in caplog.text


def test_versions_are_read():
    assert [servers.version_of(text) for text in ("0.33.0+cu130", "1.2", "dev")] == [(0, 33), (1, 2), (0, 0)]
