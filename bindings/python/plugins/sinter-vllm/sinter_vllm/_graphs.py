"""Parts of vLLM's compiled graphs by Sinter, for any decoder on one GPU. SINTER_VLLM_GRAPHS=0 leaves them to vLLM.

vLLM compiles a model's forward as pieces that are cut at attention. A pass in Inductor's ``post_grad_custom_pre_pass``, which vLLM leaves
free, replaces parts of such a piece by operators that carry their chains. It applies to the graph that vLLM compiles for the rows that it
captures. The graph for more rows keeps vLLM's operators. Plans for the captured rows are made while vLLM compiles. An operator whose plan
does not gain at some number of rows runs Inductor's code for its part there.
"""

from __future__ import annotations

import collections
import os
from typing import Any, Callable, List

from . import _prefill
from ._guard import guarded

VARIABLE = "SINTER_VLLM_GRAPHS"
_PLACE = "post_grad_custom_pre_pass"
_GRAPHS = "a model's graphs in vLLM"
_MOST_REASONS = 4  # that the log names
_VLLM_COMPILE = 3  # of vLLM's CompilationMode: by the backend that runs passes


def wanted() -> bool:
    """Whether the user leaves it on."""
    return os.environ.get(VARIABLE, "") != "0"


def holds_current() -> bool:
    """Whether the pass runs over the graphs of the model that vLLM is making."""
    try:
        from vllm.config import get_current_vllm_config

        return wanted() and not reason_against(get_current_vllm_config())
    except Exception:  # no model is being made, or vLLM has another structure
        return False


def watch(servers: Any, log: str) -> None:
    """Makes every compilation of a model from now on run the pass."""
    try:
        from vllm.compilation.backends import VllmBackend
    except ImportError as error:
        servers.stay_away("vLLM's graphs", f"there is no backend to watch: {error}")
        return
    init: Callable[..., Any] = VllmBackend.__init__
    compile: Callable[..., Any] = VllmBackend.__call__
    if getattr(init, "is_sinters", False):
        return

    def __init__(self: Any, *arguments: Any, **named: Any) -> None:
        init(self, *arguments, **named)
        self.sinter_pass = guarded(servers, _GRAPHS, lambda: _install(self, servers))  # before vLLM computes keys of its caches

    def __call__(self: Any, *arguments: Any, **named: Any) -> Any:
        compiled = compile(self, *arguments, **named)
        if self.sinter_pass is not None:
            guarded(servers, _GRAPHS, lambda: _report(self.vllm_config, self.sinter_pass, servers, log))
        return compiled

    __init__.is_sinters = True  # type: ignore[attr-defined]
    VllmBackend.__init__, VllmBackend.__call__ = __init__, __call__


def _install(backend: Any, servers: Any) -> Any:
    """The pass that the backend's pieces will go through; None if they stay vLLM's."""
    config = backend.vllm_config
    reason = "they are an encoder's" if getattr(backend, "is_encoder", False) else reason_against(config)
    if reason:
        servers.stay_away(f"the graphs of vLLM's {_name_of(config)}", reason)
        return None
    sizes = servers.sizes_for(config.compilation_config.cudagraph_capture_sizes or ())
    made = servers.graph_pass(sizes, lambda: _begin_of_range() <= sizes[-1])
    _compile_again_without(getattr(backend, "compiler_manager", None), made, servers)
    backend.inductor_config[_PLACE] = made
    _prefill.end_range(config.compilation_config, sizes[-1])
    known = getattr(config, "additional_config", None)
    if isinstance(known, dict):  # a part of all keys of vLLM's caches
        known["sinter_graphs"] = f"up to {sizes[-1]} rows"
    return made


def _compile_again_without(manager: Any, made: Any, servers: Any) -> None:
    """Makes vLLM compile a piece again without parts, and all that follow, if a piece with parts does not compile."""
    if manager is None:
        return
    own: Callable[..., Any] = manager.compile

    def compile(*arguments: Any, **named: Any) -> Any:
        before = len(made.reports)
        try:
            return own(*arguments, **named)
        except Exception as error:
            if not any(report.taken for report in made.reports[before:]):
                raise
            servers.stay_away(_GRAPHS, f"a piece with parts does not compile: {type(error).__name__}: {error}")
            made.switch_off(before)
        return own(*arguments, **named)

    manager.compile = compile


def reason_against(config: Any) -> str:
    """Why the graphs of a model stay vLLM's; "" if the pass may run. `config`: a VllmConfig."""
    compilation = config.compilation_config
    if os.environ.get("SINTER_MUST_HIT", "0") not in ("", "0"):
        return "SINTER_MUST_HIT forbids to build plans, and which these need is not known before vLLM compiles"
    mode = getattr(compilation, "mode", _VLLM_COMPILE)
    if mode is not None and int(mode) != _VLLM_COMPILE or getattr(compilation, "backend", "") not in ("", "inductor"):
        return "vLLM does not compile them by Inductor"
    if config.parallel_config.world_size > 1:
        return f"the model is on {config.parallel_config.world_size} GPUs"
    if getattr(config, "lora_config", None) is not None:
        return "LoRA is enabled"
    if getattr(compilation, "use_inductor_graph_partition", False):
        return "use_inductor_graph_partition leaves them in one piece"
    if _PLACE in (getattr(compilation, "inductor_compile_config", None) or {}):
        return f"inductor_compile_config names a pass for {_PLACE}"
    return ""


def _begin_of_range() -> int:
    """The fewest rows that the graph which vLLM compiles now is for."""
    from vllm.compilation.passes.inductor_pass import get_pass_context

    return int(get_pass_context().compile_range.start)


def _name_of(config: Any) -> str:
    names: List[str] = getattr(getattr(config, "model_config", None), "architectures", None) or ["model"]
    return names[0]


def _report(config: Any, installed: Any, servers: Any, log: str) -> None:
    """Logs one line for a model: its graphs, parts, and the operators that are left, with the reason."""
    installed.wait()
    reports = installed.reports
    if not reports:  # they come from vLLM's cache
        return
    parts = sum(len(report.taken) for report in reports)
    ops, left = sum(report.nodes for report in reports), collections.Counter(why.partition(";")[0] for report in reports for _, why in report.left)
    told = [f"{count} ({why})" for why, count in left.most_common(_MOST_REASONS)]
    told += [f"{len(left) - _MOST_REASONS} other reasons"] if len(left) > _MOST_REASONS else []
    what = f"{parts} parts of {len(reports)} graphs, {ops - sum(left.values())} of {ops} ops; left: {', '.join(told) or 'none'}"
    name = f"vLLM's {_name_of(config)}"
    if parts:
        servers.take(log, f"{name}: {what}", parts, installed.sizes)
    else:
        servers.stay_away(f"the graphs of {name}", what)
