// Which plans a tuning tries first: more than planning offers, since measuring is surer than
// predicting.
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

// What planning offers, with rankings of `top_k`, then what planning by prediction leaves out: task
// lists, spatial gates, more kinds of stitched kernels. Counted as a search.
absl::StatusOr<FusionResult> PlanForTuning(const PlanRequest& request, int top_k,
                                           const BuildControl& control, EngineCore& core);

// Picks from a ranking whose first plan is the predicted choice, in its order: the best `top_k`,
// the best few of each cut and dataflow that may be worth it, since models err per dataflow, and
// the unfused plan whatever its rank.
std::vector<Plan> PlansToTry(const std::vector<Plan>& ranking, int top_k);

// KernelSwaps: plans that differ from one another in the schedule of one kernel.

// Whether both plans compute the same ops kernel by kernel, so that a kernel of one can replace the
// other's.
bool SameCut(const Plan& a, const Plan& b);

// SameCut, and the same dataflow kernel by kernel.
bool SameDataflows(const Plan& a, const Plan& b);

// Decisions of `plan` with another schedule for kernel `kernel`: that of each plan of `ranking`
// with the same cut. Takes the first `limit` such plans in order, and each schedule that differs
// from `plan`'s once. Precondition: kernel < plan.kernels.size().
std::vector<Decisions> KernelSwaps(const Plan& plan, size_t kernel,
                                   const std::vector<Plan>& ranking, size_t limit);

// In [-1, 1]; ties share their mean rank. 0 with fewer than two values or when all values of a side
// are equal. `a` and `b` have one size.
double RankCorrelation(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_TUNE_RANKING_H_
