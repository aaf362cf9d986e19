"""What several GPUs measure of a split model: shapes by the number of ranks, and the names of the ways to sum. Needs neither PyTorch nor the library."""

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "decode"))
from models import LARGE  # noqa: E402

MOST = 8  # GPUs of one host
MODELS = ("Llama-3-70B", "Qwen3-32B")
#: torch's ways to sum over ranks. Multimem needs NVLink multicast. The asynchronous products of `symm async` overlap their transfer.
SUMS = ("nccl", "symm one-shot", "symm two-shot", "symm multimem", "symm multimem one-shot")
ASYNC = "symm async"
#: Rows of a prompt: from here on asynchronous products are measured.
ASYNC_FROM = 1024


def share(name, ranks):
    """Columns of a model's hidden state, and those that each of `ranks` GPUs has of attention's result and of the gate.

    Raises ValueError where GPUs cannot have equal shares.
    """
    model = LARGE[f"{name}-12L"]
    for what, count in (("heads", model.heads), ("heads of keys", model.kv_heads), ("columns of the gate", model.inner)):
        if count % ranks:
            raise ValueError(f"{name} has {count} {what}, which {ranks} ranks cannot share equally: measure 2, 4 or 8 ranks")
    return model.hidden, model.q // ranks, model.inner // ranks


def layer_ways(rows):
    """The ways to compute a layer of so many rows."""
    return SUMS + ((ASYNC,) if rows >= ASYNC_FROM else ())


def number_of_ranks(text):
    """An argument: 2 to 8."""
    ranks = int(text)
    if not 2 <= ranks <= MOST:
        raise ValueError(f"{ranks} ranks, must be 2 to {MOST}")
    return ranks
