"""``python -m sinter_vllm MODEL``: the parts of a model that the plugin takes in vLLM, and why it leaves the others.

MODEL is a folder with `config.json`, or that file. Neither vLLM nor a GPU is needed and no weight is read, so what vLLM itself decides when it loads
a model is not known: LoRA, its kernels, and which of its classes computes the model. Ends with 0 if a part is taken, 1 if none is, 2 if there is
no such config.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import sys
from typing import Any, List, Mapping, NamedTuple, Optional, Sequence

from . import VERSIONS, _formats, _graphs
from . import versions as written_for


class Part(NamedTuple):
    """A part of a model: whether the plugin takes it, and how or why not."""

    name: str
    taken: bool
    why: str


def parts_of(config: Mapping[str, Any], ranks: int = 1) -> List[Part]:
    """The parts of a model by its config.

    Raises:
        Error: INVALID_ARGUMENT for a config that lacks a field, or if layers cannot be split over `ranks`.
    """
    from sinter.torch import servers

    decoder = servers.decoder_of(config)
    found = _of_experts(decoder, ranks, servers) if servers.has_experts(decoder) else _of_layers(decoder, ranks, servers)
    left = f"the model is on {ranks} GPUs" if ranks > 1 else "" if _graphs.wanted() else f"{_graphs.VARIABLE} is 0"
    graphs = Part("other ops between attentions", not left, left or "parts of the graphs that vLLM compiles, where a plan is faster")
    return [*found, graphs, Part("attention, output matrix, sampling", False, "the plugin has no plans for them")]


def _asking(decoder: Mapping[str, Any], ranks: int, servers: Any) -> Any:
    """The chains that the plugin asks for, and the reasons for what it leaves."""
    asking = servers.asked_of(decoder, servers.SIZES, False, ranks)
    return (asking, "") if asking.wanted else (None, "; ".join(asking.left))


def _of_experts(decoder: Mapping[str, Any], ranks: int, servers: Any) -> List[Part]:
    asking, reason = _asking(decoder, ranks, servers)
    return [Part("experts", asking is not None, reason or "where vLLM would compute them by Triton, at one row and at 9 to 64"), Part("layers from attention to attention", False, "the model is a mixture of experts")]


def _of_layers(decoder: Mapping[str, Any], ranks: int, servers: Any) -> List[Part]:
    layers, mlps = "layers from attention to attention", "gated MLPs"
    quantizer, reason = _formats.quantizer_of(decoder)
    plain = {name: value for name, value in decoder.items() if name != "quantization_config"}
    asking, against = _asking(plain, ranks, servers)
    linking = against or next((left.partition(": ")[2] for left in asking.left if left.startswith("what lies between two attentions")), "")
    reason = reason or linking or (_reason_against_codes(decoder, quantizer, ranks, servers) if quantizer else "")
    if not reason:
        mlps_reason = "the layers that hold them are taken"
    elif against or not decoder.get("quantization_config"):
        mlps_reason = against
    else:
        mlps_reason = "they are quantised, and only whole layers are taken so"
    if not mlps_reason and ranks == 1 and _graphs.wanted():
        mlps_reason = "they are in the parts of graphs"
    how = f"of {_formats.told(quantizer)}" if quantizer else str(decoder.get("torch_dtype") or decoder.get("dtype"))
    return [Part(layers, not reason, reason or f"{how}, all but the first product of queries, keys and values and the last MLP"),
            Part(mlps, bool(reason) and not mlps_reason, mlps_reason or "each a plan of its own")]


def _reason_against_codes(decoder: Mapping[str, Any], quantizer: str, ranks: int, servers: Any) -> str:
    """Why layers with codes of a supported format are left; "" if they are taken."""
    if ranks > 1:
        return f"layers of {_formats.told(quantizer)} on {ranks} GPUs: the plugin takes them on one"
    packed = servers.packed_matrix.PACKED.get(quantizer)
    unit = max(servers.packed_matrix.SET, packed.group) if packed else servers.BLOCK if quantizer == "group" else 16
    for name in ("hidden_size", "intermediate_size"):
        if decoder[name] % unit:
            return f"{name} is {decoder[name]}, must be a multiple of {unit}"
        if packed and decoder[name] == packed.group:
            return f"{name} is {decoder[name]}, one group, whose scales Marlin orders in another way"
    return _formats.reason_against_kernel(quantizer)


def _read(path: str) -> Mapping[str, Any]:
    """The config at a path.

    Raises:
        ValueError: it is none.
    """
    file_name = os.path.join(path, "config.json") if os.path.isdir(path) else path
    try:
        with open(file_name, encoding="utf-8") as file:
            config = json.load(file)
    except OSError as error:
        raise ValueError(f"{file_name}: {error.strerror}") from None
    except ValueError as error:
        raise ValueError(f"{file_name} is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{file_name} has {type(config).__name__}, not an object with the fields of a model")
    return config


def versions() -> str:
    """The vLLM that is installed, and the versions that the plugin was written for."""
    try:
        found = importlib.metadata.version("vllm")
    except importlib.metadata.PackageNotFoundError:
        return f"vLLM is not installed; the plugin takes {written_for()}"
    from sinter.torch import servers

    fits = VERSIONS[0] <= servers.version_of(found) < VERSIONS[1]
    return f"vLLM {found}: the plugin takes {written_for()}{'' if fits else ', so it leaves everything to this one'}"


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """The command. Returns how the process ends."""
    from sinter import Error

    parser = argparse.ArgumentParser(prog="python -m sinter_vllm", description="Names the parts of a model that Sinter's plugin takes in vLLM, without loading it.")
    parser.add_argument("model", help="a folder with config.json, or the file")
    parser.add_argument("--ranks", type=int, default=1, help="GPUs that each layer is split over")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    try:
        config = _read(options.model)
        parts = parts_of(config, options.ranks)
    except (ValueError, Error) as error:
        print(f"sinter_vllm: {error}", file=sys.stderr)
        return 2
    if options.json:
        print(json.dumps({"versions": versions(), "parts": [part._asdict() for part in parts]}, indent=2))
    else:
        print(versions())
        print(f"{(config.get('architectures') or ['a model'])[0]}, model_type {config.get('model_type')}, {options.ranks} GPU{'s' * (options.ranks > 1)} a layer")
        for part in parts:
            print(f"  {'taken' if part.taken else 'left':6}{part.name}: {part.why}")
    return 0 if any(part.taken for part in parts) else 1


if __name__ == "__main__":
    sys.exit(main())
