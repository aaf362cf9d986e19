// The operands of the kernels of a sequence of products. Which kernels, and the buffers' addresses,
// are decided elsewhere.
#ifndef SINTER_SRC_FUSION_RUN_OPERANDS_H_
#define SINTER_SRC_FUSION_RUN_OPERANDS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "src/fusion/rankings.h"
#include "src/plan/plan.h"
#include "src/product/matcher.h"

namespace sinter {

// OK, or the operand that no kernel of a plan of `chain` for `bucket` can read: row strides must be
// multiples of 16 bytes, and only launches that are not cut know the M of a stride.
absl::Status CheckStrides(const MatchedSequence& matched, const Chain& chain, int64_t bucket);

// Place of the result of product i in a run's workspace, unless it is the run's result. Results use
// three regions in turn, so that a kernel's rows, its C and its result are in different ones.
// Depends on the sequence alone: one workspace serves every plan of a chain.
struct WorkspaceRegion {
  uint64_t offset = 0, bytes = 0;
  uint64_t end() const { return offset + bytes; }
};
WorkspaceRegion RegionOf(const ProductSequence& sequence, int product);

// An operand of a kernel: one of the sequence's (`number` as in MatchedSequence::operands), the
// run's result or its scales, an auxiliary result, or a place in the run's workspace.
struct RunOperand {
  enum class Kind { kOperand, kResult, kScales, kAux, kWorkspace };

  Role role = Role::kA;
  Kind kind = Kind::kOperand;
  int number = -1;  // of an operand or an auxiliary result
  WorkspaceRegion region;
  int64_t row_stride = 0;
};

// Operands of the kernel that computes `segment` by `schedule`, in the order of the roles.
std::vector<RunOperand> OperandsOf(const MatchedSequence& matched, const Segment& segment,
                                   const Schedule& schedule);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_RUN_OPERANDS_H_
