// Graphs of numbers that f32 holds exactly: whatever the order of sums, every output has every bit
// of the reference's, so that a rounding too many or too few is seen.
#pragma once

#include "src/chain/chain.h"
#include "tests/support/common.h"

namespace sinter::bench {

// `chain` with sums, products, magnitudes and the like in place of functions and quotients, sums in
// place of means, and quarters in place of its numbers. A value computed in 16 bits is cast to
// them: only casts round.
absl::StatusOr<Chain> WithExactOps(const Chain& chain);

// Canonical inputs: floats are quarters in [-1, 1], the others those of RandomInputs.
absl::StatusOr<std::vector<std::string>> Quarters(const Chain& chain, int64_t m, uint64_t seed);

// Whether f32 holds every value of a run, and every part of every sum. False where products of e4m3
// are summed, of which tensor cores keep fewer bits.
absl::StatusOr<bool> IsExactInF32(const Chain& chain, int64_t m,
                                  const std::vector<std::string>& inputs);

}  // namespace sinter::bench
