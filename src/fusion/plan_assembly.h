// PlanAssembly: kernels in order, their operands, their workspace. No choice is made here.
#ifndef SINTER_SRC_FUSION_PLAN_ASSEMBLY_H_
#define SINTER_SRC_FUSION_PLAN_ASSEMBLY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "src/fusion/product_runs.h"
#include "src/fusion/segments.h"
#include "src/fusion/stitch/kernel_choice.h"
#include "src/plan/plan.h"
#include "src/product/search/search.h"
#include "src/stitch/search/stitch_search.h"

namespace sinter {

// One step of a plan: a stitch kernel, or the kernels of a run of products.
struct PlanStep {
  std::shared_ptr<const StitchBody> body;  // null: a run
  RankedStitch stitch;
  const GraphRun* run = nullptr;
  Segmentation segments;               // of the run
  std::vector<RankedSchedule> ranked;  // one a segment
};

// Binds the steps' operands and lays out the workspace: results that stay inside the plan, regions
// inside runs, scratch of stitch kernels; each where nothing lies that lives at the same time.
// Results are contiguous, those that are outputs of the chain lie in the output alone. `fused`,
// `note` and the rest of the plan are the caller's.
Plan AssemblePlan(const Chain& chain, int64_t bucket, const std::vector<PlanStep>& steps);

// Of a chain that is `matched`, at its m: one kernel a segment, with the schedule of each.
Plan MakePlan(const Chain& chain, const MatchedSequence& matched, const Segmentation& segments,
              const std::vector<RankedSchedule>& ranked);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PLAN_ASSEMBLY_H_
