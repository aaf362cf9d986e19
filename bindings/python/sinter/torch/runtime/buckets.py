"""Buckets of rows: the plan of the smallest bucket that holds a number of rows serves it."""

from __future__ import annotations

import bisect
from typing import Tuple

_FEW = (1, 8, 16, 32, 48, 64, 80, 96, 112, 128)


def _up_to_8192(steps: int) -> Tuple[int, ...]:
    """The buckets up to 128 rows, and from there `steps` for each octave."""
    return (*_FEW, *(low + i * low // steps for low in (128, 256, 512, 1024, 2048, 4096) for i in range(1, steps + 1)))


#: The library's buckets (src/base/dtype.cc); the library makes plans for the last one loop over more rows.
BUCKETS = _up_to_8192(16)

#: The buckets that servers' plans are made for: of more than 128 rows every second, which halves the plans to build.
#: At 1,100 rows a plan made for 1,280 is slower than cuBLAS's products, so no more of them are left out.
_SERVED = _up_to_8192(8)

#: Those up to 512 rows, for which servers capture graphs; more rows are prefill.
SIZES = _SERVED[: _SERVED.index(512) + 1]

#: Those above, for prefill, up to the most rows that a server computes at once.
PREFILL_SIZES = _SERVED[len(SIZES) :]

#: The buckets for which servers get plans of experts: plans for other buckets gain nothing over servers' own
#: kernels (docs/lab/grouped-products.md).
EXPERTS_ROWS = (1, 16, 32, 48, 64)


def bucket(rows: int) -> int:
    """The index in ``BUCKETS`` of the bucket that holds `rows`; ``len(BUCKETS)`` for more rows than the last."""
    return bisect.bisect_left(BUCKETS, rows)
