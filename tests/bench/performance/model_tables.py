"""Tables of models as frameworks and servers run them: sums over GPUs, PyTorch's models and training steps; and the table of the top README."""

import families
import lists
import told
from figures import FILES
from tables import markdown, told_ratio, two_decimals


def over_ranks(store, name, head, parts):
    """A line a row of a list of several GPUs; the slower rank counts. `parts`: of an id and its row's times, the first cells and Sinter's time."""
    lines = []
    for row, one in families.rows_of(store, name).told.items():
        cells, own = parts(row)
        best = min(one.ratios, key=one.ratios.get, default=None)
        lines.append([*cells, two_decimals(own), two_decimals(own * one.ratio) if one.ratio else "-", best or "-", told_ratio(one)])
    return markdown([*head, "us", "best peer", "which", "best peer / us"], lines)


def ranks(store, number=2):
    """Sums over several GPUs, by themselves and after a product."""
    sides = store.file(lists.of_ranks("ranks", number))["ranks"]

    def parts(row):
        what, _, m = row.partition("@")
        return [what, f"{int(m):,}"], told.slowest(sides, "times", m)["layer, sinter" if what == "layer" else "sum + residual, sinter"]

    return over_ranks(store, lists.of_ranks("sums", number), ["of", "M"], parts)


def models_over_ranks(store, number=2):
    """The ops between two attentions of a model over several GPUs, by rows."""
    sides = store.file(lists.of_ranks("ranks", number))["ranks"]

    def parts(row):
        model, _, rows = row.rpartition(" ")
        return [model, f"{int(rows):,}", str(sides[0]["models"][row]["kernels"])], told.slowest(sides, "models", row)["sinter"]

    return over_ranks(store, lists.of_ranks("ranks-models", number), ["model", "M", "kernels"], parts)


NUMBERS = {3: "three", 4: "four", 8: "eight"}


def more_ranks(store):
    """A section for each number of GPUs above two that was measured; "" where none was."""
    found = []
    for number in lists.PUBLISHED_RANKS[1:]:
        key = lists.of_ranks("ranks", number)
        if store.has(key):
            sums, between = (families.rows_of(store, lists.of_ranks(name, number)).count() for name in ("sums", "ranks-models"))
            found += [f"### Over {NUMBERS[number]} GPUs", f"The same, `{FILES[key].split('/')[-1]}` ({store.on(key)}): sums and layers ({sums}), then what lies between "
                      f"two attentions ({between}).", ranks(store, number), models_over_ranks(store, number)]
    return "".join("\n\n" + one for one in found)


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
