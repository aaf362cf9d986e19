// The reference of a chain whose kernels round wherever they may.
#pragma once

#include "src/chain/chain.h"
#include "src/reference/compare.h"
#include "tests/support/common.h"

namespace sinter::bench {

// As RunReferenceF64, but what is computed in 16 bits is rounded to them, and sums of products of
// e4m3 are as far off as tensor cores may leave them.
absl::StatusOr<std::vector<std::vector<double>>> RunRoundedReference(
    const Chain& chain, int64_t m, const std::vector<const void*>& inputs);

// `bounds`, or twice what `rounded` differs from `exact` where that is more: a difference or a
// least number of rounded values may leave little but their roundings.
Bounds BoundsWithRoundings(const Bounds& bounds, absl::Span<const double> rounded,
                           absl::Span<const double> exact, DType dtype);

}  // namespace sinter::bench
