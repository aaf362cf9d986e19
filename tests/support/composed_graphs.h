// Small graphs that ask for one composition of the stitch family each, of any extents.
#ifndef SINTER_TESTS_SUPPORT_COMPOSED_GRAPHS_H_
#define SINTER_TESTS_SUPPORT_COMPOSED_GRAPHS_H_

#include <cstdint>

#include "src/chain/chain.h"

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

}  // namespace sinter::testing

#endif  // SINTER_TESTS_SUPPORT_COMPOSED_GRAPHS_H_
