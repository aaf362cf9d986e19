"""Finds, prepares and replaces the gated MLPs of models."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import nn

from ..._argument import instance
from ..._context import Context
from ..._error import invalid
from ..._prepare import checked_measure
from ..runtime.gated_mlp import chain_line
from ..runtime.store import sizes_of, store
from .transformers import ACTIVATIONS, line_of

# transformers' modules whose forward is down_proj(act_fn(gate_proj(x)) * up_proj(x)).
_MODULES = ("LlamaMLP", "Qwen2MLP", "Qwen3MLP", "MistralMLP")
_PROJECTIONS = ("gate_proj", "up_proj", "down_proj")


class SinterMLP(nn.Module):
    """Replaces a gated MLP and computes it by ``torch.ops.sinter.gated_mlp_split``.

    It holds the same projections under the same names, so the model's state keeps its keys. If gradients are required, or
    projections are no longer plain, it calls them one after another.
    """

    def __init__(self, replaced: nn.Module, act: str) -> None:
        super().__init__()
        self.gate_proj: Any = replaced.gate_proj
        self.up_proj: Any = replaced.up_proj
        self.down_proj: Any = replaced.down_proj
        self.act = act
        # Not registered as a child: its parameters are the three above.
        self.replaced: Any
        self.__dict__["replaced"] = replaced

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x [.., k] -> [.., l]."""
        if _plain(self):
            weights = _weights(self)
            if x.dtype == weights[2].dtype and not _wants_gradient(x, *weights):
                result: torch.Tensor = torch.ops.sinter.gated_mlp_split(x, *weights, self.act)
                return result
        own: torch.Tensor = self.down_proj(self.replaced.act_fn(self.gate_proj(x)) * self.up_proj(x))
        return own

    def extra_repr(self) -> str:
        return f"act={self.act}"


def _weights(module: Any) -> Tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    return module.gate_proj.weight, module.up_proj.weight, module.down_proj.weight


def _wants_gradient(*tensors: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _plain(module: Any) -> bool:
    """Whether the projections are three Linears without bias, none of them wrapped or quantised."""
    return all(
        type(linear) is nn.Linear and linear.bias is None
        for linear in (module.gate_proj, module.up_proj, module.down_proj)
    )


def _activation(module: Any) -> Optional[str]:
    return ACTIVATIONS.get(type(getattr(module, "act_fn", None)).__name__)


def _takes(module: Any) -> bool:
    """Whether SinterMLP computes the same as `module`, as far as types and shapes show."""
    if type(module).__name__ not in _MODULES or not _plain(module) or _activation(module) is None:
        return False
    gate, up, down = _weights(module)
    fits = all(extent % 8 == 0 for extent in (*gate.shape, *down.shape))
    return fits and gate.dtype == up.dtype == down.dtype and gate.dtype in (torch.bfloat16, torch.float16)


def _check_model(model: Any) -> None:
    if not isinstance(model, nn.Module):
        raise TypeError(f"model is a {type(model).__name__}, not a torch.nn.Module")


def replace_mlp(model: nn.Module) -> List[str]:
    """Replaces the gated MLPs of transformers' Llama, Qwen2, Qwen3 and Mistral models by ``SinterMLP``.

    MLPs with biases, quantised or LoRA projections, other activations, dtypes other than bf16 and f16, or extents that are not
    a multiple of 8 stay as they are.

    Returns:
        The names of the replaced modules, in the model's order; empty when nothing fits.
    """
    _check_model(model)
    found = [name for name, module in model.named_modules() if name and _takes(module)]
    for name in found:
        parent, _, child = name.rpartition(".")
        module = model.get_submodule(name)
        act = _activation(module)
        assert act is not None
        setattr(model.get_submodule(parent), child, SinterMLP(module, act).train(module.training))
    return found


def restore_mlp(model: nn.Module) -> List[str]:
    """Undoes ``replace_mlp``. Returns the names of the restored modules. Projections that were set since then stay."""
    _check_model(model)
    found = [name for name, module in model.named_modules() if name and isinstance(module, SinterMLP)]
    for name in found:
        parent, _, child = name.rpartition(".")
        module: Any = model.get_submodule(name)
        for projection in _PROJECTIONS:
            setattr(module.replaced, projection, getattr(module, projection))
        setattr(model.get_submodule(parent), child, module.replaced.train(module.training))
    return found


class _Mlp(NamedTuple):
    """The properties on which a plan of a gated MLP depends, and its device."""

    line: str
    device: torch.device


def _mlps(model: nn.Module) -> Iterator[_Mlp]:
    """Replaced and replaceable MLPs, MLPs of servers with gate and up in one matrix, and transformers' experts that Sinter computes."""
    module: Any
    for module in model.modules():
        experts = line_of(module)
        if experts is not None:
            yield _Mlp(*experts)
            continue
        down = getattr(getattr(module, "down_proj", None), "weight", None)
        merged = getattr(getattr(module, "gate_up_proj", None), "weight", None)
        if (isinstance(module, SinterMLP) and _plain(module)) or _takes(module):
            act = module.act if isinstance(module, SinterMLP) else _activation(module)
            weight, n = module.gate_proj.weight, module.gate_proj.weight.shape[0]
        elif isinstance(merged, torch.Tensor) and isinstance(down, torch.Tensor) and merged.dim() == 2:
            act, weight, n = "silu", merged, merged.shape[0] // 2
        else:
            continue
        assert isinstance(down, torch.Tensor) and isinstance(act, str)
        if weight.dtype in (torch.bfloat16, torch.float16):
            yield _Mlp(chain_line(n, weight.shape[1], down.shape[0], act, weight.dtype), weight.device)


def prepare_model(
    model: nn.Module, sizes: Sequence[int], *, context: Optional[Context] = None, measure: int = 0
) -> Dict[Tuple[str, int], str]:
    """Prepares the gated MLPs of a model, and experts with ``experts_implementation="sinter"``, for each number of rows in `sizes`, in parallel. Call it before a capture.

    Args:
        model: a transformers model, replaced already or not, or one of a server, with ``gate_up_proj``.
        sizes: rows, 1 or more each. A call with fewer takes the plan of the next larger size.
        context: where to prepare; by default the operators' own for the weights' device. With a context for a
            target, a machine without a GPU fills the cache for a machine with that GPU.
        measure: candidates that are measured for each plan, see ``Context.prepare``; plans that were prepared before are replaced.

    Returns:
        The digest of each plan by chain and size. Ranks that compare them know that they compute alike.

    Raises:
        Error: INVALID_ARGUMENT for sizes, for a model without gated MLPs, or for one that is not on a GPU while no
            context is given; any error of a prepare.
    """
    _check_model(model)
    if context is not None:
        instance(context, Context, "context")
    wanted, measure = sizes_of(sizes), checked_measure(measure)
    if not wanted:
        raise invalid("sizes is empty")
    found = list(dict.fromkeys(_mlps(model)))
    if not found:
        raise invalid(
            "the model has no gated MLP that Sinter takes (sinter.torch.replace_mlp says which it does), and no experts with "
            'experts_implementation="sinter"'
        )
    if context is not None:
        return store.prepare(context, list(dict.fromkeys(mlp.line for mlp in found)), wanted, measure=measure)
    digests: Dict[Tuple[str, int], str] = {}
    for device in dict.fromkeys(mlp.device for mlp in found):
        if device.type != "cuda":
            raise invalid(f"the model is on {device}, not on a GPU: move it there, or give a context for a target")
        lines = [mlp.line for mlp in found if mlp.device == device]
        digests.update(store.prepare(store.context(device.index), lines, wanted, measure=measure))
    return digests
