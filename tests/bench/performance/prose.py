"""Figures that stand in sentences: each function takes the store and the words of its placeholder, and gives a number or text."""

import os

import model_tables
import tables
from figures import FILES, RESULTS, SETS, MissingFigure, geometric_mean, percentile, quantities, quantity


def file_name(store, key):
    return f"`{FILES[key]}`"


def set_name(store, key):
    store.file(key)  # holds the set against it
    return f"`{SETS[key]}`"


def machine(store, key):
    about = store.file(key)["machine"]
    return f"{about['gpu']}, driver {about['driver']}, CUDA {about['cuda']}"


def gpu(store, key):
    content = store.file(key)
    return content.get("machine", content)["gpu"]


def eager_error(store, key):
    return max(row["eager_error"] for row in store.file(key)["rows"])


def commit(store, key):
    return store.file(key)["commit"][:7]


def count(store, key, group="all"):
    return len(store.rows(key, group))


def total(store, key, field):
    return sum(row[field] for row in store.rows(key))


def value(store, key, identity, expression):
    """Of one row."""
    found = quantity(store.row(key, identity), expression)
    if found is None:
        raise MissingFigure(f"{key}: {identity} has no {expression}")
    return found


def mean(store, key, expression, group="all"):
    return geometric_mean(quantities(store.rows(key, group), expression))


def least(store, key, expression, group="all"):
    return min(quantities(store.rows(key, group), expression))


def most(store, key, expression, group="all"):
    return max(quantities(store.rows(key, group), expression))


def apart(store, key, expression):
    """How far from 1 a ratio gets."""
    return max(abs(ratio - 1) for ratio in quantities(store.rows(key), expression))


def low_end(store, key, expression, percent):
    return percentile(quantities(store.rows(key), expression), float(percent))


def at_least(store, key, expression, bound, group="all"):
    """How many reach a bound."""
    return sum(ratio >= float(bound) for ratio in quantities(store.rows(key, group), expression))


def ranked(store, key, expression, place):
    """(ratio, id) of a place in the order of the slowest first."""
    rows = [(quantity(row, expression), row["id"]) for row in store.rows(key)]
    return sorted(row for row in rows if row[0] is not None)[int(place) - 1]


def slowest(store, key, expression, place):
    return ranked(store, key, expression, place)[0]


def slowest_id(store, key, expression, place):
    return ranked(store, key, expression, place)[1]


def eager_mean(store, group):
    """FlashFuser states an arithmetic mean, so this is one."""
    rows = store.rows("eager", group)
    return sum(row["speedup"] for row in rows) / len(rows)


def eager_paper(store):
    return store.file("eager")["averages"]["G"]["paper"]


def counted(store, contestant):
    return {row["id"]: row for row in store.rows("bytes") if row["contestant"] == contestant}


def saved_bytes(store, counter, group):
    """The mean share that the fused plan saves of the unfused one's bytes."""
    fused, unfused = counted(store, "fused"), counted(store, "unfused")
    ids = {row["id"] for row in store.rows("bytes", group)}
    parts = [fused[i]["counted"][counter] / unfused[i]["counted"][counter] for i in ids]
    return 1 - sum(parts) / len(parts)


def dram_range(store, contestant):
    """Counted DRAM reads over predicted ones, least and most, where the weights have 4 MB."""
    ratios = [row["counted"]["dram_read"] / row["dram_read_bytes"] for row in counted(store, contestant).values()
              if row["weight_bytes"] >= 4e6]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


def exact_dsm(store):
    """How many plans move through distributed shared memory what was predicted, to the byte."""
    return sum(row["counted"]["dsm_in"] == (row["dsm_bytes"] or 0) for row in store.rows("bytes"))


def place(store, *words):
    """Microseconds of a line of the file on where graphs lie."""
    name = " ".join(words)
    with open(os.path.join(RESULTS, FILES["places"]), encoding="utf-8") as file:
        for line in file:
            what, _, us = line.rpartition(" ")
            if what == name:
                return float(us)
    raise MissingFigure(f"{FILES['places']} has no line {name}")


NAMES = {
    "file": file_name, "set": set_name, "machine": machine, "gpu": gpu, "eager_error": eager_error, "commit": commit, "count": count, "total": total, "value": value,
    "mean": mean, "least": least, "most": most, "apart": apart, "percentile": low_end, "at_least": at_least, "slowest": slowest,
    "slowest_id": slowest_id, "eager_mean": eager_mean, "eager_paper": eager_paper, "saved_bytes": saved_bytes,
    "dram_range": dram_range, "exact_dsm": exact_dsm, "place": place,
    "table_products": tables.products, "table_product_means": tables.product_means, "table_by_rows": tables.by_rows,
    "table_decode": tables.decode, "decode_least": tables.decode_least, "table_graphs": tables.graphs, "table_graph_means": tables.graph_means, "table_brute_force": tables.brute_force,
    "table_summary": tables.summary, "table_layers": tables.layers, "table_layers_summary": model_tables.summary,
    "table_images": model_tables.images, "table_experts": model_tables.experts, "table_ranks": model_tables.ranks, "table_models_over_ranks": model_tables.models_over_ranks,
    "table_models": model_tables.models, "table_training": model_tables.training,
}
