"""Names of contestants and what they stand for."""

from models import SCALES

#: PyTorch's, with the mode of its compiler.
TORCH = {"eager": None, "serving": None, "compile": None, "max-autotune": "max-autotune-no-cudagraphs"}
#: The same of mixtures of experts alone: these are an operator that the compiler does not look into, as in vLLM: Triton's kernels, or what vLLM's plugin takes.
OPAQUE = ("compile-triton", "sinter-plugin")
TORCH.update(dict.fromkeys(OPAQUE))
#: What follows `sinter` in a name, in this order.
FLAGS = ("split", "unfused", "folded", "pdl")


def weights_of(name):
    """("bf16", "fp8" or "fp8-block"; the name without): `sinter-fp8-block-pdl` -> ("fp8-block", "sinter-pdl")."""
    for weights in sorted(SCALES, key=len, reverse=True):
        if f"-{weights}-" in name + "-":
            return weights, (name + "-").replace(f"-{weights}-", "-", 1)[:-1]
    return "bf16", name


def torch_of(name):
    """(mode, whether products accumulate fast) of a contestant of PyTorch's; None of another. `fast` follows fp8 alone."""
    weights, rest = weights_of(name)
    mode, fast = (rest[:-5], True) if weights == "fp8" and rest.endswith("-fast") else (rest, False)
    known = mode in TORCH and (weights == "bf16" or mode not in ("serving", *OPAQUE))
    return (mode, fast) if known else None


def flags_of(name):
    """The flags of `sinter[-split|-unfused][-folded][-fp8[-block]][-pdl]`, in this order.

    Raises:
        ValueError: another name.
    """
    weights, rest = weights_of(name)
    word, *flags = rest.split("-")
    known = [flag for flag in FLAGS if flag in flags]
    whole = "-".join(["sinter", *(f for f in known if f != "pdl"), *([weights] if weights != "bf16" else []), *(f for f in known if f == "pdl")])
    if name != whole or {"split", "unfused"} <= set(flags) or (weights != "bf16" and "folded" in flags):
        raise ValueError(f"no contestant is called {name!r}")
    return set(flags)


def parts_of(flags):
    """Names of the functions in `chains` that a variant's plans compute."""
    return ("first", "upper", "lower", "lower_last") if "split" in flags else ("first", "between", "last")
