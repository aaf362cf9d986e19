// The float64 reference of a sequence of products, an FFN among them, fast enough for whole
// problems of tens of GFLOP. Checked against src/reference, the oracle, by ffn_reference_test.
#pragma once

#include "src/chain/chain.h"
#include "src/product/sequence.h"
#include "tests/support/common.h"

namespace sinter::gpu_testing {

// Whether FfnReference computes it: 16-bit elements and biases, and what steps of epilogues say.
bool TakesFfnReference(const ProductSequence& sequence);

// Rows `rows` of the chain's only output, one after the other, contiguous: each in [0, m), where M
// counts images in [0, m * pixels).
// `inputs`: canonical, bytes as the chain's strides lay them out. Only inputs are rounded, and
// intermediates where the chain casts them. INVALID_ARGUMENT if the chain is not an FFN. Blocks;
// `threads` 0: one per hardware thread.
absl::StatusOr<std::vector<double>> FfnReference(const Chain& chain, int64_t m,
                                                 const std::vector<std::string>& inputs,
                                                 const std::vector<int64_t>& rows, int threads = 0);

// 0 .. m-1.
std::vector<int64_t> AllRows(int64_t m);
// Up to `count` rows: both ends, both sides of every multiple of 64 near them, the rest drawn from
// `seed`. Sorted, distinct.
std::vector<int64_t> SampledRows(int64_t m, int64_t count, uint64_t seed);

}  // namespace sinter::gpu_testing
