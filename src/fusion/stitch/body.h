// Body extraction: the ops of one kernel as a chain.
#ifndef SINTER_SRC_FUSION_STITCH_BODY_H_
#define SINTER_SRC_FUSION_STITCH_BODY_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/chain/chain.h"
#include "src/fusion/stitch/stitch_graph.h"

namespace sinter {

struct BodyOutput {
  ValueId value = -1;  // of the chain
  int output = -1;     // of the chain; -1: the workspace
};

struct StitchBody {
  Chain body;
  std::vector<ValueId> inputs;      // of the chain, as the body's canonical inputs
  std::vector<BodyOutput> outputs;  // as the body's outputs
  KernelOps ops;                    // from which ExtractBody makes the same body again
};

// The kernel of `vertices` of `graph`, with inlined values computed in it. Results of other
// vertices and inputs of the chain become inputs, each in its stored dtype: inputs of the chain
// with its strides and marks, outputs of the chain with their strides, others contiguous. Outputs,
// by ascending value: every output of the chain among the members, with its strides, and with its
// alias if the body reads that input; and, contiguous, every other value that an outside vertex
// reads or that must be stored. Equal patterns of equal graphs give equal canonical bytes.
// Reductions of transposes are over the axes from before (WithStraightReductions). With
// `turn_reductions` they stand as they are, and a reduction over middle axes reads its operand
// through a transpose that puts them last, so that its kept axes are units of rows.
absl::StatusOr<StitchBody> ExtractBody(const StitchGraph& graph, const NodeSet& vertices,
                                       bool turn_reductions = false);

// FAILED_PRECONDITION when the ops of a body, counted again for each concatenation, would take a
// compiler more than a second or two.
absl::Status CheckBodyLength(const Chain& body);

// `body`, in which a reduction that reads a transpose, directly or through element-wise ops, reads
// what is transposed instead, over the axes that it has there. The ops in between are computed
// before the transpose. So columns of a tensor in memory are reduced as columns, not as strided
// rows. Of several transposes one behind the other the last is taken. Nothing where `body` has no
// such reduction. InputOrder() of the result counts canonical inputs of `body`.
absl::StatusOr<std::optional<Chain>> WithStraightReductions(const Chain& body);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_BODY_H_
