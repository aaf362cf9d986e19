// PlanAssembly: puts kernels in order, binds operands, lays out the workspace. It makes no choices.
#ifndef SINTER_SRC_FUSION_PLAN_ASSEMBLY_H_
#define SINTER_SRC_FUSION_PLAN_ASSEMBLY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "src/base/device_model.h"
#include "src/chain/chain.h"
#include "src/fusion/product_runs.h"
#include "src/fusion/rankings.h"
#include "src/fusion/stitch/kernel_choice.h"
#include "src/model/search.h"
#include "src/plan/plan.h"
#include "src/product/matcher.h"
#include "src/product/search/search.h"
#include "src/stitch/search/stitch_search.h"

namespace sinter {

// The operands of the kernels of a sequence of products. Which kernels, and the buffers' addresses,
// are decided elsewhere.

// OK, or the operand that no kernel of a plan of `chain` for `bucket` can read: row strides must be
// multiples of 16 bytes, and only launches that are not cut know the M of a stride.
absl::Status CheckStrides(const MatchedSequence& matched, const Chain& chain, int64_t bucket);

// Place of the result of product i in a run's workspace, unless it is the run's result. Results use
// three regions in turn, so that a kernel's rows, its C and its result are in different ones.
// Depends only on the sequence: one workspace serves every plan of a chain.
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

// One step of a plan: a stitch kernel, or the kernels of a run.
struct PlanStep {
  std::shared_ptr<const StitchBody> body;  // null: a run
  RankedStitch stitch;
  // With ops and schedule, if it was made already; else null.
  std::shared_ptr<BodyWith<StitchSpec>> spec;
  const GraphRun* run = nullptr;
  Segmentation segments;               // of the run
  std::vector<RankedSchedule> ranked;  // one for each segment
  OwnChoice own;                       // of a run of a family's own, which has no segments

  // Ops and schedule of a stitched kernel, without operands.
  std::shared_ptr<BodyWith<StitchSpec>> MakeSpec() const {
    return std::make_shared<BodyWith<StitchSpec>>(
        StitchSpec{body->body, stitch.schedule, {}, 0, stitch.parts});
  }
};

// Binds the steps' operands and lays out the workspace: results inside the plan, regions inside
// runs, scratch of stitched kernels. Items that live at the same time do not overlap. Results are
// contiguous; outputs of the chain are stored only as outputs. The caller sets `fused`, `note` and
// the rest of the plan.
Plan AssemblePlan(const Chain& chain, int64_t bucket, const std::vector<PlanStep>& steps);

// WorkspaceLayout: places of tensors between kernels. Tensors that are not needed at the same time
// may share a place.

struct WorkspaceItem {
  uint64_t bytes = 0;
  int first = 0, last = 0;  // first and last kernel of its lifetime
};

struct WorkspaceLayout {
  std::vector<uint64_t> offsets;  // of the items, in order
  uint64_t end = 0;               // end of the last item; 0 without items
};

constexpr uint64_t kPlaceAlignment = 1024;

// Greedy best-fit: the largest item first (then the earliest, then the first in the list), each in
// the smallest gap between items of overlapping lifetimes that holds it, else after them. Offsets
// are multiples of kPlaceAlignment, from kWorkspaceFlagBytes on. Empty items take no place.
WorkspaceLayout LayOutWorkspace(const std::vector<WorkspaceItem>& items);

// Sums over ranks whose operand the kernel before them pushes to the other ranks: two kernels that
// are one call of a group (src/device/ranks).

// OK if each kernel that pushes stands before one that takes its result so, and the other way
// round. The steps are otherwise legal.
absl::Status CheckPushedSums(const Chain& chain, const std::vector<PlanStep>& steps);

// The pushed sums of one chain, bucket and chip, which outlive it.
class PushedSums {
 public:
  PushedSums(const Chain& chain, int64_t bucket, const DeviceModel& model,
             const SearchOptions& options)
      : chain_(chain), bucket_(bucket), model_(model), options_(options) {}

  // Puts kernels that push, and those that take what is pushed, where they are predicted to be
  // faster together than the steps' kernels. Whether there is such a place.
  bool Put(std::vector<PlanStep>* steps);

 private:
  struct Pair {
    RankedSchedule product;
    OwnChoice sum;
    double us = 0;
  };
  std::optional<Pair> Best(const PlanStep& product, const PlanStep& sum, bool behind) const;

  const Chain& chain_;
  const int64_t bucket_;
  const DeviceModel& model_;
  const SearchOptions options_;
  // By the run of the sum, and whether another kernel stands before the product.
  std::map<std::pair<const GraphRun*, bool>, std::optional<Pair>> known_;
};

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PLAN_ASSEMBLY_H_
