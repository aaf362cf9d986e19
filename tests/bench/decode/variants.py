"""Names of contestants and what they stand for."""

#: PyTorch's, with the mode of its compiler.
TORCH = {"eager": None, "serving": None, "compile": None, "max-autotune": "max-autotune-no-cudagraphs"}
#: What follows `sinter` in a name, in this order.
FLAGS = ("split", "unfused", "folded", "pdl")


def flags_of(name):
    """The flags of `sinter[-split|-unfused][-folded][-pdl]`, in this order.

    Raises:
        ValueError: another name.
    """
    word, *flags = name.split("-")
    known = [flag for flag in FLAGS if flag in flags]
    if word != "sinter" or flags != known or {"split", "unfused"} <= set(flags):
        raise ValueError(f"no contestant is called {name!r}")
    return set(flags)


def parts_of(flags):
    """Names of the functions in `chains` that a variant's plans compute."""
    return ("first", "upper", "lower", "lower_last") if "split" in flags else ("first", "between", "last")
