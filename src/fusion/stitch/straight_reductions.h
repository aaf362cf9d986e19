// Reductions of transposed values as reductions of the values as they lie.
#ifndef SINTER_SRC_FUSION_STITCH_STRAIGHT_REDUCTIONS_H_
#define SINTER_SRC_FUSION_STITCH_STRAIGHT_REDUCTIONS_H_

#include <optional>

#include "absl/status/statusor.h"
#include "src/chain/chain.h"

namespace sinter {

// `body`, in which a reduction that reads a transpose, directly or through element-wise ops, reads
// what is transposed instead, over the axes that it has there. The ops in between are computed
// before the transpose. So columns of a tensor in memory are reduced as columns, not as strided
// rows. Of several transposes one behind the other the last is taken. Nothing where `body` has no
// such reduction. InputOrder() of the result counts canonical inputs of `body`.
absl::StatusOr<std::optional<Chain>> WithStraightReductions(const Chain& body);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_STRAIGHT_REDUCTIONS_H_
