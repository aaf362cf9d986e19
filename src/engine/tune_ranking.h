// What a tuning tries first: more than planning by prediction offers, since it is measured.
#ifndef SINTER_SRC_ENGINE_TUNE_RANKING_H_
#define SINTER_SRC_ENGINE_TUNE_RANKING_H_

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "src/engine/core.h"
#include "src/engine/keys.h"
#include "src/fusion/fusion.h"
#include "src/plan/decisions.h"
#include "src/plan/plan.h"

namespace sinter {

// What planning offers, rankings `top_k` deep, and behind it what planning by prediction leaves
// out: task lists, spatial gates, more kinds of stitched kernels. Counts a search.
absl::StatusOr<FusionResult> PlanForTuning(const PlanRequest& request, int top_k,
                                           const BuildControl& control, EngineCore& core);

// Of a ranking whose first plan is the predicted choice, in its order: the best `top_k`; of each
// cut and dataflow the best few that may be worth it, as models err by the dataflow; and the
// unfused plan wherever it ranks.
std::vector<Plan> PlansToTry(const std::vector<Plan>& ranking, int top_k);

// KernelSwaps: plans that differ from one another in the schedule of one kernel.

// Whether kernel by kernel both compute the same ops, so that any kernel of one may stand in the
// other.
bool SameCut(const Plan& a, const Plan& b);

// SameCut, and kernel by kernel the same dataflow.
bool SameDataflows(const Plan& a, const Plan& b);

// The decisions of `plan` with kernel `kernel` of each plan of `ranking` that has the same cut, in
// its order: of the first `limit` such plans, those whose schedule there is another than `plan`'s,
// each once. Precondition: kernel < plan.kernels.size().
std::vector<Decisions> KernelSwaps(const Plan& plan, size_t kernel,
                                   const std::vector<Plan>& ranking, size_t limit);

// In [-1, 1]; ties share their mean rank. 0 with fewer than two values or when all values of a side
// are equal. `a` and `b` have one size.
double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_TUNE_RANKING_H_
