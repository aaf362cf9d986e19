#!/usr/bin/env python3
"""Counts bytes at DRAM, L2 and L1TEX with Nsight Compute and compares them with what the analyzer predicts.

Usage: measure_bytes.py [--bench bin/sinter_bench] [--ncu ncu] [--ids G1,S8] [--cublaslt] [--logs DIR] [--out FILE]
       measure_bytes.py --print FILE
Needs a GPU, ncu, and leave to read its counters. README.md of this folder says what is counted.
"""

import argparse
import csv
import io
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.append(os.path.join(ROOT, "tests", "bench"))

import rows_file  # noqa: E402

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
DRAM_BOUND, L2_BOUND, DSM_BOUND = 0.15, 0.20, 1e-6
LEAST_BYTES = 4e6  # of weights: below, DRAM reads are a matter of the cache
PAPER_REDUCTION = 0.58


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def run_limited(command, seconds, **options):
    """Exit status and output of a command. Past its time it is killed with all that it started: processes that ncu leaves
    running would keep the GPU."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                          **options) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return process.returncode, output


def available(ncu):
    """Counters that this GPU has; all of them when ncu does not say."""
    try:
        text = subprocess.run([ncu, "--query-metrics"], capture_output=True, text=True, timeout=120, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return COUNTERS
    names = {line.split()[0] for line in text.splitlines() if line.split()}
    there = [counter for counter in COUNTERS if counter[1].rsplit(".", 1)[0] in names]
    return there or COUNTERS


def parse_launches(text, counters):
    """ncu's CSV to one {field: bytes} a launch or range, in order."""
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


def assign(rows, ranges):
    """The bench's rows with what was counted in the range of each, in the rows' order."""
    if len(rows) != len(ranges):
        raise RuntimeError(f"{len(ranges)} ranges were counted, {len(rows)} expected")
    return [{**row, "counted": total([one])} for row, one in zip(rows, ranges)]


def run_ncu(arguments, counters, ids, contestant, log, out):
    """One run of the bench under ncu, which starts it again for each pass."""
    command = [arguments.ncu, "--replay-mode", "app-range", "--cache-control", "none", "--clock-control", "none",
               "--print-units", "base", "--csv", "--log-file", log, "--metrics", ",".join(name for _, name, _ in counters),
               arguments.bench, "--profile", "--contestant", contestant, "--ids", ",".join(ids), "--cache",
               "--layout", arguments.layout, "--out", out]
    environment = {**os.environ, "SINTER_CACHE_DIR": os.environ.get("SINTER_CACHE_DIR", arguments.cache_dir)}
    status, said = run_limited(command, arguments.seconds, cwd=ROOT, env=environment)
    text = read(log) if os.path.exists(log) else ""
    if "ERR_NVGPUCTRPERM" in text + said:
        raise RuntimeError("the driver does not let this user read the GPU's counters (ERR_NVGPUCTRPERM)")
    if status != 0 or not os.path.exists(out):
        raise RuntimeError(f"ncu ended with {status}:\n{text[-2000:]}{said[-2000:]}")


def profile(arguments, counters, ids, contestant):
    """What the bench says of one run, and its rows with what ncu counted. Logs that --logs has are not made again."""
    with tempfile.TemporaryDirectory() as folder:
        logs = os.path.abspath(arguments.logs) if arguments.logs else folder
        os.makedirs(logs, exist_ok=True)
        log, out = os.path.join(logs, contestant + ".csv"), os.path.join(logs, contestant + ".json")
        if not (os.path.exists(log) and os.path.exists(out)):
            run_ncu(arguments, counters, ids, contestant, log, out)
        result = json.loads(read(out))
        return result, assign(result["bytes"], parse_launches(read(log), counters))


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


def verdict(low, high, predicted, bound):
    """Whether the prediction is within `bound` of the range between two counters."""
    return "ok" if low * (1 - bound) <= predicted <= high * (1 + bound) else "OFF"


def comparison_line(row):
    counted, weights = row["counted"], row["weight_bytes"]
    dram, l2 = counted.get("dram_read", math.nan), counted.get("l2_read", math.nan)
    dsm = counted.get("dsm_in", math.nan)
    intake = counted.get("sm_intake", math.nan) - (0 if math.isnan(dsm) else dsm)
    predicted = [row.get(field) or math.nan for field in ("dram_read_bytes", "l2_bytes")]
    predicted_dsm = row.get("dsm_bytes") or 0
    return "  {:5} {:10} {:10.3f} {:6.3f} {:4} {:10.3f} {:6.3f} {:10.3f} {:6.3f} {:4} {:8.3f} {:8.3f} {}".format(
        row["id"], row["contestant"], dram / 1e6, dram / predicted[0],
        verdict(dram, dram, predicted[0], DRAM_BOUND) if weights >= LEAST_BYTES else "-", l2 / 1e6, l2 / predicted[1],
        intake / 1e6, intake / predicted[1], verdict(l2, intake, predicted[1], L2_BOUND), dsm / 1e6, predicted_dsm / 1e6,
        verdict(dsm, dsm, predicted_dsm, DSM_BOUND))


def comparison_text(rows):
    lines = ["MB counted, and of what was predicted: DRAM reads; L2 as it is asked, and what the SMs take in of it; DSM",
             "  id    contestant       DRAM               L2             intake               DSM predicted"]
    return "\n".join(lines + [comparison_line(row) for row in rows if row["contestant"] != "cublaslt"])


def reduction_text(rows):
    """1 - fused / baseline over the GEMM chains and over all, at each level, next to the paper's figure."""
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


def measure(arguments):
    counters = available(arguments.ncu)
    missing = [name for _, name, _ in COUNTERS if name not in [c[1] for c in counters]]
    if missing:
        print("not on this GPU: " + ", ".join(missing))
    ids = [name for name in arguments.ids.split(",") if name] or IDS
    rows, head = [], {}
    for contestant in ["fused", "unfused"] + (["cublaslt"] if arguments.cublaslt else []):
        begin = time.monotonic()
        result, new = profile(arguments, counters, ids, contestant)
        head = {key: result[key] for key in ("machine", "commit", "dirty")}
        for row in new:
            row["weight_bytes"] = weight_bytes(os.path.join(ROOT, "tests/bench/problems"), row["id"])
        rows += new
        print(f"{contestant}: {time.monotonic() - begin:.1f} s", flush=True)
        rows_file.write(arguments.out, {**head, "rows": rows})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    built = os.path.join(ROOT, "build/bin/sinter_bench")
    parser.add_argument("--bench", default=built if os.path.exists(built) else os.path.join(ROOT, "bin/sinter_bench"))
    parser.add_argument("--ncu", default="ncu")
    parser.add_argument("--ids", default="")
    parser.add_argument("--layout", default="oi")
    parser.add_argument("--cublaslt", action="store_true", help="the serving form too")
    parser.add_argument("--cache-dir", default="/tmp/sinter-bytes-cache", help="unless SINTER_CACHE_DIR says another")
    parser.add_argument("--seconds", type=float, default=300, help="limit of one run of ncu")
    parser.add_argument("--out", default="bytes.json")
    parser.add_argument("--logs", help="a folder that keeps ncu's logs; those that it has are read instead of measured")
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
