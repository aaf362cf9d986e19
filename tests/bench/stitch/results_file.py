"""The results file of peers.py: rows by graph, the figures that follow from their steps, and its summary."""

import json
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.append(os.path.dirname(HERE))

import rows_file  # noqa: E402
import source_state  # noqa: E402

MODES = {"torch": "default", "torch_max": "max-autotune-no-cudagraphs"}


class Results:
    """The results file: rows by graph, each with its steps; derived figures are filled in when it is written."""

    def __init__(self, path):
        self.path, self.rows, self.machine = path, {}, {}
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                old = json.load(file)
            self.machine, self.rows = old["machine"], {row["id"]: row for row in old["rows"]}

    def row(self, case):
        return self.rows.setdefault(case.name, {
            "id": case.name, "group": case.group, "problem": case.line or "", "ops": len(case.graph["ops"]),
            "bytes": case.bytes(), "limit_us": case.limit_us(), "steps": {}, "notes": []})

    def add(self, case, step, answer):
        row = self.row(case)
        row["notes"] = [note for note in row["notes"] if not note.startswith(step + ": ")]
        if "result" in answer:
            row["steps"][step] = answer["result"]
        else:
            row["steps"].pop(step, None)
            row["notes"].append(f"{step}: {answer['error']}")
        derive(row)

    def write(self):
        rows_file.write(self.path, {"machine": self.machine, **source_state.of_build(ROOT), "rows": list(self.rows.values())})


def derive(row):
    """The figures of the schema from the steps."""
    steps = row["steps"]
    compiled = [steps[step] for step in MODES if step in steps]
    best = min(compiled, key=lambda s: s["us"], default={})
    sinter, unfused, xla, own = (steps.get(step, {}) for step in ("sinter", "unfused", "xla", "sinter_kernels"))
    row.update({
        "sinter_us": sinter.get("us"), "sinter_kernel_us": own.get("us"), "unfused_us": unfused.get("us"), "predicted_us": sinter.get("predicted_us"),
        "torch_compile_us": best.get("us"), "xla_us": xla.get("us"), "xla_wall_us": xla.get("wall_us"),
        "kernels": sinter.get("kernels"), "unfused_kernels": unfused.get("kernels"), "torch_kernels": best.get("kernels"),
        "xla_kernels": xla.get("kernels"), "xla_copies": xla.get("copies"), "host_us": sinter.get("host_us"),
        "torch_host_us": best.get("host_us"), "xla_host_us": xla.get("host_us"), "rel_error": sinter.get("rel_error"),
        "max_error": sinter.get("max_error")})
    peers = [us for us in (row["torch_compile_us"], row["xla_us"]) if us]
    row["best_peer_us"] = min(peers, default=None)
    row["better_peer_ratio"] = better_peer_ratio(row)


def kernels_us(row):
    """The time of only Sinter's kernels. A graph holds them and their launches: where a profiler says that they take longer
    than the graph, it is the profiler's doing, which flushes the instruction caches between large kernels."""
    own = row.get("sinter_kernel_us")
    return own and min(own, row["sinter_us"] or own)


def better_peer_ratio(row):
    """The better peer's time over Sinter's, each pair by one measure: PyTorch's and Sinter's in a CUDA graph, which hold the
    launches, XLA's and Sinter's as the sum of kernels, which does not. None where a pair lacks a time."""
    pairs = [(row["torch_compile_us"], row["sinter_us"]), (row["xla_us"], kernels_us(row))]
    ratios = [peer / sinter for peer, sinter in pairs if peer and sinter]
    return min(ratios) if len(ratios) == len([peer for peer, _ in pairs if peer]) and ratios else None


def geometric_mean(values):
    return statistics.geometric_mean(values) if values else None


def summary(rows):
    """Lines with the geometric means of each group and what misses its goal."""
    lines = []
    for group in dict.fromkeys(row["group"] for row in rows):
        some = [row for row in rows if row["group"] == group and row.get("sinter_us")]
        ratios = {
            "limit / Sinter": [r["limit_us"] / r["sinter_us"] for r in some],
            "better peer / Sinter": [r["better_peer_ratio"] for r in some if r.get("better_peer_ratio")],
            "better peer / Sinter in a graph": [r["best_peer_us"] / r["sinter_us"] for r in some if r["best_peer_us"]],
            "better peer with XLA's launches / Sinter": [min(r["torch_compile_us"], r["xla_wall_us"]) / r["sinter_us"] for r in some
                                                         if r["torch_compile_us"] and r["xla_wall_us"]],
            "torch.compile / Sinter": [r["torch_compile_us"] / r["sinter_us"] for r in some if r["torch_compile_us"]],
            "XLA's kernels / Sinter's kernels": [r["xla_us"] / kernels_us(r) for r in some if r["xla_us"] and kernels_us(r)],
            "XLA's kernels / Sinter in a graph": [r["xla_us"] / r["sinter_us"] for r in some if r["xla_us"]],
            "unfused / Sinter": [r["unfused_us"] / r["sinter_us"] for r in some if r["unfused_us"]],
            "kernels / XLA's": [r["kernels"] / r["xla_kernels"] for r in some if r["xla_kernels"] and r["kernels"]],
        }
        for name, values in ratios.items():
            if values:
                lines.append(f"{group}: {name}: geometric mean {geometric_mean(values):.3f}, least {min(values):.3f}, "
                             f"most {max(values):.3f}, of {len(values)}")
        peers = [r["best_peer_us"] / r["limit_us"] for r in rows if r["group"] == group and r.get("best_peer_us")]
        if peers:
            lines.append(f"{group}: better peer / limit: geometric mean {geometric_mean(peers):.3f} of {len(peers)}")
    return lines
