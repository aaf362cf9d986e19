"""The tables of the page, as Markdown."""

import os
import re
import sys

import families
import lists
from figures import HERE, geometric_mean, kernels_us, quantities, quantity
from figures import rows_of as rows_in

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


def by_group(store, name, head, names=lambda group: group):
    """A line for each group that a list is drawn by: how many rows of how many, mean, least, whose that is, and the share below 1.00."""
    rows, listed = families.rows_of(store, name), lists.LISTS[name].rows(families.seed_of(store, name))
    lines = []
    for group in dict.fromkeys(listed.values()):
        ids = [row for row in listed if listed[row] == group]
        some = families.Rows({row: one for row, one in rows.told.items() if listed[row] == group}, len(ids), rows.how)
        if some.told:
            mean, least, below = some.figures()
            whose = min(some.ratios, key=some.ratios.get) if some.ratios else "-"
            lines.append([names(group), some.count().split(",")[0] if rows.how else some.count(), mean, least, whose, below])
    return markdown([head, "rows", "best peer / us", "least", "of", "below 1.00"], lines)


def layers(store, name):
    return by_group(store, name, name, (lambda group: group if group == "drawn" else f"M = {int(group):,}") if name in ("products", "encoders") else
                    lambda group: group.replace("_", " "))


def experts(store):
    return by_group(store, "experts", "rows")


def products(store, name):
    """Gated FFNs, or two products, with their number of rows."""
    told, rows = families.rows_of(store, name).told, {row["id"]: row for row in store.rows("products")}
    lines = []
    for row in told:
        of, one = rows[row], told[row]
        others = [f"{one.ratios[peer]:.2f}" if peer in one.ratios else "-" for peer in ("cublaslt", "eager", "compile")]
        lines.append([row, str(rows_in(of)), of["chosen"], two_decimals(quantity(of, "predicted")), two_decimals(of["limit_us"]), *others, told_ratio(one),
                      ratio(of, "limit/predicted"), f"{of['rel_error']:.1e}"])
    return markdown(["id", "M", "plan", "us", "limit", "cuBLASLt / us", "PyTorch / us", "torch.compile / us", "best peer / us", "limit / us", "error"], lines)


def told_ratio(one):
    """The ratio of a row, or what is the matter with it."""
    return "wrong" if one.wrong else "-" if one.ratio is None else f"{one.ratio:.2f}"


PRODUCT_LISTS = ("gated_ffn", "gemm_chains", "batch_sweep", "random_ffns")


def product_means(store):
    """Each list of FFNs: rows, mean, least, share below 1.00."""
    lines = []
    for name in PRODUCT_LISTS:
        rows = families.rows_of(store, name)
        if rows.told:
            lines.append([name.replace("_", " "), rows.count(), *rows.figures()])
    return markdown(["list", "rows", "best peer / us", "least", "below 1.00"], lines)


def by_rows(store, key):
    """A column for each M."""
    rows = store.rows(key, "L")
    told = families.rows_of(store, "batch_sweep").told
    head = ["M"] + [str(rows_in(row)) for row in rows]
    figure = lambda expression, digits: [f"{value:.{digits}f}" for value in quantities(rows, expression)]
    lines = [["us"] + figure("predicted", 1), ["cuBLASLt"] + figure("cublaslt", 1), ["best peer / us"] + [told_ratio(told[row["id"]]) for row in rows],
             ["limit / us"] + figure("limit/predicted", 2)]
    return markdown(head, lines)


def graph_rows(store, *groups):
    return [row for key, of in GRAPH_FILES.items() for group in of if not groups or group in groups for row in store.rows(key, group)]


def graph_line(row, one):
    return [row["id"], str(row["ops"]), str(row["kernels"]), cell(row["sinter_us"]), cell(row["limit_us"]), ratio(row, "limit/sinter"),
            cell(kernels_us(row)), cell(row["torch_compile_us"]), str(row["torch_kernels"] or "-"), cell(row["xla_us"]),
            str(row["xla_kernels"] or "-"), told_ratio(one)]


def graphs(store):
    head = ["graph", "ops", "kernels", "us", "limit", "limit / us", "Sinter's kernels", "torch.compile", "kernels", "XLA's kernels", "number",
            "better peer / Sinter"]
    rows = {row["id"]: row for row in graph_rows(store)}
    return markdown(head, [graph_line(rows[name], one) for name, one in families.rows_of(store, "graphs", "large").told.items()])


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


def decode(store):
    """Whole decoding steps."""
    return decode_results.table(store.file("decode")["rows"])


def decode_cases(store):
    return decode_results.cases(store.file("decode")["rows"])


def decode_least(store):
    """The least ratio of all cases."""
    return min(families.rows_of(store, "decode").ratios.values())


def peers_table(store, head, keys, names):
    """A line a row of `names`: its id's parts, Sinter's time, the fastest peer's, its name, the ratio. `keys`: {row: us by contestant}."""
    lines = []
    for row, one in families.rows_of(store, *names).told.items():
        us, best = keys[row], min(one.ratios, key=one.ratios.get, default=None)
        lines.append([*re.split("[@:]", row)[: len(head)], cell(us), cell(us * one.ratio) if one.ratio else "-", best or "-", told_ratio(one)])
    return markdown([*head, "us", "best peer", "which", "best peer / us"], lines)


def fp8(store):
    """Layers of 8-bit weights, a line a layer, number of rows and kind of scales."""
    own = {}
    for row in store.file("fp8")["rows"]:
        for scales, name in (("rows", "sinter"), ("blocks", "sinter-block")):
            own[f"{row['model']}@{row['m']}:{scales}"] = row["contestants"].get(name, {}).get("us")
    return peers_table(store, ["layer", "M", "scales of"], own, ("fp8-rows", "fp8-blocks"))


def conv(store):
    """Pairs of convolutions, a line a chain and number of images."""
    own = {f"{row['id']}@{row['batch']}": row["contestants"].get("sinter", {}).get("us") for key in ("conv-1", "conv-32", "conv-drawn") if store.has(key)
           for row in store.file(key)["rows"]}
    return peers_table(store, ["chain", "images"], own, ("conv-1", "conv-32", "conv-drawn"))
