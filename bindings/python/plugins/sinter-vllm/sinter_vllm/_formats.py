"""How a checkpoint's `quantization_config` scales its linear layers, in the words of ``_codes``: without vLLM and without weights.

vLLM chooses its kernels when it loads a model, so what is read here is a checkpoint's form, and not yet that vLLM's kernel leaves it as it is.
"""

from __future__ import annotations

import os
from typing import Any, List, Mapping, Tuple

#: The projections of a layer that a plan takes, as checkpoints name them.
_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "qkv_proj", "o_proj", "gate_proj", "up_proj", "gate_up_proj", "down_proj", "self_attn", "mlp")

#: Fields that list modules of 16 bits.
_LEFT_OUT = ("ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules")

#: Weights of four bits that share a scale, in matrices that plans take.
GROUPS = (32, 64, 128)

#: How vLLM is told to take Marlin, whose order of codes plans read.
TAKE_MARLIN = "start vLLM with VLLM_DISABLED_KERNELS=MacheteLinearKernel, or with --linear-backend marlin"

_MODELOPT = {"FP8": "static", "FP8_PER_CHANNEL_PER_TOKEN": "row"}


def quantizer_of(config: Mapping[str, Any]) -> Tuple[str, str]:
    """The quantizer of a decoder's layers, "" if they are not quantised, and why the plugin does not take them, with the field that decides."""
    given = config.get("quantization_config")
    if not isinstance(given, Mapping) or not given:
        return "", ""
    method = str(given.get("quant_method", ""))
    read = _METHODS.get(method)
    if read is None:
        return "", f"quantization_config has quant_method {method!r}: the plugin takes {', '.join(_METHODS)}"
    quantizer, reason = read(given)
    left = [name for name in _names(given) if any(part in name for part in _PROJECTIONS)]
    if quantizer and left:
        return "", f"quantization_config leaves {left[0]} in 16 bits: a plan's matrices are all quantised, or none"
    return quantizer, reason


def _names(given: Mapping[str, Any]) -> List[str]:
    """The modules that a checkpoint leaves in 16 bits; names of experts and routers do not count."""
    named: List[Any] = next((given[name] for name in _LEFT_OUT if given.get(name)), [])
    return [str(name) for name in named if not any(other in str(name) for other in ("expert", "router", "visual", "vision"))]


def _of_fp8(given: Mapping[str, Any]) -> Tuple[str, str]:
    blocks, scheme = given.get("weight_block_size"), given.get("activation_scheme")
    if blocks is not None:
        if list(blocks) != [128, 128]:
            return "", f"quantization_config has weight_block_size {blocks}, must be [128, 128]"
        return ("group", "") if scheme == "dynamic" else ("", f"quantization_config has activation_scheme {scheme!r} with blocks, must be 'dynamic'")
    if scheme == "static":
        return "static", ""
    return "", f"quantization_config has activation_scheme {scheme!r} without weight_block_size: rows of matrices with one scale need a given scale, 'static'"


def _of_compressed(given: Mapping[str, Any]) -> Tuple[str, str]:
    groups = list((given.get("config_groups") or {}).values())
    if len(groups) != 1:
        return "", f"quantization_config has {len(groups)} config_groups: layers must all be quantised alike"
    weights, rows = groups[0].get("weights") or {}, groups[0].get("input_activations") or {}
    if (weights.get("num_bits"), weights.get("type")) == (4, "int") and not rows:
        return _of_packed(given, weights)
    if (weights.get("num_bits"), weights.get("type")) != (8, "float"):
        return "", f"quantization_config has weights of type {weights.get('type')!r} with num_bits {weights.get('num_bits')}, must be 'float' with 8"
    if (rows.get("num_bits"), rows.get("type")) != (8, "float"):
        return "", "quantization_config has no input_activations of type 'float' with num_bits 8: rows stay in 16 bits"
    how = weights.get("strategy"), rows.get("strategy"), bool(rows.get("dynamic"))
    blocks = weights.get("block_structure")
    if how == ("block", "group", True) and list(blocks or ()) == [128, 128] and rows.get("group_size") == 128:
        return "group", ""
    for known, found in ((("channel", "token", True), "row"), (("tensor", "tensor", False), "static")):
        if how == known:
            return found, ""
    dynamic = "dynamic" if how[2] else "static"
    return "", f"quantization_config has strategy {how[0]!r} of weights and {how[1]!r}, {dynamic}, of rows, which no plan takes"


def _of_modelopt(given: Mapping[str, Any]) -> Tuple[str, str]:
    inner = given.get("quantization")
    algorithm = str((inner if isinstance(inner, Mapping) else given).get("quant_algo"))
    found = _MODELOPT.get(algorithm, "")
    return (found, "") if found else ("", f"quantization_config has quant_algo {algorithm!r}: the plugin takes {', '.join(_MODELOPT)}")


def _of_packed(given: Mapping[str, Any], weights: Mapping[str, Any]) -> Tuple[str, str]:
    """compressed-tensors' weights of four bits."""
    if given.get("format") not in (None, "pack-quantized"):
        return "", f"quantization_config has format {given.get('format')!r} of weights of four bits, must be 'pack-quantized'"
    if weights.get("actorder") == "group":
        return "", "quantization_config has actorder 'group', so rows would have to be permuted"
    if weights.get("strategy") != "group":
        return "", f"quantization_config has strategy {weights.get('strategy')!r} of weights of four bits, must be 'group'"
    return _four_bits(weights.get("group_size"), not weights.get("symmetric", True))


def _of_awq(given: Mapping[str, Any]) -> Tuple[str, str]:
    bits = given.get("w_bit", given.get("bits"))
    if bits != 4 or not given.get("zero_point"):
        return "", f"quantization_config has bits {bits} and zero_point {given.get('zero_point')}, must be 4 with zeros"
    return _four_bits(given.get("q_group_size", given.get("group_size")), True)


def _of_gptq(given: Mapping[str, Any]) -> Tuple[str, str]:
    if given.get("bits") != 4 or not given.get("sym"):
        return "", f"quantization_config has bits {given.get('bits')} and sym {given.get('sym')}, must be 4 and symmetric"
    if given.get("desc_act") and not given.get("static_groups"):
        return "", "quantization_config has desc_act without static_groups, so rows would have to be permuted"
    if given.get("dynamic"):
        return "", "quantization_config has dynamic: layers must all be quantised alike"
    return _four_bits(given.get("group_size"), False)


def _four_bits(group: Any, zeros: bool) -> Tuple[str, str]:
    if group not in GROUPS:
        return "", f"quantization_config has group_size {group}, must be one of {' '.join(map(str, GROUPS))}"
    return f"u4_g{group}{'_zeros' if zeros else ''}", ""


_METHODS = {"fp8": _of_fp8, "compressed-tensors": _of_compressed, "modelopt": _of_modelopt, "awq": _of_awq, "gptq": _of_gptq}


def is_packed(quantizer: str) -> bool:
    """Whether matrices have codes of four bits."""
    return quantizer.startswith("u4")


def told(quantizer: str) -> str:
    """A quantizer as the log names it."""
    return f"{'four bits' if is_packed(quantizer) else 'e4m3'} by {quantizer}"


def reason_against_kernel(quantizer: str) -> str:
    """Why the kernel that vLLM prefers on Hopper leaves codes in an order that no plan reads, by the environment; "" if it does not."""
    if not is_packed(quantizer) or quantizer.startswith("u4_g32") or "MacheteLinearKernel" in os.environ.get("VLLM_DISABLED_KERNELS", "").split(","):
        return ""
    return f"vLLM computes them by Machete, whose order of codes no plan reads: {TAKE_MARLIN}"
