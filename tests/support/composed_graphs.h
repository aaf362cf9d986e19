// Small graphs that ask for one composition of the stitch family each, of any extents.
#pragma once

#include "src/chain/chain.h"
#include "tests/support/common.h"

namespace sinter::testing {

// softmax(t + mask)[b, s] times v[b, s, d], summed over s: as a reduction of a middle axis, or as
// a product [b, 1, s] x [b, s, d] (`product`). bf16 to bf16.
Chain PooledAttention(int64_t batch, int64_t steps, int64_t depth, bool product);

// a^T b + a^T b^T of a[batch, k, m], b[batch, k, n] and b'[batch, n, k]. f16 to f16.
Chain TransposedProducts(int64_t batch, int64_t m, int64_t k, int64_t n);

// rmsnorm over the last axis of q[rows, q_heads, dim] and k[rows, k_heads, dim], halves then turned
// by cos and sin[rows, dim / 2]. rows 0: M. bf16 to bf16.
Chain NormRope(int64_t rows, int64_t q_heads, int64_t k_heads, int64_t dim);

// Batch normalisation of x[rows, columns] as training does it, with relu; both statistics are
// outputs. `shift` is added to x first. rows 0: M. bf16 to bf16, statistics f32.
Chain BatchNorm(int64_t rows, int64_t columns, double shift = 0);

// The gradients of a batch norm of images x[n, h, w, channels], followed by a residual and a relu,
// whose result is read. Computed from the gradients of both readers: the gradient of the sum, which
// is an output as it is before the norm, of beta and gamma, and of x. bf16, vectors f32.
Chain BatchNormGradient(int64_t n, int64_t h, int64_t w, int64_t channels);

// (x - mean) / sqrt(var) of f32 x[rows, columns], both of all elements. The largest magnitude and
// the sum of all are further outputs, f32. rows 0: M.
Chain WholeNorm(int64_t rows, int64_t columns);
// Column maxima and means of [rows, columns], and a mean over everything of [rows, 1]. 0 rows: M.
Chain WholeBesideColumns(int64_t rows, int64_t columns);

// Softmax of each f32 x[rows, columns] of `rows` (extent 0 is M), and sqrt(|x| + 1) of a vector of
// `elements` (0: none): parts that need nothing of each other. bf16 results.
struct RowExtents {
  int64_t rows = 0, columns = 0;
};
Chain IndependentRows(const std::vector<RowExtents>& rows, int64_t elements);

// Momentum and weight of tensors of `sizes` elements, in place, by one step size [1]; then a bf16
// copy of the weight.
Chain IndependentUpdates(const std::vector<int64_t>& sizes);

}  // namespace sinter::testing
