// The kernels and buffers of plans for a sequence of products. No choice is made here.
#ifndef SINTER_SRC_FUSION_PRODUCT_PLANS_H_
#define SINTER_SRC_FUSION_PRODUCT_PLANS_H_

#include <vector>

#include "absl/status/status.h"
#include "src/chain/products_view.h"
#include "src/fusion/segments.h"
#include "src/plan/plan.h"
#include "src/search/search.h"

namespace sinter {

// Whether a chain kernel takes products `first` and `first` + 1 as its two: the first has no
// residual, the second is neither gated nor activated.
bool CanPair(const ProductsView& view, int first);

// What the kernel of a segment computes. Precondition: a pair CanPair.
FfnProblem ProblemOf(const ProductsView& view, const Segment& segment, int64_t bucket);

// OK, or which operand no tensor map can read: rows must begin on 16 bytes.
absl::Status CheckStrides(const ProductsView& view);

// Where the result of product i lies in the workspace, unless it is the output. Three regions take
// turns, so that a kernel's rows, its C and its result never share one. A function of the view and
// the bucket alone: one workspace serves every plan of a chain.
struct WorkspaceRegion {
  uint64_t offset = 0, bytes = 0;
  uint64_t end() const { return offset + bytes; }
};
WorkspaceRegion RegionOf(const ProductsView& view, int64_t bucket, int product);

// One kernel per segment, in order; `ranked` holds the schedule of each. Named "unfused" when every
// product is alone. `num_inputs`: of the chain; its outputs are numbered after them.
Plan MakePlan(const ProductsView& view, int num_inputs, int64_t bucket,
              const Segmentation& segments, const std::vector<RankedSchedule>& ranked);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PRODUCT_PLANS_H_
