"""Layers of vLLM that are split over GPUs, and the sums over these GPUs.

Plans of whole layers sum by themselves, over a group of Sinter with vLLM's ranks. These layers then have neither vLLM's own sum nor the ops that
vLLM fuses into it. Without such a group, and after MLPs that are taken separately, vLLM sums.
"""

from __future__ import annotations

from typing import Any, Tuple


def size_of(linear: Any) -> int:
    """GPUs that a linear layer is split over."""
    size: int = getattr(linear, "tp_size", 1)
    return size


def size_of_model(model: Any) -> int:
    """GPUs that a model's layers are split over, the same on all ranks; 1 for a model with another structure."""
    try:
        return size_of(model.layers[0].mlp.down_proj)
    except (AttributeError, IndexError, TypeError):
        return 1


def sums(linear: Any) -> bool:
    """Whether a row-parallel layer ends with a sum over GPUs."""
    return size_of(linear) > 1 and bool(getattr(linear, "reduce_results", True))


def all_reduce(x: Any) -> Any:
    """vLLM's sum over ranks. In a graph it is a separate operator."""
    from vllm.distributed import tensor_model_parallel_all_reduce

    return tensor_model_parallel_all_reduce(x)


def join(model: Any, size: int, servers: Any, reason: str = "") -> Tuple[str, str]:
    """The name of the group over which plans of `model`, split over `size` GPUs, sum, and why there is none. Collective.

    `reason`: why this rank's layers cannot be taken. It is passed to the other ranks."""
    of_all = _reason_against(model.vllm_config)
    if of_all:
        return "", of_all
    from vllm.distributed import get_tp_group

    ranks = get_tp_group()
    if ranks.world_size != size:
        return "", f"its layers are split over {size} GPUs of {ranks.world_size}"
    device = next(model.layers[0].mlp.down_proj.parameters()).device.index
    reason = servers.join(ranks.unique_name, ranks.cpu_group, device, all_reduce, reason)
    return ("", f"its layers stay apart: {reason}") if reason else (ranks.unique_name, "")


def _reason_against(config: Any) -> str:
    """Why no group serves a model of this configuration, the same on all ranks."""
    passes = getattr(config.compilation_config, "pass_config", None)
    if getattr(passes, "enable_sp", False) or getattr(passes, "fuse_gemm_comms", False):
        return "rows of its residual stream are split over GPUs (sequence parallelism)"
    if getattr(getattr(config, "parallel_config", None), "use_ubatching", False):
        return "micro-batches run on two streams at once, and a group serves one"
    return ""
