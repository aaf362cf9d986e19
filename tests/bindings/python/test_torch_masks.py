"""Arithmetic of masks, choices along an axis and gated units through the backend's pass; and programs of public bug reports of PyTorch."""

import math

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

from sinter.torch.runtime import verify

from graphs import DEVICE, passed
from test_torch_backend import left

N, F = torch.nn, torch.nn.functional


def taken(reports):
    return [str(node.target) for report in reports for part in report.taken for node in part.nodes]


def same(f, *inputs, options=None):
    """Reports of `f`, whose results are torch's; integers and predicates bit by bit."""
    inputs = [x.to(DEVICE) for x in inputs]
    with torch.no_grad():
        compiled, reports = passed(f, options)
        found, expected = compiled(*inputs), f(*inputs)
    for a, b in zip(*(torch.utils._pytree.tree_leaves(each) for each in (found, expected)), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape and a.stride() == b.stride()
        bound = {torch.bfloat16: 2e-2, torch.float16: 4e-3}.get(a.dtype, 1e-4)
        assert verify.difference(a, b, bound)[1] if a.is_floating_point() else torch.equal(a, b), (a, b)
    assert all(c.within for c in verify.comparisons), [c for c in verify.comparisons if not c.within]
    return reports


torch.manual_seed(3)
A, B, C = (torch.rand(6, 16) > 0.5 for _ in range(3))
X = torch.randn(6, 16)

#: What torch makes of masks, by the operators that stay in its graph.
MASKS = {
    "mul": lambda a, b: a * b,
    "mul by a row": lambda a, b: a * b[:1],
    "mul by True": lambda a, b: a * True * b,
    "mul by False": lambda a, b: a * False + b,
    "add": lambda a, b: a + b,
    "add with alpha": lambda a, b: torch.add(a, b, alpha=True),
    "add without": lambda a, b: torch.add(a, b, alpha=False),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "xor": lambda a, b: a ^ b,
    "logical xor": torch.logical_xor,
    "xor with True": lambda a, b: (a ^ True) | b,
    "and with True": lambda a, b: (a & True) ^ b,
    "amax": lambda a, b: a.amax(-1, keepdim=True) & b,
    "amin": lambda a, b: a.amin(-1, keepdim=True) | b,
    "all": lambda a, b: a.all(-1, keepdim=True) | b,
    "equal": lambda a, b: (a == b) * a,
    "less": lambda a, b: (a < b) + a,
    "where": lambda a, b: torch.where(a, b, ~b) * a,
}


@pytest.mark.parametrize("name", MASKS)
def test_arithmetic_of_masks_stays_in_its_part(name):
    def f(a, b, x):
        return (x.exp() * 2).masked_fill(MASKS[name](a, b), 0.0).softmax(-1)

    reports = same(f, A, B, X)
    assert len(reports[0].taken) == 1 and not left(reports), left(reports)


def test_a_mask_times_numbers_is_of_numbers():
    reports = same(lambda a, x: ((x * a).exp() + a * 2.5, (a.int() * 3 + a).float() * x), A, X)
    assert len(taken(reports)) > 3 and not left(reports), left(reports)


def test_logical_operators_of_numbers_are_of_what_is_not_zero():
    x = torch.tensor([0.0, -0.0, math.nan, 1.5, -math.inf, 0.25]).repeat(2, 3)
    y = x.flip(-1)
    reports = same(lambda x, y: x.exp().masked_fill(torch.logical_xor(x, y) | torch.logical_and(x, y), 3.0) + 1, x, y)
    assert "aten.logical_xor.default" in taken(reports)


# ---------------------------------------------------------------- Gated units


@pytest.mark.parametrize("axis", [-1, 0])
def test_gated_linear_units_are_taken(axis):
    class Model(N.Module):
        def __init__(self):
            super().__init__()
            self.linear = N.Linear(64, 128)

        def forward(self, x):
            return F.glu(self.linear(x), axis) * 2

    reports = same(Model().to(DEVICE).bfloat16(), torch.randn(16, 64).bfloat16())
    assert "aten.glu.default" in taken(reports) and not left(reports), left(reports)


# ---------------------------------------------------------------- The largest along an axis, and where it is

#: Rows with equal elements, with NaN (one, several, alone), and of infinities.
EDGES = torch.tensor(
    [
        [1.0, 7.0, 7.0, 3.0, 7.0],
        [2.0, math.nan, 9.0, math.nan, 1.0],
        [math.nan] * 5,
        [-math.inf] * 5,
        [math.inf, 1.0, math.inf, -math.inf, 0.0],
        [0.0, -0.0, 0.0, -0.0, 0.0],
    ]
)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("axis", [1, 0])
def test_a_choice_gives_values_and_the_first_place(dtype, keep, name, axis):
    x = EDGES.to(dtype) if dtype.is_floating_point else torch.randint(0, 3, (6, 5), dtype=dtype)
    reports = same(lambda x: getattr((x + 1) * 2, name)(axis, keepdim=keep), x)
    assert f"aten.{name}.dim" in taken(reports), left(reports)
    if not dtype.is_floating_point or axis == 1:
        return
    assert "getitem" not in left(reports)


def test_values_alone_of_a_choice_are_taken_and_places_alone_too():
    x = torch.randn(8, 64)
    reports = same(lambda x: x.exp().max(-1)[0] + 1, x)
    assert "aten.max.dim" in taken(reports) and not left(reports), left(reports)
    reports = same(lambda x: (x.exp() + 1).max(-1)[1], x)
    assert "aten.max.dim" in taken(reports) and not left(reports), left(reports)


def test_rows_by_a_choice_are_gathered_in_its_part():
    table = torch.randn(64, 32)
    reports = same(lambda x, table: F.embedding((x.exp() * 2).max(-1)[1], table).relu() + 1, torch.randn(8, 64), table)
    assert "aten.max.dim" in taken(reports) and "aten.embedding.default" in taken(reports)


# ---------------------------------------------------------------- Programs of public bug reports


def test_places_in_masks():
    """pytorch/pytorch 174069 and 184893: Inductor gave other places of `max` and `min` of masks."""
    mask = torch.zeros(4, 8, 32).bool()
    mask[:, 4:] = True
    reports = same(lambda x: (x.max(1, keepdim=True)[1], (~x).max(1)[0]), mask)
    assert "aten.max.dim" in taken(reports)
    for n in range(1, 8):
        same(lambda x: x.logical_not().min(0), torch.rand(n, 32) > 0.5)


def test_places_in_a_sum_of_a_transposed_matrix():
    """pytorch/pytorch 178964: (a + b).max(dim=1) gave zeros as places."""
    reports = same(lambda a, b: (a + b).max(dim=1), torch.randn(8, 8).transpose(0, 1), torch.randn(8, 8))
    assert "aten.max.dim" in taken(reports)


def test_places_of_nan_behind_a_logarithm():
    """pytorch/pytorch 118266: the place of a NaN that log1p makes."""
    reports = same(lambda x: torch.log1p(x).max(0), torch.tensor([[-2.0, 100.0], [100.0, -3.0], [5.0, 7.0]]))
    assert "aten.max.dim" in taken(reports)


def test_a_number_times_its_own_mask():
    """pytorch/pytorch 100466: x * (x >= 0) was NaN."""
    same(lambda x: x * (x >= 0).float() * (x >= 0) + (x >= 0) * (x <= 1), torch.rand(3, 3))


def test_a_fill_by_a_mask_of_rows():
    """pytorch/pytorch 93823: a mask that is spread over columns filled some of them."""
    y = torch.ones(2, 4, 1).bool()
    reports = same(lambda x, y: (x + 1).masked_fill(y * y, 0).sum(-1), torch.rand(2, 4, 8), y)
    assert not left(reports), left(reports)


def test_a_padded_mask():
    """pytorch/pytorch 126449: padding a mask did not compile."""
    same(lambda m, x: x.exp().masked_fill(F.pad(m, [2, 3]) * (x > 0), 1.0) * 2, torch.zeros(4, 11).bool(), torch.randn(4, 16))


def test_attention_whose_mask_is_all_false():
    """pytorch/pytorch 100318: rows without a key, filled with a large number, were NaN after a fusion of attention."""

    def attend(q, k, v, mask):
        scores = (q @ k.transpose(-2, -1)) * 0.25
        return scores.masked_fill(~(mask * mask), torch.finfo(scores.dtype).min).softmax(-1) @ v

    q, k, v = (torch.randn(2, 4, 16, 16).bfloat16() for _ in range(3))
    for mask in (torch.zeros(2, 4, 16, 16).bool(), torch.ones(2, 4, 16, 16).bool()):
        same(attend, q, k, v, mask)


def test_einsums_of_attention_with_large_scores():
    """Like burn 4697 and executorch 18407 on softmax: the maximum is subtracted first, so that no power overflows for any factor."""

    def attend(q, k, v):
        scores = torch.einsum("bhid,bhjd->bhij", q, k)
        return torch.einsum("bhij,bhjd->bhid", (scores * 8.0).softmax(-1), v)

    q, k = (torch.randint(-2, 3, (1, 2, 16, 16)).bfloat16() for _ in range(2))  # scores that bf16 holds exactly
    reports = same(attend, q, k, torch.randn(1, 2, 16, 16).bfloat16())
    assert taken(reports).count("aten.bmm.default") == 2, left(reports)
