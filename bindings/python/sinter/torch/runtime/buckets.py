"""Buckets of rows: the plan of the smallest bucket that holds a number of rows serves it."""

from __future__ import annotations

import bisect

#: The library's buckets (src/base/dtype.cc); the library makes plans for the last one loop over more rows.
BUCKETS = (
    *(1, 8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640, 704, 768, 832, 896, 960, 1024, 1152, 1280),
    *(1408, 1536, 1664, 1792, 1920, 2048, 2304, 2560, 2816, 3072, 3328, 3584, 3840, 4096, 4608, 5120, 5632, 6144, 6656, 7168),
    *(7680, 8192),
)

#: The buckets up to 512 rows, for which servers capture graphs; more rows are prefill.
SIZES = BUCKETS[: BUCKETS.index(512) + 1]

#: The buckets above, for prefill, up to the most rows that a server computes at once. None is left out: at 1,100 rows
#: a plan made for 1,280 is slower than cuBLAS's products.
PREFILL_SIZES = BUCKETS[len(SIZES) :]

#: The buckets for which servers get plans of experts: plans for other buckets gain nothing over servers' own
#: kernels (docs/lab/grouped-products.md).
EXPERTS_ROWS = (1, 16, 32, 48, 64)


def bucket(rows: int) -> int:
    """The index in ``BUCKETS`` of the bucket that holds `rows`; ``len(BUCKETS)`` for more rows than the last."""
    return bisect.bisect_left(BUCKETS, rows)
