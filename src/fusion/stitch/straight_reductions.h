// Reductions of transposed values as reductions of the values as they lie.
#ifndef SINTER_SRC_FUSION_STITCH_STRAIGHT_REDUCTIONS_H_
#define SINTER_SRC_FUSION_STITCH_STRAIGHT_REDUCTIONS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "src/chain/chain.h"

namespace sinter {

// `body` with each reduction that reads a transpose through element-wise ops alone over the axes
// from before the transpose: element-wise ops in between are computed there. So columns of a tensor
// in memory are reduced as columns, not as strided rows. Nothing where there is no such reduction.
// The result's callers' inputs are the canonical inputs of `body`.
absl::StatusOr<std::optional<Chain>> WithStraightReductions(const Chain& body);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_STRAIGHT_REDUCTIONS_H_
