"""The backend ``sinter`` of torch.compile: Inductor plus a graph pass of Sinter."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional, Sequence

import torch

from ..._error import invalid
from ..._prepare import MOST_CANDIDATES
from ..graph.join_frozen import joining
from ..graph.keep_compared import KeepCompared
from ..runtime.options import Options, target_context
from .graph_pass import SinterPass

VARIABLE = "SINTER_TORCH_COMPILE"  # "0": only Inductor compiles; for processes that cannot be changed otherwise
_PREPARE = ("background", "block")
_PASS, _JOINT_PASS = "post_grad_custom_pre_pass", "joint_custom_post_pass"  # of Inductor's configuration


def sinter_backend(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: Optional[str] = None,
    options: Optional[Dict[str, Any]] = None,
) -> Any:
    """Compiles a graph as Inductor does. The parts that Sinter plans become operators of Sinter.

    Args:
        mode: a mode of Inductor: "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs". A mode that tunes Inductor's kernels also
            measures parts, unless ``measure`` says otherwise.
        options: ``prepare`` ("background" or "block"), ``verify`` (bool), ``measure`` (bool, or a number of candidates, 1 to 64) and
            ``target`` (a chip, for tensors on the CPU) are options of Sinter. Inductor gets all others. If the caller sets
            ``post_grad_custom_pre_pass``, that pass runs before Sinter's.

    Raises:
        Error: INVALID_ARGUMENT naming the option; NOT_FOUND if ``target`` does not name a chip, with the chips there are.
    """
    own, patches = split_options(mode, options)
    if os.environ.get(VARIABLE, "") == "0":
        from torch._inductor.compile_fx import compile_fx

        return compile_fx(gm, example_inputs, config_patches=patches)
    return compile_with(SinterPass(own), gm, example_inputs, patches)


def compile_with(
    graph_pass: SinterPass, gm: torch.fx.GraphModule, example_inputs: Sequence[Any], patches: Dict[str, Any], **more: Any
) -> Any:
    """Inductor with `graph_pass`, and with `patches` of its configuration. If the patches name a pass for the same place, it runs first.

    Raises:
        Error: INVALID_ARGUMENT for a pass that asks Inductor for more than the graph.
    """
    from torch._inductor import config, custom_graph_pass
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    if patches.get("freezing", config.freezing):
        more["inner_compile"] = joining(more.get("inner_compile", compile_fx_inner), [*example_inputs, *gm.parameters(), *gm.buffers()])
    first = patches.get(_PASS, getattr(config, _PASS))
    asks_more = getattr(custom_graph_pass, "CustomInferenceAwareGraphPass", None)  # not every build of torch has it
    if asks_more is not None and isinstance(first, asks_more):
        raise invalid(f"options: {_PASS} is a {type(first).__name__}, which asks whether the graph trains; sinter runs it with the graph alone")
    own = {_PASS: graph_pass.of(gm, example_inputs, first), _JOINT_PASS: KeepCompared(patches.get(_JOINT_PASS, getattr(config, _JOINT_PASS)))}
    return compile_fx(gm, example_inputs, config_patches={**patches, **own}, **more)


def split_options(mode: Optional[str], options: Optional[Dict[str, Any]]) -> "tuple[Options, Dict[str, Any]]":
    """Sinter's options, checked, and Inductor's."""
    from torch._inductor import list_mode_options

    given = dict(options or {})
    own = Options(**{name: given.pop(name) for name in Options._fields if name in given})
    patches = {**(list_mode_options(mode) if mode else {}), **{name.replace("-", "_"): value for name, value in given.items()}}
    if patches.get("max_autotune") and own.target is None and "measure" not in (options or {}):
        own = own._replace(measure=True)
    if own.prepare not in _PREPARE:
        raise invalid(f"options: prepare is {own.prepare!r}; there are {' '.join(_PREPARE)}")
    if not isinstance(own.verify, bool):
        raise invalid(f"options: verify is {own.verify!r}, must be True or False")
    if not isinstance(own.measure, int) or not (isinstance(own.measure, bool) or 1 <= own.measure <= MOST_CANDIDATES):
        raise invalid(f"options: measure is {own.measure!r}, must be True, False, or a number of candidates from 1 to {MOST_CANDIDATES}")
    if own.target is not None and not (isinstance(own.target, str) and own.target):
        raise invalid(f"options: target is {own.target!r}, must be the name of a chip, such as 'h200'")
    if own.measure and own.target is not None:
        raise invalid(f"options: measure is {own.measure!r} and target is {own.target!r}: nothing runs on a chip that is not here; leave one of them out")
    if own.target is not None:
        target_context(own.target)
    return own, patches
