// What a tuning tries first: more than planning by prediction offers, since it is measured.
#ifndef SINTER_SRC_ENGINE_TUNE_RANKING_H_
#define SINTER_SRC_ENGINE_TUNE_RANKING_H_

#include <vector>

#include "absl/status/statusor.h"
#include "src/engine/core.h"
#include "src/engine/keys.h"
#include "src/fusion/fusion.h"
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

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_TUNE_RANKING_H_
