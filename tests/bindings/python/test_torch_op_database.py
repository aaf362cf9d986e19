"""PyTorch's database of operators (OpInfo) through the backend without a gate: the reference computes each captured part, and verification compares it
with torch's operators in the same graph.

An everyday run takes a part of the database, which the commit draws (`everyday.py`). With SINTER_OP_DATABASE_LOG, a file, cases that passed are written there,
and later runs leave them out.
"""

import copy
import os
import sys
import types
import unittest
import warnings

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

if "expecttest" not in sys.modules:  # torch's own tests import it, and the database with them
    try:
        import expecttest  # noqa: F401
    except ImportError:
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)

from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from sinter.torch.backend import planner
from sinter.torch.runtime import verify

from everyday import COMMIT, LONG
from graphs import passed

_PARTS = 240  # an everyday run takes one of so many
_SAMPLES = 6  # of one operator and one element type, spread over the database's, in one graph
_BOUNDS = {torch.bfloat16: 4e-2, torch.float16: 8e-3}  # torch's operator and its decomposition round at other places
_DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.int32)
#: Operators that Dynamo traces for minutes, or whose samples are of no element type here.
_LEFT = ("linalg.", "fft.", "sparse.", "special.", "signal.", "masked.", "torch.ops.", "nn.functional.scaled_dot_product_attention")

_REMAINDERS = ("fmod", "remainder")


def transposed(x):
    return x.transpose(0, -1).contiguous().transpose(0, -1) if x.dim() > 1 else x


def expanded(x):
    """Equal numbers along the first axis, which lie in memory once."""
    return x[:1].expand(x.shape) if x.dim() > 1 and x.shape[0] > 1 else x


def strided(x):
    """Every second number of a larger memory."""
    return torch.stack([x, x], -1)[..., 0] if x.dim() else x


LAYOUTS = {"dense": lambda x: x, "transposed": transposed, "expanded": expanded, "strided": strided}


def cases():
    """(operator, element type) of the database that an everyday run takes."""
    known = sorted((o for o in op_db if not o.full_name.startswith(_LEFT)), key=lambda o: o.full_name)
    every = [(o, dtype) for o in known for dtype in _DTYPES if o.supports_dtype(dtype, "cpu")]
    return every if LONG else every[COMMIT % _PARTS :: _PARTS]


def name_of(case):
    return f"{case[0].full_name}-{str(case[1])[6:]}"


def samples_of(op, dtype):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        every = [each for each in op.sample_inputs("cpu", dtype) if fits(each) and not (op.name in _REMAINDERS and overflows(each))]
    return every[:: max(1, len(every) // _SAMPLES)][:_SAMPLES]


def overflows(sample):
    """Whether a quotient may: the database takes the least normal numbers instead of zeros, and torch's remainders on the CPU are NaN then."""
    divisors = [x for x in (sample.input, *sample.args) if isinstance(x, torch.Tensor) and x.dtype.is_floating_point]
    return any((x.abs() < 2.0**-100).any() for x in divisors)


def fits(sample):
    leaves = pytree.tree_leaves((sample.input, sample.args, sample.kwargs))
    tensors = [x for x in leaves if isinstance(x, torch.Tensor)]
    plain = all(x.layout is torch.strided and 0 < x.numel() < 1 << 16 and not x.is_complex() for x in tensors)
    return bool(tensors) and plain and not any(isinstance(x, torch.Generator) for x in leaves)


def wrong_of(op, sample, layout):
    """The errors of one sample's graph, in its parts or its results; no error if torch itself does not compile it."""
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    at = [i for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
    tensors = [layout(leaves[i].detach()) for i in at]

    def f(*given):
        own = list(leaves)
        for i, x in zip(at, given):
            own[i] = x
        first, args, kwargs = pytree.tree_unflatten(own, spec)
        return op.op(first, *args, **kwargs)

    try:
        expected, again = (results_of(f(*copy.deepcopy(tensors))) for _ in range(2))
    except Exception:  # such as an operator in place on an expanded tensor
        return []
    with torch.no_grad():
        compiled, _ = passed(f)
        try:
            found = results_of(compiled(*copy.deepcopy(tensors)))
        except Exception as error:
            if any(traced(error)):
                raise
            return []
    wrong = [c for c in verify.comparisons if not c.within]
    if not verify.comparisons or any(not close(a, b, 0.0) for a, b in zip(expected, again)):  # random numbers, memory without values
        return wrong
    return wrong + [(a, b) for a, b in zip(found, expected) if a.shape != b.shape or not close(a, b, _BOUNDS.get(b.dtype, 1e-4))]


def results_of(value):
    return [x for x in pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]


def close(a, b, bound):
    return verify.difference(a, b, bound)[1]


def traced(error):
    """Yields for each frame of Sinter's pass through which an error came."""
    while error is not None:
        at = error.__traceback__
        while at is not None:
            if f"{os.sep}sinter{os.sep}" in at.tb_frame.f_code.co_filename and "backend/__init__" not in at.tb_frame.f_code.co_filename:
                yield at
            at = at.tb_next
        error = error.__cause__ or error.__context__


def log():
    path = os.environ.get("SINTER_OP_DATABASE_LOG")
    return path, set(open(path).read().split()) if path and os.path.exists(path) else set()


@pytest.mark.parametrize("case", cases(), ids=name_of)
def test_an_operator_is_right_alone(case, monkeypatch):
    path, passed_before = log()
    if name_of(case) in passed_before:
        pytest.skip("it passed before")
    monkeypatch.setattr(planner, "worth_a_try", lambda *_, **__: True)
    op, dtype = case
    wrong = []
    for number, sample in enumerate(samples_of(op, dtype)):
        name, layout = list(LAYOUTS.items())[number % len(LAYOUTS)]
        wrong += [(name, each, sample) for each in wrong_of(op, sample, layout)]
    assert not wrong, wrong
    if path:
        with open(path, "a") as file:
            file.write(f"{name_of(case)}\n")
