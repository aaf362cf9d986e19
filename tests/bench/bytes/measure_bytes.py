#!/usr/bin/env python3
"""Counts bytes at DRAM, L2 and L1TEX with Nsight Compute and compares them with what the analyzer predicts.

Usage: measure_bytes.py [--bench bin/sinter_bench] [--ncu ncu] [--ids G1,S8] [--cublaslt] [--out FILE]
       measure_bytes.py --print FILE
Needs a GPU, ncu, and leave to read its counters. README.md of this folder says what is counted.
"""

import argparse
import csv
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
IDS = [f"G{i}" for i in range(1, 11)] + [f"S{i}" for i in range(1, 9)]

# field of the results, ncu's counter, bytes of one count
COUNTERS = [
    ("dram_read", "dram__bytes_read.sum", 1),
    ("dram_write", "dram__bytes_write.sum", 1),
    ("l2_read", "lts__t_sectors_srcunit_tex_op_read.sum", 32),
    ("l2_write", "lts__t_sectors_srcunit_tex_op_write.sum", 32),
    ("l2_all", "lts__t_bytes.sum", 1),
    ("sm_intake", "l1tex__m_xbar2l1tex_read_bytes.sum", 1),
    ("sm_intake_tma", "l1tex__m_xbar2l1tex_read_bytes_mem_global_op_tma_ld.sum", 1),
    ("l1tex", "l1tex__t_bytes.sum", 1),
    ("dsm_in", "l1tex__m_xbar2l1tex_read_bytes_mem_dshared.sum", 1),
    ("dsm_lsu", "l1tex__t_bytes_pipe_lsu_mem_dshared.sum", 1),
    ("dsm_tma", "l1tex__m_l1tex2xbar_write_sectors_mem_dshared_op_tma_st.sum", 32),
]
DRAM_BOUND, L2_BOUND = 0.15, 0.20
LEAST_BYTES = 4e6  # of weights: below, DRAM reads are a matter of the cache
PAPER_REDUCTION = 0.58


def available(ncu):
    """Counters that this GPU has; all of them when ncu does not say."""
    try:
        text = subprocess.run([ncu, "--query-metrics"], capture_output=True, text=True, timeout=120, check=False).stdout
    except subprocess.TimeoutExpired:
        return COUNTERS
    names = {line.split()[0] for line in text.splitlines() if line.split()}
    there = [counter for counter in COUNTERS if counter[1].rsplit(".", 1)[0] in names]
    return there or COUNTERS


def parse_launches(text, counters):
    """ncu's CSV to one {field: bytes} a launch, in order."""
    begin = text.find('"ID"')
    if begin < 0:
        return []
    scale = {name: (field, factor) for field, name, factor in counters}
    launches = {}
    for row in csv.DictReader(io.StringIO(text[begin:])):
        if row.get("Metric Name") not in scale:
            continue
        field, factor = scale[row["Metric Name"]]
        one = launches.setdefault(int(row["ID"]), {"kernel": row["Kernel Name"].split("(")[0]})
        try:
            one[field] = float(row["Metric Value"].replace(",", "")) * factor
        except ValueError:  # "n/a"
            continue
    return [launches[key] for key in sorted(launches)]


def total(launches):
    """Sums over launches; a field that a launch lacks is left out."""
    fields = set.intersection(*[set(one) for one in launches]) - {"kernel"} if launches else set()
    return {field: sum(one[field] for one in launches) for field in sorted(fields)}


def assign(rows, launches):
    """The bench's rows with their launches' sums. Every row launches `kernels` kernels, in the rows' order."""
    if len(rows) == 1:
        counts = [len(launches)]
    else:
        counts = [int(row["kernels"]) for row in rows]
    if sum(counts) != len(launches):
        raise RuntimeError(f"{len(launches)} launches were counted, {sum(counts)} expected")
    at, result = 0, []
    for row, count in zip(rows, counts):
        own = launches[at:at + count]
        at += count
        result.append({**row, "launches": own, "counted": total(own)})
    return result


def profile(arguments, counters, ids, contestant):
    """Rows of one run of the bench under ncu."""
    with tempfile.TemporaryDirectory() as folder:
        log, out = os.path.join(folder, "ncu.csv"), os.path.join(folder, "bench.json")
        command = [arguments.ncu, "--replay-mode", "application", "--cache-control", "none", "--clock-control", "none",
                   "--profile-from-start", "off", "--print-units", "base", "--csv", "--log-file", log,
                   "--metrics", ",".join(name for _, name, _ in counters),
                   arguments.bench, "--profile", "--contestant", contestant, "--ids", ",".join(ids), "--cache",
                   "--layout", arguments.layout, "--out", out]
        environment = {**os.environ, "SINTER_CACHE_DIR": os.environ.get("SINTER_CACHE_DIR", arguments.cache_dir)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.seconds, check=False, cwd=ROOT,
                              env=environment)
        text = open(log, encoding="utf-8", errors="replace").read() if os.path.exists(log) else ""
        if "ERR_NVGPUCTRPERM" in text + done.stdout + done.stderr:
            raise RuntimeError("the driver does not let this user read the GPU's counters (ERR_NVGPUCTRPERM)")
        if done.returncode != 0 or not os.path.exists(out):
            raise RuntimeError(f"ncu ended with {done.returncode}:\n{text[-2000:]}{done.stdout[-2000:]}{done.stderr[-2000:]}")
        with open(out, encoding="utf-8") as file:
            result = json.load(file)
        return result, assign(result["bytes"], parse_launches(text, counters))


def weight_bytes(problems_folder, name):
    """Bytes of a problem's weights."""
    for file_name in ("gemm_chains.txt", "gated_ffn.txt"):
        with open(os.path.join(problems_folder, file_name), encoding="utf-8") as file:
            for line in file:
                words = line.split("#")[0].split()
                if words and words[0] == name:
                    fields = dict(word.split("=") for word in words[2:])
                    n, k, l = (int(fields[key]) for key in "nkl")
                    return 2 * (n * k * (2 if words[1] == "gated_ffn" else 1) + n * l)
    raise RuntimeError(f"no problem {name}")


def ratio(row, counted, predicted):
    if counted not in row["counted"] or not row.get(predicted):
        return None
    return row["counted"][counted] / row[predicted]


def cell(value, bound=None):
    if value is None:
        return "     -       "
    verdict = "" if bound is None else ("ok" if abs(value - 1) <= bound else "OFF")
    return f"{value:6.3f} {verdict:6}"


def comparison_text(rows):
    lines = ["counted / predicted bytes",
             "  id    contestant  DRAM read MB      of predicted  L2 read MB  of predicted  DSM MB  predicted"]
    for row in rows:
        if row["contestant"] == "cublaslt":
            continue
        counted = row["counted"]
        large = row["weight_bytes"] >= LEAST_BYTES
        dsm = max((counted[field] for field in ("dsm_in", "dsm_lsu", "dsm_tma") if field in counted), default=float("nan"))
        lines.append("  {:5} {:10} {:10.3f}   {}  {:10.3f}  {}  {:7.3f}  {:7.3f}".format(
            row["id"], row["contestant"], counted.get("dram_read", math.nan) / 1e6,
            cell(ratio(row, "dram_read", "dram_read_bytes"), DRAM_BOUND if large else None),
            counted.get("l2_read", math.nan) / 1e6, cell(ratio(row, "l2_read", "l2_bytes"), L2_BOUND),
            dsm / 1e6, (row.get("dsm_bytes") or 0) / 1e6))
    return "\n".join(lines)


def reduction_text(rows):
    """1 - fused / baseline over the GEMM chains and over all, at each level, beside the paper's figure."""
    by = {(row["id"], row["contestant"]): row["counted"] for row in rows}
    lines = [f"reduction of bytes by fusion; FlashFuser says {PAPER_REDUCTION:.0%} of 'global memory access' over G and C"]
    for baseline in ("unfused", "cublaslt"):
        for group in ("G", "S"):
            cells = []
            for field in ("dram_read", "l2_read", "l2_all", "sm_intake", "l1tex"):
                parts = [by[(i, "fused")][field] / by[(i, baseline)][field] for i, c in by
                         if c == baseline and i.startswith(group) and by.get((i, "fused"), {}).get(field)
                         and by[(i, baseline)].get(field)]
                if parts:
                    cells.append(f"{field} {1 - sum(parts) / len(parts):6.1%}")
            if cells:
                lines.append(f"  {group} against {baseline:8}: " + "  ".join(cells))
    return "\n".join(lines)


def write(path, head, rows):
    with open(path + ".part", "w", encoding="utf-8") as file:
        json.dump({**head, "rows": rows}, file, indent=1)
        file.write("\n")
    os.replace(path + ".part", path)


def measure(arguments):
    counters = available(arguments.ncu)
    missing = [name for _, name, _ in COUNTERS if name not in [c[1] for c in counters]]
    if missing:
        print("not on this GPU: " + ", ".join(missing))
    ids = [name for name in arguments.ids.split(",") if name] or IDS
    runs = [("fused", ids), ("unfused", ids)] + ([("cublaslt", [i]) for i in ids] if arguments.cublaslt else [])
    rows, head = [], {}
    for contestant, own in runs:
        begin = time.monotonic()
        result, new = profile(arguments, counters, own, contestant)
        head = {key: result[key] for key in ("machine", "commit", "dirty")}
        for row in new:
            row["weight_bytes"] = weight_bytes(os.path.join(ROOT, "tests/bench/problems"), row["id"])
        rows += new
        print(f"{contestant} of {','.join(own)}: {time.monotonic() - begin:.1f} s", flush=True)
        write(arguments.out, head, rows)
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    built = os.path.join(ROOT, "build/bin/sinter_bench")
    parser.add_argument("--bench", default=built if os.path.exists(built) else os.path.join(ROOT, "bin/sinter_bench"))
    parser.add_argument("--ncu", default="ncu")
    parser.add_argument("--ids", default="")
    parser.add_argument("--layout", default="oi")
    parser.add_argument("--cublaslt", action="store_true", help="the serving form too: one run for each problem")
    parser.add_argument("--cache-dir", default="/tmp/sinter-bytes-cache", help="unless SINTER_CACHE_DIR says another")
    parser.add_argument("--seconds", type=float, default=300, help="limit of one run of ncu")
    parser.add_argument("--out", default="bytes.json")
    parser.add_argument("--print", dest="file", help="the tables of a results file, nothing measured")
    arguments = parser.parse_args()
    try:
        rows = json.load(open(arguments.file, encoding="utf-8"))["rows"] if arguments.file else measure(arguments)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        print(f"measure_bytes: {error}", file=sys.stderr)
        return 1
    print(comparison_text(rows))
    print(reduction_text(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
