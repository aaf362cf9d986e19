// What the kernels of a sequence of products read and write. Which kernels, and where buffers lie,
// is said elsewhere.
#ifndef SINTER_SRC_FUSION_RUN_OPERANDS_H_
#define SINTER_SRC_FUSION_RUN_OPERANDS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "src/fusion/segments.h"
#include "src/plan/plan.h"
#include "src/product/matcher.h"

namespace sinter {

// OK, or which operand no tensor map can read: rows must begin on 16 bytes.
absl::Status CheckStrides(const MatchedSequence& matched);

// Where the result of product i lies in the workspace of a run, unless it is the run's. Three
// regions take turns, so that a kernel's rows, its C and its result never share one. A function of
// the sequence alone: one workspace serves every plan of a chain.
struct WorkspaceRegion {
  uint64_t offset = 0, bytes = 0;
  uint64_t end() const { return offset + bytes; }
};
WorkspaceRegion RegionOf(const ProductSequence& sequence, int product);

// An operand of a kernel: one of the sequence's (`number` as in MatchedSequence::operands), the
// run's result, or a place in the run's workspace.
struct RunOperand {
  enum class Kind { kOperand, kResult, kWorkspace };

  Role role = Role::kA;
  Kind kind = Kind::kOperand;
  int number = -1;
  WorkspaceRegion region;
  int64_t row_stride = 0;
};

// Of the kernel that takes `segment` by `schedule`, in the order of its roles.
std::vector<RunOperand> OperandsOf(const MatchedSequence& matched, const Segment& segment,
                                   const Schedule& schedule);

KernelFamily FamilyOf(const Segment& segment);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_RUN_OPERANDS_H_
