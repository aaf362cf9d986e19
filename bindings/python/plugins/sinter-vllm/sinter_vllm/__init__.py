"""vLLM's decoder layers, gated MLPs and mixtures of experts by Sinter: the entry point ``vllm.general_plugins``.

``register`` checks models of Llama (which Mistral also uses), Qwen2 and Qwen3 when they are first called. The layers between two
attentions become one plan (`_layers`) if no layer is biased or wrapped by LoRA, and all are unquantised, or codes of e4m3 or of four bits in
a supported format (`_codes`). Unquantised ones may be split over several GPUs (`_ranks`). Parts of the graphs that vLLM compiles are taken of any
model on one GPU (`_graphs`), and tokens are drawn (`_sampler`). Gated MLPs of models without such parts are taken as separate plans, and experts of any model (`_experts`).
Everything keeps vLLM's path on a chip other than Hopper, with a vLLM outside of the versions named here, or under
VLLM_BATCH_INVARIANT, because a plan depends on the number of rows. Plans are prepared in vLLM's first
dummy run, before its memory is measured. vLLM computes more rows than plans serve (`_prefill`). By default it computes prefill; if
SINTER_PREFILL_ROWS asks for it, prefill's plans are built in the background while vLLM's kernels compute. Norms are folded on request
(`_norms`). SINTER_PLUGINS=0 leaves everything to vLLM. One line at level info reports the layers that are taken of a model. Nothing here
opens the driver: vLLM forks its workers afterwards.
"""

from __future__ import annotations

import inspect
import os
from typing import Any, Callable, Optional

from ._guard import guarded, never_raises

#: The range of versions that this was written against: the first, and the first that is excluded.
VERSIONS = ((0, 24), (0, 34))

#: A child of vLLM's logger, which gives it level and handlers.
LOGGER = "vllm.sinter"

_CLASSES = (
    ("vllm.model_executor.models.llama", "LlamaMLP"),
    ("vllm.model_executor.models.qwen2", "Qwen2MLP"),
)

_MODELS = (
    ("vllm.model_executor.models.llama", "LlamaModel"),
    ("vllm.model_executor.models.qwen2", "Qwen2Model"),
    ("vllm.model_executor.models.qwen3", "Qwen3Model"),
)


def register() -> None:
    """vLLM calls this in every process, perhaps more than once. Nothing that fails here ends vLLM's start.

    Raises:
        Error: INVALID_ARGUMENT for an invalid SINTER_PREFILL_ROWS, which the user set.
    """
    servers = never_raises(_servers)
    if servers is not None:
        servers.most_rows()
        never_raises(lambda: _register(servers))


def _servers() -> Any:
    """The module that plugins use; None if nothing is replaced."""
    from sinter.torch import servers

    reason = _reason_against(servers)
    if reason:
        servers.stay_away("vLLM", reason)
    return None if reason else servers


def _register(servers: Any) -> None:
    import importlib

    from . import _experts, _graphs, _prefill, _sampler

    servers.set_up(_silu_and_mul(), add_norm=_add_norm(), log=LOGGER)
    for take, classes in ((_replace, _CLASSES), (_watch, _MODELS)):
        for module, name in classes:
            try:
                take(getattr(importlib.import_module(module), name), servers)
            except Exception as error:  # such as a class of another structure
                servers.stay_away(f"vLLM's {name}", str(error))
    guarded(servers, "vLLM's experts", lambda: _experts.watch(servers, LOGGER))
    guarded(servers, "vLLM's prefill", lambda: _prefill.watch(servers))
    guarded(servers, "vLLM's sampler", lambda: _sampler.watch(servers, LOGGER))
    if _graphs.wanted():
        guarded(servers, "vLLM's graphs", lambda: _graphs.watch(servers, LOGGER))
    _name_in_cache()


def _reason_against(servers: Any) -> str:
    """Why nothing is replaced; "" if functions are replaced."""
    off: str = servers.switched_off()
    if off:
        return off
    try:
        import vllm
        from vllm.model_executor.layers import linear  # noqa: F401
        from vllm.platforms import current_platform
    except ImportError as error:
        return f"it cannot be imported: {error}"
    if not VERSIONS[0] <= servers.version_of(vllm.__version__) < VERSIONS[1]:
        return f"version {vllm.__version__} is not one of {versions()}, which this plugin was written for"
    if os.environ.get("VLLM_BATCH_INVARIANT", "0").lower() not in ("", "0", "false"):
        return "VLLM_BATCH_INVARIANT is set, and a plan depends on the number of rows"
    try:
        capability = current_platform.get_device_capability()
    except Exception as error:  # the check asks NVML, which may be missing
        return f"the GPU's capability is not known: {error}"
    if capability is None or tuple(capability)[:2] != (9, 0):
        return "the GPU is not of the Hopper architecture"
    return ""


def versions() -> str:
    """The first and the last version that this was written for."""
    (first, minor), (last, end) = VERSIONS
    return f"{first}.{minor} to {last}.{end - 1}"


def _replace(mlp: type, servers: Any) -> None:
    own: Callable[..., Any] = mlp.forward  # type: ignore[attr-defined]
    if getattr(own, "is_sinters", False):
        return
    if list(inspect.signature(own).parameters) != ["self", "x"]:
        servers.stay_away(f"vLLM's {mlp.__name__}", "its forward takes other arguments")
        return
    from . import _graphs, _ranks

    linears, plain = _kinds()
    init: Callable[..., Any] = mlp.__init__  # type: ignore[misc]

    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        self.sinter_in_graphs = _graphs.holds_current()  # the pass over graphs takes an MLP with the ops around it

    def forward(self: Any, x: Any) -> Any:
        import torch

        if self.sinter_in_graphs or not torch.compiler.is_compiling() and not servers.takes(x.shape[0]):
            return own(self, x)
        if servers.reason_against(self, linears, plain, split=True) or x.dtype != self.down_proj.weight.dtype:
            return own(self, x)
        y = torch.ops.sinter.gated_mlp(x, self.gate_up_proj.weight, self.down_proj.weight)
        return _ranks.all_reduce(y) if _ranks.sums(self.down_proj) else y

    forward.is_sinters = True  # type: ignore[attr-defined]
    mlp.sinter_in_graphs = False  # type: ignore[attr-defined]
    mlp.__init__, mlp.forward = __init__, forward  # type: ignore[misc,attr-defined]


def _kinds() -> Any:
    """The linear layers of an MLP, and the method of one that is not quantised."""
    from vllm.model_executor.layers.linear import (
        MergedColumnParallelLinear,
        RowParallelLinear,
        UnquantizedLinearMethod,
    )

    return (MergedColumnParallelLinear, RowParallelLinear), UnquantizedLinearMethod


def _watch(model: type, servers: Any) -> None:
    """Links the layers of a model when it is first called. A model that is traced as a part of another is not linked: Dynamo cannot trace what is
    done here, and the parts of its graphs are taken."""
    import torch

    from . import _norms

    _norms.refuse_loading(model)
    own: Optional[Callable[..., Any]] = vars(model).get("__call__")
    if own is None or getattr(own, "is_sinters", False):
        return  # its parent's is watched

    def call(self: Any, *arguments: Any, **named: Any) -> Any:
        if not torch.compiler.is_compiling() and not hasattr(self, "sinter_looked"):
            self.sinter_looked = True
            _look_guarded(self, servers)
        return own(self, *arguments, **named)

    call.is_sinters = True  # type: ignore[attr-defined]
    model.__call__ = call  # type: ignore[method-assign,operator]


def _look_guarded(model: Any, servers: Any) -> None:
    """Links what fits. If that fails, the model's layers are vLLM's again. Layers that are split over GPUs are an exception once their ranks have
    agreed: ranks must not differ, and an error ends them all."""
    from . import _layers

    try:
        _look_at(model, servers)
    except Exception as error:
        layers = list(getattr(model, "layers", ()))
        if any(getattr(layer, "sinter_group", "") for layer in layers):
            raise
        _layers.unlink(layers)
        servers.stay_away("a model of vLLM", f"{type(error).__name__}: {error}")


def _look_at(model: Any, servers: Any) -> None:
    from . import _prefill

    config = model.vllm_config.compilation_config
    _set_up(model, servers, max(getattr(config, "compile_ranges_endpoints", None) or servers.PREFILL_SIZES[-1:]))
    if not _take_layers(model, servers):
        _see_mlps(model, servers)
    _prefill.end_range(config, servers.largest())


def _set_up(model: Any, servers: Any, rows: int, limit: Optional[int] = None) -> None:
    """`rows`: the most rows that plans may serve; numbers of rows that are captured get plans up to `limit`."""
    from . import _codes

    captured = model.vllm_config.compilation_config.cudagraph_capture_sizes or ()
    sizes = servers.sizes_for(captured) if limit is None else servers.sizes_for(captured, limit)
    servers.set_up(_silu_and_mul(), sizes, rows=rows, add_norm=_add_norm(), linear=_codes.product, log=LOGGER)


def _take_layers(model: Any, servers: Any) -> bool:
    """Whether the layers between two attentions are taken. If so, links the layers."""
    from . import _codes, _draft_states, _formats, _layers, _norms, _prefill, _ranks

    quantizer = ""
    try:
        quantizer, reason = _layers.quantizer_of(model, servers)
        reason = reason or _layers.reason_against(model, servers, quantizer)
    except Exception as error:  # the model has another structure than in the versions that this was written for
        reason = f"{type(error).__name__}: {error}"
    group, size = "", _ranks.size_of_model(model)
    if size > 1:  # a reason against one rank reaches all ranks
        group, reason = _ranks.join(model, size, servers, reason)
    if reason:
        servers.stay_away("a model of vLLM", reason)
        return False
    layers = list(model.layers)
    if size > 1 or quantizer:
        # A plan built in the background is ready sooner on one rank than on another. With codes such plans were not measured.
        _set_up(model, servers, 0, _codes.most_rows(quantizer, servers))
    # Weights change only once all plans are there. Ranks must not differ, but numbers that fit on one rank may not fit on another.
    folded = not group and not quantizer and _norms.folds(model, layers, servers) and _layers.planned(layers, True, group, servers)
    if not folded and not _layers.planned(layers, False, group, servers, quantizer):
        if quantizer:
            _set_up(model, servers, 0)  # without a limit of rows
        return False  # the reason is logged
    servers.settle()
    if folded:
        _norms.fold(model, layers, servers)
    _layers.replace(type(layers[0]), servers)
    chosen = bool(quantizer) and _prefill.chooses(model.vllm_config.compilation_config, servers.largest())
    _layers.link(layers, servers, folded, group, quantizer, chosen)
    _draft_states.keep_streams(model)
    how = f"{', norms folded' if folded else ''}{f', over {size} GPUs' if group else ''}{f', of {_formats.told(quantizer)}' if quantizer else ''}"
    servers.take(LOGGER, f"vLLM's {type(model).__name__}: {len(layers)} layers from attention to attention{how}", len(layers))
    _name_in_config(model.vllm_config, f"up to {servers.largest()} rows{how.replace(', norms', ',')}")
    return True


def _see_mlps(model: Any, servers: Any) -> None:
    """Prepares plans of MLPs that are taken separately: vLLM's first run may have too many rows for an MLP's operator."""
    taken = 0
    for module in model.modules():
        if getattr(type(module).forward, "is_sinters", False) and not getattr(module, "sinter_in_graphs", True):
            if not servers.reason_against(module, *_kinds(), split=True):
                servers.see_mlp(module.gate_up_proj.weight, module.down_proj.weight)
                taken += 1
    if taken:
        servers.settle()
        servers.take(LOGGER, f"vLLM's {type(model).__name__}: {taken} gated MLPs", taken)


def _name_in_config(config: Any, what: str) -> None:
    """The properties on which a compiled graph of this model depends. The config's hash is a part of all keys of vLLM's caches."""
    if isinstance(getattr(config, "additional_config", None), dict):
        config.additional_config["sinter"] = what


def _name_in_cache() -> None:
    """Keeps vLLM from reusing graphs that it compiled without this plugin: its keys of compiled models do not name plugins."""
    try:
        from vllm.compilation import caching

        own: Callable[..., Any] = caching.aot_compile_hash_factors
    except (ImportError, AttributeError):
        return
    if getattr(own, "is_sinters", False):
        return
    import sinter

    from . import _graphs

    def factors(vllm_config: Any) -> Any:
        return [*own(vllm_config), f"sinter {sinter.__version__}{', graphs' if _graphs.wanted() else ''}"]

    factors.is_sinters = True  # type: ignore[attr-defined]
    caching.aot_compile_hash_factors = factors


def _silu_and_mul() -> Optional[Callable[[Any], Any]]:
    """vLLM's fused activation, for rows whose plan is not there."""
    import torch

    if not hasattr(torch.ops._C, "silu_and_mul"):
        return None

    def fused(both: Any) -> Any:
        out = both.new_empty((*both.shape[:-1], both.shape[-1] // 2))
        torch.ops._C.silu_and_mul(out, both)
        return out

    return fused


def _add_norm() -> Optional[Callable[..., Any]]:
    """vLLM's fused norm of a sum, for rows whose plan is not there."""
    import torch

    if not hasattr(torch.ops._C, "fused_add_rms_norm"):
        return None

    def fused(x: Any, residual: Any, weight: Any, eps: float) -> Any:
        torch.ops._C.fused_add_rms_norm(x, residual, weight, eps)
        return x, residual

    return fused
