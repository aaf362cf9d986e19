// What tests of grouped products ask of a chain's plans.
#pragma once

#include "src/plan/grouped_family.h"
#include "tests/unit/fusion/fusion_tests.h"
#include "tests/unit/fusion/stitch/plan_interpreter.h"

namespace sinter::testing {

inline constexpr int64_t kM = 16;

// Every plan of the chain's normal form computes it, reads back from its decisions, and has
// sources. Returns the chosen one.
inline Plan ExpectPlans(const Chain& given, bool computed = true) {
  const DeviceModel model = H200();
  const auto form = Got(NormalFormOf(std::make_shared<const Chain>(given)));
  const Chain& chain = *form->chain;
  const FusionResult result = Got(PlanChain(chain, kM, model, {}));
  for (const Plan& plan : AllPlans(result)) {
    SCOPED_TRACE(plan.ToText());
    if (computed) {
      EXPECT_LT(WorstError(chain, plan, 11, 3), 0.02);
    }
    ExpectReadsBack(plan, chain, model);
  }
  return result.chosen;
}

inline std::vector<const GroupedSpec*> GroupedOf(const Plan& plan) {
  std::vector<const GroupedSpec*> found;
  for (const PlannedKernel& kernel : plan.kernels) {
    if (kernel.spec.family == &GroupedFamily()) found.push_back(&GroupedKernels::Of(kernel.spec));
  }
  return found;
}

}  // namespace sinter::testing
