"""SGLang's gated MLPs and mixtures of experts by Sinter: the entry point ``sglang.srt.plugins``.

``register`` hooks ``forward`` of the MLPs of Llama and Qwen2 (which Qwen3 uses too) by SGLang's own hook registry, and the
function that computes experts from the ids and weights of SGLang's router (`_experts`). For an MLP that is split over
GPUs the plan computes this rank's part: SGLang's layers sum after their MLPs, in one kernel with the residual and the norm. A layer
that is quantised, wrapped by LoRA or of another dtype keeps SGLang's path. Everything keeps it on a chip other than Hopper, with an
SGLang outside of the versions named here, or if deterministic inference is asked for, because a plan depends on the number of rows.
SINTER_PLUGINS=0 leaves everything to SGLang. Plans are prepared at the first forward. If SINTER_PREFILL_ROWS asks for them, prefill's
plans are then built in the background. One line at level info reports the MLPs of each shape that are taken. Nothing here opens the driver.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Optional, Set, Tuple

#: The range of versions that this was written against: the first, and the first that is excluded.
VERSIONS = ((0, 5), (0, 6))

_TARGETS = ("sglang.srt.models.llama.LlamaMLP.forward", "sglang.srt.models.qwen2.Qwen2MLP.forward")
_registered = False


def register() -> None:
    """Called by SGLang in every process."""
    global _registered
    from sinter.torch import servers

    reason = _reason_against(servers)
    if reason:
        servers.stay_away("SGLang", reason)
        return
    if _registered:
        return
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    from . import _experts

    servers.set_up(_silu_and_mul())
    hook = _hook(servers)
    for target in _TARGETS:
        HookRegistry.register(target, hook, HookType.AROUND)
    HookRegistry.register(_experts.TARGET, _experts.hook(servers, _is_hopper), HookType.AROUND)
    _registered = True


def _reason_against(servers: Any) -> str:
    """Why nothing is hooked; "" if functions are hooked."""
    off: str = servers.switched_off()
    if off:
        return off
    try:
        import sglang
        from sglang.srt.layers import linear  # noqa: F401
        from sglang.srt.layers.quantization import unquant  # noqa: F401
        from sglang.srt.plugins import hook_registry  # noqa: F401
    except ImportError as error:
        return f"it cannot be imported: {error}"
    version = getattr(sglang, "__version__", "unknown")
    if not VERSIONS[0] <= servers.version_of(version) < VERSIONS[1]:
        return f"version {version} is none that this plugin was written for"
    if os.environ.get("SGLANG_ENABLE_DETERMINISTIC_INFERENCE", "0").lower() not in ("", "0", "false"):
        return "inference is asked to be deterministic, and a plan depends on the number of rows"
    return ""


def _hook(servers: Any) -> Callable[..., Any]:
    from sglang.srt.layers.linear import MergedColumnParallelLinear, RowParallelLinear
    from sglang.srt.layers.quantization.unquant import UnquantizedLinearMethod

    linears = (MergedColumnParallelLinear, RowParallelLinear)

    def reason_against(mlp: Any) -> str:
        reason: str = servers.reason_against(mlp, linears, UnquantizedLinearMethod, split=True)
        return reason or (_reason_against_split(mlp.down_proj) if servers.is_split(mlp.down_proj) else "")

    said: Set[Tuple[Any, ...]] = set()

    def see(mlp: Any) -> None:
        """Counts an MLP when it is first taken, and logs the first one of a shape."""
        mlp.sinter_taken = True
        k, n, dtype = mlp.gate_up_proj.weight.shape[1], mlp.down_proj.weight.shape[1], mlp.down_proj.weight.dtype
        servers.take_once(said, (k, n, dtype), "sinter", f"SGLang's {type(mlp).__name__} of {k} x {n}")

    def forward(own: Callable[..., Any], self: Any, x: Any, *arguments: Any, **named: Any) -> Any:
        import torch

        down = self.down_proj
        if not torch.compiler.is_compiling() and not servers.takes(x.shape[0]):
            if not hasattr(self, "sinter_seen"):
                self.sinter_seen = True
                if not reason_against(self) and _is_hopper(x):
                    servers.see_mlp(self.gate_up_proj.weight, down.weight)
            return own(self, x, *arguments, **named)
        if reason_against(self) or x.dtype != down.weight.dtype:
            return own(self, x, *arguments, **named)
        if not _is_hopper(x):
            return own(self, x, *arguments, **named)
        if not torch.compiler.is_compiling() and not hasattr(self, "sinter_taken"):
            see(self)
        return torch.ops.sinter.gated_mlp(x, self.gate_up_proj.weight, down.weight)

    return forward


def _reason_against_split(down: Any) -> str:
    """Why SGLang computes an MLP that is split over GPUs: its down projection sums by itself, in one of several forms, or rows are split.
    "" if a plan may."""
    if getattr(down, "reduce_results", True) or getattr(down, "use_decode_attn_tp", False):
        return "its sum over GPUs is its own"
    try:
        from sglang.srt.runtime_context import get_forward
    except ImportError:
        return "this SGLang does not say whether rows are split over GPUs"
    return "rows are split over GPUs" if getattr(get_forward(), "sp_active", False) else ""


def _is_hopper(x: Any) -> bool:
    import torch

    return x.is_cuda and torch.version.hip is None and torch.cuda.get_device_capability(x.device) == (9, 0)


def _silu_and_mul() -> Optional[Callable[[Any], Any]]:
    """SGLang's fused activation, for rows that no plan is prepared for."""
    try:
        from sgl_kernel import silu_and_mul
    except ImportError:
        return None

    def fused(both: Any) -> Any:
        return silu_and_mul(both)

    return fused
