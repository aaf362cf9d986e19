"""The table of FusionStitching's models: what the paper measured, and the same models here."""

import statistics

import lists
import told
from figures import geometric_mean
from tables import markdown, two_decimals

#: Table 2 of arXiv 2009.10924: milliseconds of an iteration and calls (kernels and copies), by TensorFlow, by XLA and by FusionStitching.
PAPER = {
    "bert_base@32": ("BERT, training", (71.84, 53.9, 51.96), (761, 395, 216)),
    "bert_base@32:infer": ("BERT, inference", (5.86, 4.02, 3.49), (541, 469, 205)),
    "dien@256": ("DIEN, training", (137.56, 177.16, 97.72), (13015, 10053, 4719)),
    "dien@256:infer": ("DIEN, inference", (39.48, 53.51, 24.20), (4311, 3617, 1642)),
    "transformer@32": ("Transformer, training", (195.37, 157.70, 145.65), (3418, 1885, 1212)),
    "asr@8:infer": ("ASR, inference", (15.89, 11.10, 9.18), (1942, 647, 475)),
    "crnn@8:infer": ("CRNN, inference", (37.10, 24.88, 15.36), (4820, 1406, 707)),
}
CONTESTANTS = ("eager", "inductor", "xla", "sinter")
HEAD = ["model", "paper: TF / FS", "paper: XLA / FS", "eager / Sinter", "Inductor / Sinter", "XLA / Sinter", "XLA / Sinter, kernels", "Sinter, us",
        "paper's calls: TF, XLA, FS", "calls: eager, Inductor, XLA, Sinter"]  # fmt: skip
MEANS = {"arithmetic mean": statistics.mean, "geometric mean": geometric_mean}


def table(store):
    """A line a model, measured or not, and both means; a mean says of how many models it is where it is not of all."""
    content, lines, columns = store.file("fusionstitching") if store.has("fusionstitching") else {}, [], []
    for row in lists.LISTS["fusionstitching"].rows(""):
        name, times, calls = PAPER[row]
        ratios = [times[0] / times[2], times[1] / times[2], *ours(content.get(row, {}))]
        columns.append(ratios)
        lines.append([name, *map(two_decimals, ratios), *absolute(content.get(row, {}), calls)])
    for name, mean in MEANS.items():
        lines.append([name, *(mean_of(column, mean) for column in zip(*columns)), "", "", ""])
    return markdown(HEAD, lines)


def ours(row):
    """The times of eager PyTorch, Inductor and XLA over Sinter's, and the time of XLA's kernels over that of Sinter's; None where there is none."""
    us = times_of(row)
    return [us[name] / us["sinter"] if name in us else None for name in CONTESTANTS[:3]] + [told.kernels_ratio(row, "xla") if "xla" in us else None]


def times_of(row):
    """{contestant: microseconds}; empty for a row that failed or whose result is wrong."""
    us = {name: one["us"] for name, one in row.get("variants", {}).items() if "us" in one}
    return us if "sinter" in us and row.get("right", True) and "error" not in row else {}


def absolute(row, calls):
    """Sinter's time, or why there is none, and the calls of the paper's contestants and of ours."""
    us = times_of(row)
    failed = "wrong" if row.get("right") is False else "failed" if "error" in row else "-"
    kernels = [str(row["variants"].get(name, {}).get("whole", {}).get("kernels", "-")) if us else "-" for name in CONTESTANTS]
    return [f"{us['sinter']:,.0f}" if us else failed, ", ".join(f"{count:,}" for count in calls), ", ".join(kernels)]


def mean_of(column, mean):
    found = [ratio for ratio in column if ratio is not None]
    return "-" if not found else f"{mean(found):.2f}" + (f" of {len(found)}" if len(found) < len(column) else "")
