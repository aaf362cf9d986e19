// The kernels and buffers of plans for a sequence of products. No choice is made here.
#ifndef SINTER_SRC_FUSION_PRODUCT_PLANS_H_
#define SINTER_SRC_FUSION_PRODUCT_PLANS_H_

#include <vector>

#include "absl/status/status.h"
#include "src/fusion/segments.h"
#include "src/plan/plan.h"
#include "src/product/matcher.h"
#include "src/product/search/search.h"

namespace sinter {

// OK, or which operand no tensor map can read: rows must begin on 16 bytes.
absl::Status CheckStrides(const MatchedSequence& matched);

// Where the result of product i lies in the workspace, unless it is the output. Three regions take
// turns, so that a kernel's rows, its C and its result never share one. A function of the sequence
// alone: one workspace serves every plan of a chain.
struct WorkspaceRegion {
  uint64_t offset = 0, bytes = 0;
  uint64_t end() const { return offset + bytes; }
};
WorkspaceRegion RegionOf(const ProductSequence& sequence, int product);

// One kernel per segment, in order; `ranked` holds the schedule of each. Named "unfused" when every
// product is alone. `num_inputs`: of the chain; its outputs are numbered after them.
Plan MakePlan(const MatchedSequence& matched, int num_inputs, const Segmentation& segments,
              const std::vector<RankedSchedule>& ranked);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PRODUCT_PLANS_H_
