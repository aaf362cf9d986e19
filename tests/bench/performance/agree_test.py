#!/usr/bin/env python3
"""The page and `sinter_bench --markdown` say the same of one file.

Usage: agree_test.py SINTER_BENCH, in the repository's root.
"""

import os
import subprocess
import sys

import families
import tables
from figures import BENCH, FILES, Store

NAMES = ("gemm_chains", "gated_ffn")  # lists

# Columns of the page's table, and those of sinter_bench's that hold the same.
COLUMNS = {4: 7, 5: 8, 10: 14}
PREDICTED = {3: 3, 9: 9}  # where no tuning set chose


def lines_of(text, ids):
    """{id: cells} of the lines of a Markdown table."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("|")]
    return {line[0]: line for line in cells if line[0] in ids}


def main():
    store = Store()
    ids = {row for name in NAMES for row in families.rows_of(store, name).told}
    printed = subprocess.run([sys.argv[1], "--markdown", os.path.join(BENCH, FILES["products"])], capture_output=True, text=True,
                             check=True).stdout
    bench, ours = lines_of(printed, ids), lines_of("\n".join(tables.products(store, name) for name in NAMES), ids)
    columns = {**COLUMNS, **({} if store.file("products").get("tuning_set") else PREDICTED)}
    wrong = [f"{i}: the page says {ours[i][a]}, sinter_bench {bench[i][b]}" for i in sorted(ids) for a, b in columns.items()
             if ours[i][a] != bench[i][b]]
    print("\n".join(wrong) or f"{len(ids)} rows agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
