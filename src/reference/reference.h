// The numerical oracle: runs any chain on the CPU in float64.
#ifndef SINTER_SRC_REFERENCE_REFERENCE_H_
#define SINTER_SRC_REFERENCE_REFERENCE_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/chain/chain.h"
#include "src/reference/budget.h"

namespace sinter {

struct ReferenceOptions {
  int threads = 0;  // 0: one per hardware thread
  // Compute only these rows of M, in this order; nullptr: all. Only for chains in which no op mixes
  // rows of M (FAILED_PRECONDITION otherwise); entries lie in [0, m), repeats allowed.
  const std::vector<int64_t>* rows = nullptr;
  // RunReferenceF64 only: leave out a floating cast that makes an output, for a tighter comparison.
  bool skip_final_cast = false;
  ReferenceBudget budget;
};

// `inputs` in canonical order, each of its tensor's dtype and strides; never written. If a chain is
// split over ranks, rank 0's come first, then rank 1's, and so on. `outputs` are in the same order;
// with `rows` set only those rows are written. Floating values are held in float64, s32
// wraps, nothing but inputs, casts and the final store rounds. The result does not depend on
// `threads`. m = 0 writes only the outputs without M. Buffers stay the caller's. Blocks;
// thread-safe. INVALID_ARGUMENT on a wrong count or null pointer, OUT_OF_RANGE on sizes,
// RESOURCE_EXHAUSTED, before anything is allocated, if it would take more than `options.budget`.
absl::Status RunReference(const Chain& chain, int64_t m, const std::vector<const void*>& inputs,
                          const std::vector<void*>& outputs, const ReferenceOptions& options = {});

// The outputs as float64, contiguous, rank by rank; with `rows` set the M axis has rows->size()
// entries.
absl::StatusOr<std::vector<std::vector<double>>> RunReferenceF64(
    const Chain& chain, int64_t m, const std::vector<const void*>& inputs,
    const ReferenceOptions& options = {});

// Whether no op mixes rows of M, so that `rows` is allowed.
bool IsRowIndependent(const Chain& chain);

}  // namespace sinter

#endif  // SINTER_SRC_REFERENCE_REFERENCE_H_
