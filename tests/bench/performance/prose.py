"""Figures that stand in sentences: each function takes the store and the words of its placeholder, and gives a number or text."""

import fusionstitching
import model_tables
import tables
import families
from figures import FILES, geometric_mean, quantities


def file_name(store, key):
    """A results file."""
    return f"`{FILES[key].split('/')[-1]}`" if store.has(key) else "a file that is not there yet"


def on(store, key):
    return store.on(key)


def state(store):
    """One sentence: of which commits and cards the tables are."""
    states = {key: store.state(key) for key in FILES if store.has(key) and not key.startswith("vllm")}
    commits = sorted({one.commit for one in states.values()})
    cards = " and ".join(sorted({one.on for one in states.values()}))
    if len(commits) == 1:
        return f"All figures but vLLM's are of commit {commits[0]} on an {cards}."
    by_hand = {one.commit for key, one in states.items() if store.by_hand(key)}
    others = {one.commit for key, one in states.items() if not store.by_hand(key)}
    if len(by_hand) == len(others) == 1:
        return f"Rows chosen by hand are of commit {by_hand.pop()}, vLLM's of their own, all others of {others.pop()}, on an {cards}."
    return f"The figures are of {len(commits)} commits, on {cards}; each table of the page names its file, whose name holds the commit."


def eager_error(store, key):
    return max(row["eager_error"] for row in store.file(key)["rows"])


def count(store, key, group="all"):
    return len(store.rows(key, group))


def mean(store, expression, group):
    return geometric_mean(quantities(tables.graph_rows(store, group), expression))


def rows(store, *names):
    """How many rows of how many the lists have here, and how they were found."""
    return families.rows_of(store, *names).count()


def left_out(store):
    """What rows that were chosen by hand leave out of training, of which an earlier commit has figures."""
    if not store.by_hand("training"):
        return ""
    return ("They leave out two rows that lose, of an earlier commit on an H200 (`training-h200-9043479.json` in `tests/bench/torch_backend`): DIEN at 256, "
            "Inductor / Sinter 0.95, and CRNN with cuDNN's LSTM, 0.99.")


NAMES = {
    "rows": rows, "left_out": left_out,
    "file": file_name, "on": on, "state": state, "eager_error": eager_error, "count": count, "mean": mean,
    "table_products": tables.products, "table_product_means": tables.product_means, "table_by_rows": tables.by_rows,
    "table_decode": tables.decode, "decode_least": tables.decode_least, "table_graphs": tables.graphs, "table_graph_means": tables.graph_means,
    "table_layers": tables.layers, "table_fp8": tables.fp8, "table_conv": tables.conv, "table_experts": tables.experts, "table_ranks": model_tables.ranks, "table_models_over_ranks": model_tables.models_over_ranks,
    "more_ranks": model_tables.more_ranks,
    "table_models": model_tables.models, "table_training": model_tables.training, "table_fusionstitching": fusionstitching.table, "table_summary": model_tables.summary,
}
