"""The tables of the page, as Markdown."""

import os
import sys

from figures import HERE, geometric_mean, kernels_us, quantities, quantity, rows_of

sys.path.append(os.path.join(os.path.dirname(HERE), "decode"))
import results as decode_results  # noqa: E402


def markdown(head, lines):
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows).replace("| --- ", "|---").replace("--- |", "---|")


def cell(value):
    """Microseconds: three digits or two decimals."""
    if value is None:
        return "-"
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"


def ratio(row, expression):
    value = quantity(row, expression)
    return "-" if value is None else f"{value:.2f}"


def two_decimals(value):
    return "-" if value is None else f"{value:.2f}"


def product_line(row):
    kind = row["chosen"] if quantity(row, "predicted") == row["chosen_cold_us"] else kind_by_prediction(row)
    return [row["id"], kind, two_decimals(quantity(row, "predicted")), two_decimals(row["cublaslt_cold_us"]), two_decimals(row["best_peer"]),
            two_decimals(row["limit_us"]), ratio(row, "best_peer/predicted"), ratio(row, "limit/predicted"), f"{row['rel_error']:.1e}"]


def kind_by_prediction(row):
    """Of a file with tuned plans: which of the two contestants has the predicted plan's time."""
    return next((kind for kind in ("fused", "unfused") if row[f"{kind}_cold_us"] == quantity(row, "predicted")), row["chosen"])


def products(store, group):
    head = ["id", "plan", "us", "cuBLASLt", "PyTorch", "limit", "best peer / us", "limit / us", "error"]
    return markdown(head, [product_line(row) for row in store.rows("products", group)])


PRODUCT_MEANS = [("best peer / us", "best_peer/predicted"), ("cuBLASLt / us", "cublaslt/predicted"), ("limit / us", "limit/predicted")]


def product_means(store):
    """Geometric means over both lists and the least of all."""
    lines = []
    for name, expression in PRODUCT_MEANS:
        of = {group: quantities(store.rows("products", group), expression) for group in "GS"}
        lines.append([name, *(f"{geometric_mean(of[group]):.2f}" for group in "GS"), f"{min(of['G'] + of['S']):.2f}"])
    return markdown(["geometric means", "G", "S", "least"], lines)


def by_rows(store, key):
    """A column for each M."""
    rows = store.rows(key, "L")
    head = ["M"] + [str(rows_of(row)) for row in rows]
    figure = lambda expression, digits: [f"{value:.{digits}f}" for value in quantities(rows, expression)]
    lines = [["us"] + figure("predicted", 1), ["cuBLASLt"] + figure("cublaslt", 1), ["cuBLASLt / us"] + figure("cublaslt/predicted", 2),
             ["limit / us"] + figure("limit/predicted", 2)]
    return markdown(head, lines)


def graph_rows(store, *groups):
    return [row for key, of in GRAPH_FILES.items() for group in of if not groups or group in groups for row in store.rows(key, group)]


def graph_line(row):
    return [row["id"], str(row["ops"]), str(row["kernels"]), cell(row["sinter_us"]), cell(row["limit_us"]), ratio(row, "limit/sinter"),
            cell(kernels_us(row)), cell(row["torch_compile_us"]), str(row["torch_kernels"] or "-"), cell(row["xla_us"]),
            str(row["xla_kernels"] or "-"), ratio(row, "peer_ratio")]


def graphs(store):
    head = ["graph", "ops", "kernels", "us", "limit", "limit / us", "Sinter's kernels", "torch.compile", "kernels", "XLA's kernels", "number",
            "better peer / Sinter"]
    return markdown(head, [graph_line(row) for row in graph_rows(store)])


GRAPH_MEANS = [
    ("limit / us", "limit/sinter"), ("better peer / Sinter", "peer_ratio"), ("torch.compile / Sinter", "torch/sinter"),
    ("XLA's kernels / Sinter's", "xla/sinter_kernels"), ("better peer with XLA's launches / Sinter", "peer_with_launches/sinter"),
    ("number of kernels / XLA's", "kernels/xla_kernels"),
]
GRAPH_GROUPS = [("chains", "memory_chains"), ("graphs", "stitch_graphs"), ("large", "large")]
GRAPH_FILES = {"graphs": ("memory_chains", "stitch_graphs"), "large": ("large",)}


def graph_means(store):
    lines = [[name] + [f"{geometric_mean(quantities(graph_rows(store, group), expression)):.2f}" for _, expression in GRAPH_MEANS]
             for name, group in GRAPH_GROUPS]
    return markdown(["geometric means"] + [name for name, _ in GRAPH_MEANS], lines)


LAYER_GROUPS = {
    "products": lambda row: f"M = {row['rows']:,}",
    "rowwise": lambda row: row["id"].rsplit("-", 2)[0].replace("_", " "),
    "encoders": lambda row: row["id"].rsplit("-", 1)[0].replace("_", " "),
}


def mean_and_least(ratios):
    """Of {name: ratio}: how many, mean, least, and whose that is."""
    least = min(ratios, key=ratios.get)
    return [str(len(ratios)), f"{geometric_mean(list(ratios.values())):.2f}", f"{ratios[least]:.2f}", least]


def layers(store, group):
    """Rows of one group by what they have in common: how many, the mean and the least of best peer / Sinter."""
    parts = {}
    for row in store.rows("layers", group):
        parts.setdefault(LAYER_GROUPS[group](row), []).append(row)
    names = sorted(parts, key=lambda name: min(row["rows"] for row in parts[name])) if group == "products" else list(parts)
    lines = []
    for name in names:
        lines.append([name, *mean_and_least({row["id"]: quantity(row, "peer_ratio") for row in parts[name]})])
    return markdown([group, "number", "best peer / us", "least", "of"], lines)


def decode(store):
    """Whole decoding steps."""
    return decode_results.table(store.file("decode")["rows"])


def decode_cases(store):
    return decode_results.cases(store.file("decode")["rows"])


def decode_least(store):
    """The least ratio of all cases."""
    return min(decode_results.ratio(case) for case in decode_cases(store).values())


def times_of(row):
    """{contestant: us} of those that ran."""
    return {name: told["us"] for name, told in row["contestants"].items() if "us" in told}


def contestants_ratios(store, keys, ours, others):
    """[(row, the fastest of `others` that ran, its us, ours)] of rows where both sides ran."""
    found = []
    for row in [row for key in keys for row in store.file(key)["rows"]]:
        us = times_of(row)
        best = min((name for name in others if name in us), key=us.get, default=None)
        if best and ours in us:
            found.append((row, best, us[best], us[ours]))
    return found


CONV = (("conv-1", "conv-32"), "sinter", ("linear_relu", "fused_relu", "cudnn"))
# One scale a row and a channel, and those of blocks: ours, then the others.
FP8 = {"rows": ("sinter", ("promoted", "fast", "cublaslt")), "blocks": ("sinter-block", ("promoted-block", "deepgemm-block"))}


def fp8(store):
    """Layers of 8-bit weights, a line a layer and number of rows."""
    lines = []
    for scales, (ours, others) in FP8.items():
        for row, best, other, own in contestants_ratios(store, ("fp8",), ours, others):
            lines.append([row["model"], str(row["m"]), scales, cell(own), cell(other), best, two_decimals(other / own)])
    return markdown(["layer", "M", "scales of", "us", "best peer", "which", "best peer / us"], lines)


def conv(store):
    """Pairs of convolutions, a line a chain and number of images."""
    lines = [[row["id"], str(row["batch"]), cell(own), cell(other), best, two_decimals(other / own)]
             for row, best, other, own in contestants_ratios(store, *CONV)]
    return markdown(["chain", "images", "us", "best peer", "which", "best peer / us"], lines)


