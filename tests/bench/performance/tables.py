"""The tables of the page, as Markdown."""

import os
import sys

from figures import HERE, geometric_mean, kernels_us, least_of, quantities, quantity, rows_of


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


def kind_by_prediction(row):
    """Which of the two contestants the plan by prediction is: their times are the same figure of the file."""
    for kind in ("fused", "unfused"):
        if row[f"{kind}_cold_us"] == quantity(row, "predicted"):
            return kind
    return row["chosen"]


def product_line(row):
    predicted, tuned = quantity(row, "predicted"), quantity(row, "tuned")
    kind = "as predicted" if predicted == tuned else row["chosen"]
    return [row["id"], kind_by_prediction(row), two_decimals(predicted), kind, two_decimals(tuned),
            two_decimals(row["chosen_pdl_us"]), two_decimals(row["cublaslt_cold_us"]), two_decimals(row["best_peer"]),
            two_decimals(row["limit_us"]), ratio(row, "best_peer/predicted"), ratio(row, "best_peer/tuned"),
            ratio(row, "limit/tuned"), two_decimals(row["chosen_mj_per_call"]), two_decimals(row["cublaslt_mj_per_call"]),
            f"{row['rel_error']:.1e}"]


def products(store, key):
    head = ["id", "by prediction", "us", "tuned", "us", "with PDL", "cuBLASLt", "best peer", "limit", "peer / us",
            "peer / tuned", "limit / tuned", "mJ", "cuBLASLt's mJ", "error"]
    return markdown(head, [product_line(row) for row in store.rows(key)])


PRODUCT_MEANS = [
    ("best peer / us, by prediction", "best_peer/predicted"),
    ("best peer / us, tuned", "best_peer/tuned"),
    ("cuBLASLt of the same run / us, by prediction", "cublaslt/predicted"),
    ("cuBLASLt of the same run / us, tuned", "cublaslt/tuned"),
    ("limit / us, by prediction", "limit/predicted"),
    ("limit / us, tuned", "limit/tuned"),
    ("cuBLASLt's energy / ours, tuned", "cublaslt_energy/energy"),
]


def product_means(store, *keys):
    """Geometric means over both lists and the least of all, of each file: oi, then io where it was asked for."""
    head, lines = ["geometric means"], [[name] for name, _ in PRODUCT_MEANS]
    for key in keys:
        layout = store.rows(key)[0]["layout"]
        head += [f"G, {layout}", f"S, {layout}", f"least, {layout}"]
        for line, (_, expression) in zip(lines, PRODUCT_MEANS):
            line += product_mean_cells(store, key, expression)
    return markdown(head, lines)


def product_mean_cells(store, key, expression):
    if quantity(store.rows(key)[0], expression) is None:
        return ["-", "-", "-"]
    means = [geometric_mean(quantities(store.rows(key, group), expression)) for group in "GS"]
    return [f"{value:.2f}" for value in (*means, min(quantities(store.rows(key), expression)))]


def by_rows(store, key):
    """A column for each M."""
    rows = store.rows(key)
    head = ["M"] + [str(rows_of(row)) + ("" if row["layout"] == "oi" else ", io") for row in rows]
    figure = lambda expression, digits: [f"{value:.{digits}f}" for value in quantities(rows, expression)]
    lines = [["us, tuned"] + figure("tuned", 1), ["us, by prediction"] + figure("predicted", 1),
             ["cuBLASLt"] + figure("cublaslt", 1), ["cuBLASLt / tuned"] + figure("cublaslt/tuned", 2),
             ["cuBLASLt / by prediction"] + figure("cublaslt/predicted", 2), ["limit / tuned"] + figure("limit/tuned", 2)]
    return markdown(head, lines)


def graph_line(row):
    bench = row["bench"]
    return [row["id"], str(row["ops"]), str(int(bench["kernels"])), cell(quantity(row, "predicted")), cell(quantity(row, "tuned")),
            cell(bench["limit_us"]), ratio(row, "limit/tuned"), cell(kernels_us(row)), cell(row["torch_compile_us"]),
            str(row["torch_kernels"]), cell(row["xla_us"]), str(row["xla_kernels"]), ratio(row, "peer_ratio")]


def graphs(store):
    head = ["graph", "ops", "kernels", "by prediction", "tuned", "limit", "limit / tuned", "Sinter's kernels", "torch.compile",
            "kernels", "XLA's kernels", "number", "better peer / Sinter"]
    return markdown(head, [graph_line(row) for row in store.rows("joined")])


GRAPH_MEANS = [
    ("limit / by prediction", "limit/predicted"), ("limit / tuned", "limit/tuned"), ("better peer / Sinter", "peer_ratio"),
    ("torch.compile / Sinter", "torch/sinter"), ("XLA's kernels / Sinter's", "xla/sinter_kernels"),
    ("better peer with XLA's launches / Sinter", "peer_with_launches/sinter"), ("number of kernels / XLA's", "kernels/xla_kernels"),
]
GRAPH_GROUPS = [("chains", "memory_chains"), ("graphs", "stitch_graphs"), ("large", "large")]


def graph_means(store):
    lines = [[name] + [f"{geometric_mean(quantities(store.rows('joined', group), expression)):.2f}" for _, expression in GRAPH_MEANS]
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


def rows_of_layers(store, group):
    """Encoder layers were measured again since."""
    return store.rows("encoders" if group == "encoders" else "layers", group)


def layers(store, group):
    """Rows of one group by what they have in common: how many, the mean and the least of best peer / Sinter."""
    parts = {}
    for row in rows_of_layers(store, group):
        parts.setdefault(LAYER_GROUPS[group](row), []).append(row)
    names = sorted(parts, key=lambda name: min(row["rows"] for row in parts[name])) if group == "products" else list(parts)
    lines = []
    for name in names:
        lines.append([name, *mean_and_least({row["id"]: quantity(row, "peer_ratio") for row in parts[name]})])
    return markdown([group, "number", "best peer / us", "least", "of"], lines)


def decode(store, *keys):
    """Whole decoding steps, of all files together."""
    return decode_results.table([row for key in keys for row in store.file(key)["rows"]])


def decode_least(store, *keys):
    """The least ratio of all cases."""
    cases = decode_results.cases([row for key in keys for row in store.file(key)["rows"]])
    return min(decode_results.ratio(case) for case in cases.values())


def brute_force(store):
    head = ["id", "legal schedules", "measured", "predicted best / best of all", "best of the predicted eleven / best of all",
            "ranking and measuring eleven, s", "measuring the whole space / that"]
    lines = [[row["id"], f"{row['legal']:.0f}", f"{row['measured']:.0f}", ratio(row, "first/best"), ratio(row, "top/best"),
              two_decimals(row["search_seconds"]), f"{quantity(row, 'whole_space/search'):.0f}"] for row in store.rows("brute-force")]
    return markdown(head, lines)


def summary_line(store, what, key, group, peer, expression, sinter):
    rows = store.rows(key, group)
    values = quantities(rows, expression)
    limit = geometric_mean(quantities(rows, "limit/" + sinter))
    return [what, str(len(values)), peer, f"{geometric_mean(values):.2f}", f"{min(values):.2f}", f"{limit:.2f}"]


def span(store, key, group, of, form=""):
    values = [of(row) for row in store.rows(key, group)]
    return f"{min(values):{form}} to {max(values):{form}}"


def ratios_line(what, peer, ratios, limit="-"):
    return [what, str(len(ratios)), peer, f"{geometric_mean(ratios):.2f}", f"{min(ratios):.2f}", limit]


def decode_line(store):
    cases = decode_results.cases(store.file("decode")["rows"]).values()
    bandwidth = geometric_mean([case[decode_results.SINTER]["bandwidth"] for case in cases])
    return ratios_line("decoding steps of five models, 1 to 128 sequences", "cuBLAS, `torch.compile`",
                       [decode_results.ratio(case) for case in cases], f"{bandwidth:.2f}")


def vllm_line(store, what, contestant):
    rows = store.file("vllm")["rows"]
    return ratios_line(what, "vLLM 0.24.0", [row["decode_ratio"] for row in rows if row["contestant"] == contestant])


def contestants_line(store, what, peer, keys, ours, others):
    """Of rows with several contestants: the fastest of `others` that ran, over `ours`."""
    ratios = []
    for row in [row for key in keys for row in store.file(key)["rows"]]:
        us = {name: row["contestants"][name].get("us") for name in others if name in row["contestants"]}
        best = least_of(*us.values())
        if best is not None:
            ratios.append(best / row["contestants"][ours]["us"])
    return ratios_line(what, peer, ratios)


def layers_line(store, what, peer, group):
    return ratios_line(what, peer, quantities(rows_of_layers(store, group), "peer_ratio"))


def summary(store):
    """The rows of the top README: models and servers, then chains."""
    best, framework = "cuBLASLt, PyTorch", "`torch.compile`, XLA"
    ops = lambda group: span(store, "joined", group, lambda row: row["ops"], ",") + " ops"
    head = ["what", "number", "peer", "peer / Sinter", "least", "limit / Sinter"]
    return markdown(head, [
        decode_line(store),
        vllm_line(store, "steps of 8B models in vLLM", "sinter"),
        vllm_line(store, "the same, norms folded", "sinter-folded"),
        contestants_line(store, "fp8 FFN layers, 1 to 4096 rows", "DeepGEMM", ("deepgemm",), "sinter-block", ("deepgemm-block",)),
        contestants_line(store, "two convolutions with ReLU, 1 to 32 images", "cuDNN, cuBLAS", ("conv-1", "conv-8", "conv-32"),
                         "sinter", ("linear_relu", "fused_relu", "cudnn")),
        summary_line(store, "two products with ReLU, M = 128", "tables", "G", best, "best_peer/tuned", "tuned"),
        summary_line(store, "gated FFNs, M = 128", "tables", "S", best, "best_peer/tuned", "tuned"),
        summary_line(store, f"Llama-3-8B's FFN, M = {span(store, 'batch', 'L', rows_of)}", "batch", "L",
                     "cuBLASLt", "cublaslt/tuned", "tuned"),
        summary_line(store, f"graphs of {ops('stitch_graphs')}", "joined", "stitch_graphs", framework, "peer_ratio", "tuned"),
        summary_line(store, f"layers and training steps of {ops('large')}", "joined", "large", framework, "peer_ratio", "tuned"),
    ])
