"""Tables of models as frameworks and servers run them: sums over GPUs, PyTorch's models and training steps; and the table of the top README."""

import families
import told
from tables import markdown, told_ratio, two_decimals


def over_ranks(store, name, head, parts):
    """A line a row of a list of several GPUs; the slower rank counts. `parts`: of an id and its row's times, the first cells and Sinter's time."""
    lines = []
    for row, one in families.rows_of(store, name).told.items():
        cells, own = parts(row)
        best = min(one.ratios, key=one.ratios.get, default=None)
        lines.append([*cells, two_decimals(own), two_decimals(own * one.ratio) if one.ratio else "-", best or "-", told_ratio(one)])
    return markdown([*head, "us", "best peer", "which", "best peer / us"], lines)


def ranks(store):
    """Sums over two GPUs, by themselves and after a product."""
    sides = store.file("ranks")["ranks"]

    def parts(row):
        what, _, m = row.partition("@")
        return [what, f"{int(m):,}"], told.slowest(sides, "times", m)["layer, sinter" if what == "layer" else "sum + residual, sinter"]

    return over_ranks(store, "sums", ["of", "M"], parts)


def models_over_ranks(store):
    """The ops between two attentions of a model over two GPUs, by rows."""
    sides = store.file("ranks")["ranks"]

    def parts(row):
        model, _, rows = row.rpartition(" ")
        return [model, f"{int(rows):,}", str(sides[0]["models"][row]["kernels"])], told.slowest(sides, "models", row)["sinter"]

    return over_ranks(store, "ranks-models", ["model", "M", "kernels"], parts)


def torch_table(store, name, head, variants):
    """A line a row: the times of these contestants, and the better mode of Inductor over Sinter."""
    content, lines = store.file(name), []
    for row, one in sorted(families.rows_of(store, name).told.items(), key=lambda item: item[0].lower()):
        of = content[row].get("variants", {})
        times = [f"{of[variant]['us']:,.0f}" if "us" in of.get(variant, {}) else "-" for variant in variants]
        lines.append([row, *([str(depth_of(content[row]))] if name == "models" else []), *times, told_ratio(one) if not one.failed else f"none: {one.failed[:60]}"])
    return markdown([*head, "best peer / Sinter"], lines)


def depth_of(row):
    """Layers of a stack of equal ones, of a row of PyTorch's models."""
    return row.get("depth") or row["by"]["depth"]


def models(store):
    return torch_table(store, "models", ["row", "layers", "Inductor", "max-autotune", "Sinter"], ("inductor", "max_autotune", "sinter"))


def training(store):
    return torch_table(store, "training", ["row", "eager", "Inductor", "Sinter"], ("eager", "inductor", "sinter"))


def summary(store):
    """The table of the top README, whose words are counted: without spaces around its bars."""
    table = markdown(["workload", "rows", "baselines", "geomean", "lowest", "below 1.00"],
                     [[what, rows.short_count(), peers, *rows.figures()] for what, peers, rows in families.table(store)])
    return table.replace(" | ", "|").replace("| ", "|").replace(" |", "|")
