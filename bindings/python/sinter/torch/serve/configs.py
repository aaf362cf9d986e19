"""The chains and numbers of rows that server plugins ask for, by a model's `config.json`, and the layers that they leave to the server."""

from __future__ import annotations

import functools
import sys
import threading
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch

from ..._argument import instance, integer
from ..._context import Context
from ..._error import invalid
from ..._prepare import checked_measure
from ..runtime.buckets import EXPERTS_ROWS, SIZES
from ..runtime.experts import MOST_EXPERTS, MOST_TOP, experts_line
from ..runtime.gated_mlp import chain_line
from ..runtime.register import HALVES
from ..runtime.store import sizes_of, store
from .between_chain import Extents
from .between_op import between_key
from .scaled_experts import BLOCK, scaled_experts_key

#: Models by `model_type` that servers compute by classes whose layers and MLPs the plugins take: the classes of Llama and Qwen.
_OF_LLAMA = ("llama", "mistral", "phi3", "aquila", "cwm", "internlm", "internlm3", "xverse")
_OF_QWEN = ("qwen2", "qwen3")
#: Properties of mixtures of experts for which the config has no field.
_NO_EXPERTS = {
    "gpt_oss": "its experts have biases and a bounded, interleaved SiLU",
    "llama4": "weights multiply its experts' rows",
    "llama4_text": "weights multiply its experts' rows",
}
#: Field names for each quantity; the first that a config has counts.
_EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts")
_TOP = ("num_experts_per_tok", "num_experts_per_token")
_WIDTH = ("moe_intermediate_size", "intermediate_size")
_ACTIVATIONS = ("hidden_act", "hidden_activation")


class Wanted(NamedTuple):
    """A chain that plugins ask for.

    Attributes:
        what: the layers of the model that it computes.
        line: its text, or the key of a registered chain.
        sizes: numbers of rows.
    """

    what: str
    line: str
    sizes: List[int]


class Asking(NamedTuple):
    """The chains that plugins ask for, and the layers that they leave to the server, each with the config field that decides."""

    wanted: List[Wanted]
    left: List[str]


def prepare_config(
    config: Mapping[str, Any],
    context: Context,
    sizes: Sequence[int] = SIZES,
    *,
    folded: bool = False,
    ranks: int = 1,
    tell: "Callable[[str], object] | None" = None,
    measure: int = 0,
) -> Dict[Tuple[str, int], str]:
    """Prepares the chains that the plugins ask for, so that a machine without a GPU fills a cache for the machines that serve.

    Args:
        config: the transformers config, with the fields of `config.json`.
        context: where to prepare; one for a target needs no GPU.
        sizes: the tops of the buckets; (*SIZES, *PREFILL_SIZES) if the plugins are asked for prefill too.
        folded: prepare for SINTER_VLLM_FOLD=1.
        ranks: GPUs that each layer is split over; plans between attentions are then for up to 512 rows.
        tell: called with lines that report the prepared chains, the layers left to the server with the field that decides, and the progress; by
            default they are written to standard error.
        measure: candidates that are measured for each plan, see ``Context.prepare``; one rank's part of a layer cannot be measured.

    Returns:
        The digest of each plan by chain and size.

    Raises:
        Error: INVALID_ARGUMENT for a config that lacks a field or has one that does not fit, and for a config of which the plugins take
            nothing, with the field that decides; any error of a prepare.
    """
    instance(context, Context, "context")
    checked_measure(measure)
    told = functools.partial(print, file=sys.stderr, flush=True) if tell is None else tell
    asking = asked_of(config, sizes_of(sizes), folded, ranks)
    if not asking.wanted:
        raise invalid(f"the plugins take nothing of this model: {'; '.join(asking.left)}")
    for left in asking.left:
        told(f"sinter: left to the server: {left}")
    for wanted in asking.wanted:
        told(f"sinter: {wanted.what}: {len(wanted.sizes)} numbers of rows, {wanted.sizes[0]} to {wanted.sizes[-1]}")
    total = sum(len(wanted.sizes) for wanted in asking.wanted)
    made: Dict[Tuple[str, int], str] = {}
    for wanted in asking.wanted:
        made.update(store.prepare(context, [wanted.line], wanted.sizes, _Told(told, len(made), len(wanted.sizes), total), measure))
    return made


class _Told:
    """Reports the progress of a prepare of several plans as lines, at each tenth of the plans. Called from any thread."""

    def __init__(self, tell: Callable[[str], object], before: int, count: int, total: int) -> None:
        self._tell, self._before, self._count, self._total = tell, before, count, total
        self._last, self._lock = before * 10 // total, threading.Lock()

    def __call__(self, stage: str, fraction: float) -> None:
        done = self._before + int(self._count * fraction + 1e-6)
        with self._lock:
            if done * 10 // self._total <= self._last:
                return
            self._last = done * 10 // self._total
        self._tell(f"sinter: {done} of {self._total} plans are there")


def asked_of(config: Mapping[str, Any], sizes: Sequence[int], folded: bool, ranks: int) -> Asking:
    """The chains that plugins ask for at `sizes`, ascending, and the layers that they leave to the server. If there are no chains, what is
    left says why.

    Raises:
        Error: INVALID_ARGUMENT as in ``prepare_config``, but not for a model of which they take nothing.
    """
    ranks = integer(ranks, "ranks", 1, 8)
    config = decoder_of(config)
    if has_experts(config):
        asking = _of_experts(config, [size for size in sizes if size in EXPERTS_ROWS], ranks)
    else:
        asking = _of_layers(config, sizes, folded, ranks)
    return asking if asking.wanted or asking.left else asking._replace(left=["they have plans for none of these sizes"])


def decoder_of(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The config of a model's decoder: the model's own, or a part of it where the model takes more than text."""
    text = config.get("text_config")
    if not isinstance(text, Mapping) or "hidden_size" in config:
        return config
    return {**{name: config[name] for name in ("torch_dtype", "dtype", "quantization_config") if name in config}, **text}


def has_experts(config: Mapping[str, Any]) -> bool:
    """Whether a decoder is a mixture of experts."""
    experts = _found(config, _EXPERTS)
    return experts is not None and experts[1] > 1


def _of_layers(config: Mapping[str, Any], sizes: Sequence[int], folded: bool, ranks: int) -> Asking:
    """The chains of a decoder with gated MLPs: the layers between two attentions, and MLPs."""
    kind, method = config.get("model_type", "llama"), _quantised_by(config)
    if kind not in (*_OF_LLAMA, *_OF_QWEN):
        return Asking([], [f"model_type is {kind!r}: of models without experts there are {' '.join((*_OF_LLAMA, *_OF_QWEN))}"])
    if method:
        return Asking([], [f"quantization_config has quant_method {method!r}: layers must be of bfloat16 or float16"])
    against = _reason_against_activation(config) or (_is_set(config, "mlp_bias") if kind in _OF_LLAMA else "")
    if against:
        return Asking([], [against])
    _need(config, "hidden_size", "intermediate_size", "num_attention_heads", "rms_norm_eps")
    dtype = _dtype_of(config)
    hidden, inner, heads = (_number(config, name) for name in ("hidden_size", "intermediate_size", "num_attention_heads"))
    head = config.get("head_dim") or hidden // heads
    key_heads = config.get("num_key_value_heads") or heads
    if heads % ranks or inner % ranks or (key_heads % ranks and ranks % key_heads):
        raise invalid(f"ranks is {ranks}: {heads} heads, {key_heads} of keys and values, and {inner} columns cannot be split so")
    heads, inner, key_heads = heads // ranks, inner // ranks, max(key_heads // ranks, 1)
    if hidden % 8 or inner % 8:
        return Asking([], [f"hidden_size is {hidden} and intermediate_size {inner} on a GPU: both must be multiples of 8"])
    wanted, left = [], []
    against = _reason_against_linking(config, kind)
    few = [size for size in sizes if ranks == 1 or size <= SIZES[-1]]
    if against:
        left.append(f"what lies between two attentions: {against}")
    elif few:
        columns = (heads + 2 * key_heads) * head
        of = Extents(hidden, inner, columns, heads * head)
        key = between_key(of, config["rms_norm_eps"], dtype, folded, ranks)
        wanted.append(Wanted(f"{kind}'s layers from attention to attention", key, few))
    if sizes:
        wanted.append(Wanted(f"{kind}'s gated MLPs", chain_line(inner, hidden, hidden, "silu", dtype), list(sizes)))
    return Asking(wanted, left)


def _reason_against_linking(config: Mapping[str, Any], kind: str) -> str:
    """Why layers keep their attention projections, so that only MLPs are taken; "" if they do not keep them."""
    if kind == "qwen2":
        return "model_type is 'qwen2', whose projections of attention have biases"
    for name in ("attention_bias", *(("bias", "qkv_bias") if kind in _OF_LLAMA else ())):
        reason = _is_set(config, name)
        if reason:
            return reason
    if config.get("num_hidden_layers", 2) < 2:
        return f"num_hidden_layers is {config['num_hidden_layers']}, must be 2 or more"
    eps = config["rms_norm_eps"]
    return "" if isinstance(eps, (int, float)) and 0 < eps <= 1 else f"rms_norm_eps is {eps!r}, must be above 0 and at most 1"


def _of_experts(config: Mapping[str, Any], sizes: List[int], ranks: int) -> Asking:
    """The chains of a mixture of experts: experts of 16 bits, or of e4m3 with block scales. e4m3 has one chain for vLLM's form of rows, and one
    for SGLang's."""
    kind = config.get("model_type", "")
    left = [f"all but experts: model_type is {kind!r}, a mixture of experts"]
    against = _reason_against_experts(config, kind)
    if against:
        return Asking([], [against])
    _need(config, "hidden_size")
    hidden, dtype = _number(config, "hidden_size"), _dtype_of(config)
    (name, experts), (top_name, top), (width_name, inner) = (_needed(config, names) for names in (_EXPERTS, _TOP, _WIDTH))
    if inner % ranks:
        raise invalid(f"ranks is {ranks}: {width_name} is {inner}, which cannot be split so")
    inner //= ranks
    for field, value, most in ((name, experts, MOST_EXPERTS), (top_name, top, MOST_TOP)):
        if value > most:
            return Asking([], [f"{field} is {value}, at most {most} are taken"])
    codes = bool(_quantised_by(config))
    multiple = BLOCK if codes else 8
    if hidden % multiple or inner % multiple:
        return Asking([], [f"hidden_size is {hidden} and {width_name} {inner} on a GPU: both must be multiples of {multiple}"])
    if not sizes:
        return Asking([], [f"sizes have none of {' '.join(map(str, EXPERTS_ROWS))}, which experts have plans for"])
    what = f"{kind}'s experts, {experts} of {inner} x {hidden}"
    if not codes:
        return Asking([Wanted(what, experts_line(experts, top, inner, hidden, hidden, "silu", dtype), sizes)], left)
    wanted = []
    for coded, server in ((True, "vLLM"), (False, "SGLang")):
        if not coded and config.get("routed_scaling_factor") not in (None, 1.0):
            left.append(f"experts in SGLang: routed_scaling_factor is {config['routed_scaling_factor']}, by which it scales their sum")
            continue
        key = scaled_experts_key(experts, top, inner, hidden, hidden, dtype, coded)
        wanted.append(Wanted(f"{what}, of e4m3, in {server}", key, sizes))
    return Asking(wanted, left)


def _reason_against_experts(config: Mapping[str, Any], kind: str) -> str:
    """Why the server keeps computing experts; "" if a plugin takes them."""
    if kind in _NO_EXPERTS:
        return f"model_type is {kind!r}: {_NO_EXPERTS[kind]}"
    if config.get("swiglu_limit") is not None:
        return f"swiglu_limit is {config['swiglu_limit']}: SiLU must not be bounded"
    method, blocks = _quantised_by(config), (config.get("quantization_config") or {}).get("weight_block_size")
    if method and method != "fp8":
        return f"quantization_config has quant_method {method!r}: experts must be of bfloat16, float16, or of fp8 with weight_block_size [128, 128]"
    if method and (blocks is None or list(blocks) != [BLOCK, BLOCK]):
        return f"quantization_config has weight_block_size {blocks}, must be [128, 128]"
    return _reason_against_activation(config)


def _reason_against_activation(config: Mapping[str, Any]) -> str:
    found = next((name for name in _ACTIVATIONS if config.get(name) is not None), None)
    return "" if found is None or config[found] == "silu" else f"{found} is {config[found]!r}, must be 'silu'"


def _is_set(config: Mapping[str, Any], name: str) -> str:
    return f"{name} is {config[name]}, must be False" if config.get(name) else ""


def _quantised_by(config: Mapping[str, Any]) -> str:
    """The method of a quantised checkpoint; "" for any other."""
    given = config.get("quantization_config")
    return str(given.get("quant_method", given)) if isinstance(given, Mapping) and given else ""


def _dtype_of(config: Mapping[str, Any]) -> torch.dtype:
    name = config.get("torch_dtype") or config.get("dtype")
    dtype: Any = getattr(torch, str(name), None)
    if not isinstance(dtype, torch.dtype) or dtype not in HALVES:
        raise invalid(f"config has torch_dtype {name!r}: the plugins take bfloat16 and float16")
    return dtype


def _need(config: Mapping[str, Any], *names: str) -> None:
    lacking = [name for name in names if config.get(name) is None]
    if lacking:
        raise invalid(f"config has no {', '.join(lacking)}: it is that of no decoder with gated MLPs and RMS norms")


def _found(config: Mapping[str, Any], names: Sequence[str]) -> Optional[Tuple[str, int]]:
    """The first field of `names` that is a number, and that number."""
    return next(((name, config[name]) for name in names if isinstance(config.get(name), int)), None)


def _needed(config: Mapping[str, Any], names: Sequence[str]) -> Tuple[str, int]:
    found = _found(config, names)
    if found is None:
        raise invalid(f"config has no {' or '.join(names)}, which a mixture of experts needs")
    return found[0], _number(config, found[0])


def _number(config: Mapping[str, Any], name: str) -> int:
    return integer(config[name], name, 1, 2**31 - 1)
