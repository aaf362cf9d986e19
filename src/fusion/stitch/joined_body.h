// JoinedBody: what one kernel in place of two would compute.
#ifndef SINTER_SRC_FUSION_STITCH_JOINED_BODY_H_
#define SINTER_SRC_FUSION_STITCH_JOINED_BODY_H_

#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "src/stitch/spec.h"

namespace sinter {

// A body and, by its inputs and then its outputs, which tensor each is: equal numbers are one
// tensor, whichever body names it.
struct NamedBody {
  const Chain* body = nullptr;
  std::vector<int> tensors;
};

// `first` followed by `second`: an input of `second` that `first` gives out is computed, an input
// of both is read once. Outputs of `first` stay outputs when they are among `wanted`; all of
// `second` do. Outputs share the buffers of inputs as before. An error names the op that does not
// fit.
absl::StatusOr<Chain> JoinBodies(const NamedBody& first, const NamedBody& second,
                                 const std::set<int>& wanted);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_JOINED_BODY_H_
