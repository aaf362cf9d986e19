"""A product of e4m3 codes in Triton, with a scale a row and a column: what one writes who knows the chip. Best of a few forms."""

import torch
import triton
import triton.language as tl

#: Rows of a tile, of columns, of k, stages, warps; by the rows that there are.
FORMS = {
    16: [(16, 64, 256, 5, 4), (16, 128, 128, 6, 4), (16, 128, 256, 4, 4), (16, 64, 512, 3, 4)],
    64: [(64, 64, 256, 4, 4), (64, 128, 128, 5, 4), (64, 128, 256, 3, 4)],
    256: [(128, 128, 128, 4, 8), (64, 256, 128, 4, 4), (128, 256, 128, 3, 8)],
}


@triton.jit
def _product(x, x_scale, w, w_scale, y, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SWAPPED: tl.constexpr):
    """A tile of y. Swapped: the tensor cores' 64 rows are columns of y, so that few rows of x waste none of them."""
    tiles = tl.cdiv(m, BM)
    row = (tl.program_id(0) % tiles) * BM + tl.arange(0, BM)
    column = (tl.program_id(0) // tiles) * BN + tl.arange(0, BN)
    place = tl.arange(0, BK)
    from_x = x + (row % m)[:, None] * k + place[None, :]
    from_w = w + (column % n).to(tl.int64)[:, None] * k + place[None, :]
    total = tl.zeros((BN, BM) if SWAPPED else (BM, BN), tl.float32)
    for begin in range(0, k, BK):
        inside = (begin + place < k)[None, :]
        a, b = tl.load(from_x + begin, mask=inside, other=0.0), tl.load(from_w + begin, mask=inside, other=0.0)
        total = tl.dot(b, tl.trans(a), total) if SWAPPED else tl.dot(a, tl.trans(b), total)
    if SWAPPED:
        total = tl.trans(total)
    total *= tl.load(x_scale + row % m)[:, None] * tl.load(w_scale + column % n)[None, :]
    target = y + row[:, None] * n + column[None, :]
    tl.store(target, total.to(tl.bfloat16), mask=(row < m)[:, None] & (column < n)[None, :])


class Product:
    """bf16 y [m, n] of codes [m, k], scale [m, 1], weights [n, k], weight_scale [n, 1]. The tensor cores' own accumulation."""

    def __init__(self, m, n, k):
        self.sizes, self.form = (m, n, k), None
        self.forms = next(forms for rows, forms in FORMS.items() if m <= rows or rows == max(FORMS))

    def __call__(self, codes, scale, weights, weight_scale, form=None):
        m, n, k = self.sizes
        bm, bn, bk, stages, warps = form or self.form
        y = torch.empty(m, n, device=codes.device, dtype=torch.bfloat16)
        _product[(triton.cdiv(m, bm) * triton.cdiv(n, bn),)](
            codes, scale, weights, weight_scale, y, m, n, k, BM=bm, BN=bn, BK=bk, SWAPPED=bm < 64, num_stages=stages, num_warps=warps)
        return y

    def choose(self, time_us):
        """Takes the fastest form. `time_us`: of a function that takes one and computes."""
        times = {}
        for form in self.forms:
            try:
                times[form] = time_us(form)
            except Exception:  # too much shared memory, say
                torch.cuda.synchronize()
        self.form = min(times, key=times.get)
        return self
