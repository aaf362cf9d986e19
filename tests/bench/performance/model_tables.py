"""Tables of layers and models as frameworks and servers write them: images, experts, sums over GPUs, PyTorch's models and training steps."""

from figures import geometric_mean, least_of, quantities
from tables import CONV, FP8, contestants_ratios, decode_cases, decode_results, graph_rows, markdown, mean_and_least, times_of, two_decimals


def images(store, *keys):
    """Convolutions of image models, by model and number of images."""
    parts = {}
    for row in [row for key in keys for row in store.rows(key, key)]:
        what = row["id"].split("-")[0].replace("_", " ")
        parts.setdefault((what, row["rows"]), {})[row["id"]] = row["ratio"]
    lines = [[what, str(count), *mean_and_least(parts[what, count])] for what, count in parts]
    return markdown(["of", "images", "number", "best peer / us", "least", "of"], lines)


def experts(store):
    """Whole layers of experts, by rows and routing."""
    parts = {}
    for row in store.file("experts")["rows"]:
        parts.setdefault((row["rows"], row["routing"]), {})[row["model"]] = row
    lines = []
    for (count, routing), rows in sorted(parts.items()):
        limit = geometric_mean([row["limit_us"] / row["us"]["sinter"] for row in rows.values()])
        lines.append([f"{count:,}", routing, *mean_and_least({model: row["ratio"] for model, row in rows.items()}), f"{limit:.2f}"])
    return markdown(["rows", "routing", "models", "Triton / us", "least", "of", "limit / us"], lines)


def slowest_ranks(store):
    """{rows: {contestant: us}}, of the slowest rank each."""
    ranks = [rank["times"] for rank in store.file("ranks")["ranks"]]
    return {int(m): {name: max(times[m][name] for times in ranks) for name in ranks[0][m]} for m in ranks[0] if m.isdigit()}


def against_best(times, what):
    """Sinter's time of `what`, the best other's, and its name."""
    others = {name.split(", ")[1]: us for name, us in times.items() if name.startswith(what) and ", sinter" not in name}
    best = min(others, key=others.get)
    return times[f"{what}, sinter"], others[best], best


def ranks(store):
    """Sums over two GPUs, alone and behind a product."""
    lines = []
    for m, times in slowest_ranks(store).items():
        cells = []
        for what in ("sum + residual", "layer"):
            own, other, name = against_best(times, what)
            cells += [two_decimals(own), two_decimals(other), name, two_decimals(other / own)]
        lines.append([f"{m:,}", *cells])
    sides = ["us", "best peer", "which", "best peer / us"]
    return markdown(["M", *(f"sum: {side}" for side in sides), *(f"layer: {side}" for side in sides)], lines)


def slowest_models(store):
    """{model and rows: (kernels, Sinter's us, the best other's, its name)}, of the slower rank each."""
    ranks = [rank["models"] for rank in store.file("ranks-models")["ranks"]]
    found = {}
    for name in ranks[0]:
        us = {way: max(told[name][way] for told in ranks) for way in ranks[0][name] if way not in ("kernels", "errors")}
        best = min((way for way in us if way != "sinter"), key=us.get)
        found[name] = ranks[0][name]["kernels"], us["sinter"], us[best], best
    return found


def models_over_ranks(store):
    """What lies between two attentions of a model over two GPUs, by rows."""
    lines = []
    for name, (kernels, own, other, best) in slowest_models(store).items():
        model, _, rows = name.rpartition(" ")
        lines.append([model, f"{int(rows):,}", str(kernels), two_decimals(own), two_decimals(other), best, two_decimals(other / own)])
    return markdown(["model", "M", "kernels", "us", "best peer", "which", "best peer / us"], lines)


def gain(row):
    """The better of Inductor's modes that ran, over Sinter."""
    us = {name: told.get("us") for name, told in row["variants"].items()}
    return least_of(us.get("inductor"), us.get("inductor_max")) / us["sinter"]


def models(store):
    """One line a model: its ratio at one sequence or image, and at a serving batch."""
    rows = store.by_torch("models")
    names = sorted({name.split("@")[0] for name in rows}, key=str.lower)
    lines = []
    for name in names:
        line = [name]
        for batch in ("1", "serving"):
            row = rows.get(f"{name}@{batch}")
            us = row and {variant: told["us"] for variant, told in row["variants"].items()}
            line += [f"{us['inductor']:,.0f}", f"{us['sinter']:,.0f}", two_decimals(gain(row))] if row else ["-"] * 3
        lines.append(line)
    return markdown(["model", "at one: Inductor", "Sinter", "ratio", "at a serving batch: Inductor", "Sinter", "ratio"], lines)


def training(store):
    lines = []
    for name, row in store.by_torch("training").items():
        us = {variant: told["us"] for variant, told in row["variants"].items()}
        lines.append([name, f"{us['eager']:,.0f}", f"{us['inductor']:,.0f}", f"{us['sinter']:,.0f}",
                      two_decimals(us["eager"] / us["sinter"]), two_decimals(gain(row))])
    return markdown(["row", "eager", "Inductor", "Sinter", "eager / Sinter", "Inductor / Sinter"], lines)


# ---------------------------------------------------------------- The table of the top README


def peers_of_codes(store):
    """Who ran beside Sinter with scales of blocks: DeepGEMM is not on every machine."""
    ran = {name for row in store.file("fp8")["rows"] for name in times_of(row)}
    return ", ".join(text for name, text in (("deepgemm-block", "DeepGEMM"), ("promoted-block", "PyTorch")) if name in ran)


def summary(store):
    """A line each of what the page has, with how many: the peer, the mean and the least ratio."""
    torch, cublas = "`torch.compile`", "cuBLASLt, PyTorch"
    by = lambda key, expression, group: quantities(store.rows(key, group), expression)
    pairs = lambda *arguments: [other / own for _, _, other, own in contestants_ratios(store, *arguments)]
    steps = [gain(row) for name, row in store.by_torch("training").items() if ":" not in name]
    sums = [other / own for own, other, _ in (against_best(times, "layer") for times in slowest_ranks(store).values())]
    between = [other / own for _, own, other, _ in slowest_models(store).values()]
    server = lambda key, kind: [row["decode_ratio"] for row in store.file(key)["rows"] if row["contestant"] == kind]
    lines = [
        ("PyTorch models", torch, [gain(row) for row in store.by_torch("models").values()]),
        ("training steps", torch, steps),
        ("decoding steps", f"cuBLAS, {torch}", [decode_results.ratio(case) for case in decode_cases(store).values()]),
        ("the same in vLLM", "vLLM 0.24.0", server("vllm", "sinter")),
        ("with folded norms", "vLLM 0.24.0", server("vllm", "sinter-folded")),
        ("on 2 GPUs in vLLM", "vLLM 0.24.0, FlashInfer", server("vllm-ranks", "sinter")),
        ("layers of experts", "Triton's", by("experts", "peer_ratio", "all")),
        ("encoder layers", f"cuBLAS, {torch}", by("layers", "peer_ratio", "encoders")),
        ("products, bias, GELU", f"cuBLAS, {torch}", by("layers", "peer_ratio", "products")),
        ("norms, softmax, GELU", torch, by("layers", "peer_ratio", "rowwise")),
        ("gated FFNs", cublas, by("products", "best_peer/predicted", "S")),
        ("two products, ReLU", cublas, by("products", "best_peer/predicted", "G")),
        ("Llama-3-8B's FFN", "cuBLASLt", by("batch", "best_peer/predicted", "L")),
        ("fp8 FFNs", peers_of_codes(store), [ratio for kind in FP8.values() for ratio in pairs(("fp8",), *kind)]),
        ("two convolutions", "cuDNN, cuBLAS", pairs(*CONV)),
        ("depthwise, grouped convolutions", f"cuDNN, {torch}", [ratio for key in ("depthwise", "images") for ratio in by(key, "peer_ratio", key)]),
        ("memory-bound graphs", f"{torch}, XLA", quantities(graph_rows(store, "memory_chains", "stitch_graphs"), "peer_ratio")),
        ("large graphs", f"{torch}, XLA", quantities(graph_rows(store, "large"), "peer_ratio")),
        ("sums over 2 GPUs", "NCCL, symmetric memory", sums),
        ("70B, 32B layers", "NCCL, symmetric memory", between),
    ]
    return markdown(["what (number)", "peer", "peer / Sinter", "least"], [
        [f"{what} ({len(ratios)})", peer, f"{geometric_mean(ratios):.2f}", f"{min(ratios):.2f}"] for what, peer, ratios in lines
    ])
