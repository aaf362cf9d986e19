"""The gate of torch.compile's backend, held against times that were measured on a GPU."""

import collections
import pathlib

import pytest

torch = pytest.importorskip("torch", reason="no torch here: the backend for torch.compile is not tested")

import sinter

from everyday import LONG

BENCH = pathlib.Path(__file__).parents[3] / "tests/bench/torch_backend"
MEASURED = BENCH / "gate-h200.jsonl"
EVERY = 4 if LONG else 8  # points are drawn at random, and so is each share of them
MOST_LOSING, MOST_WRONG = 0.03, 0.25


@pytest.fixture(scope="module")
def decided():
    """Every eighth measured point, in a long run every fourth, as the gate decides now."""
    if not MEASURED.exists():
        pytest.skip("what was measured is not beside this test, as in a bundle")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        import gate

    with sinter.Context(target="h200") as h200:
        figures = h200.describe()["model"]
    rows = [row for row in gate.rows_of(MEASURED) if gate.verdict(row) is not None][::EVERY]
    return gate, [gate.decided_again(row, figures) for row in rows]


def test_few_decisions_about_measured_points_are_wrong(decided):
    gate, rows = decided
    verdicts = collections.Counter(map(gate.verdict, rows))
    assert len(rows) > 320 / EVERY and verdicts["loses"] <= MOST_LOSING * len(rows), gate.report(rows)
    assert verdicts["loses"] + verdicts["misses"] <= MOST_WRONG * len(rows), gate.report(rows)


def test_no_attention_of_few_rows_is_taken_that_takes_much_longer(decided):
    gate, rows = decided
    few = [row for row in rows if row["family"] == "few_rows"]
    slow = [row["id"] for row in few if row["decision"] == "taken" and row["us"]["sinter"] > 1.1 * row["us"]["inductor"]]
    ratios = [row["us"]["inductor"] / row["parts"][0]["inductor_us"] for row in few]
    assert len(few) > 160 / EVERY and not slow, slow
    assert 0.9 < sum(ratios) / len(ratios) < 1.1 and 0.75 < min(ratios) and max(ratios) < 1.6, (min(ratios), max(ratios))
