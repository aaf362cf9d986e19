// Parts of ExplainFusion.
#ifndef SINTER_SRC_EXPLAIN_FUSION_H_
#define SINTER_SRC_EXPLAIN_FUSION_H_

#include <set>
#include <vector>

#include "absl/status/statusor.h"
#include "src/explain/explain.h"

namespace sinter {

// Adds the ops of the kernel's body, each of which would be a kernel of its own, to a description
// that has the tensors at its border. None when the body makes no StitchGraph or no program.
void AddOps(const KernelSpec& spec, int64_t bucket, KernelDescription* kernel);

// A body, and the tensor of each of its inputs and outputs: equal numbers are one tensor in any
// body.
struct NamedBody {
  const Chain* body = nullptr;
  std::vector<int> tensors;
};

// `first` followed by `second`. An output of `first` that `second` reads is computed, an input of
// both is read once. Outputs of `first` among `wanted` stay outputs, and so do all of `second`.
// Outputs keep the inputs' buffers that they share. An error names the op that does not fit.
absl::StatusOr<Chain> JoinBodies(const NamedBody& first, const NamedBody& second,
                                 const std::set<int>& wanted);

}  // namespace sinter

#endif  // SINTER_SRC_EXPLAIN_FUSION_H_
