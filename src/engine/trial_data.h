// TrialData: random inputs for a chain from a seed; reads its outputs back as numbers.
#ifndef SINTER_SRC_ENGINE_TRIAL_DATA_H_
#define SINTER_SRC_ENGINE_TRIAL_DATA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/chain/chain.h"

namespace sinter {

// Canonical inputs as byte buffers. The same (chain, m, seed) gives the same bytes everywhere.
// Floating values are uniform in [-s, s]: s is 1, or for constants of two dimensions or more such
// that a product keeps the scale of its input. Integers are 0..15, pred is 0 or 1. In a chain
// without products f32 inputs are uniform in [0.25, 1): there they are statistics, second moments
// and rates, of which roots are taken. Values repeat with a prime period, so that no two tiles of a
// tensor are alike.
absl::StatusOr<std::vector<std::string>> RandomInputs(const Chain& chain, int64_t m, uint64_t seed);

// Bytes of canonical input or output `i` at m rows.
absl::StatusOr<int64_t> InputBytes(const Chain& chain, int i, int64_t m);
absl::StatusOr<int64_t> OutputBytes(const Chain& chain, int i, int64_t m);

// Output `i`, read from its buffer's bytes: contiguous, row-major.
absl::StatusOr<std::vector<double>> OutputValues(const Chain& chain, int i, int64_t m,
                                                 const std::string& bytes);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_TRIAL_DATA_H_
