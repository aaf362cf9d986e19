// What tests of grouped products ask of a chain's plans.
#pragma once

#include "src/chain/problem.h"
#include "src/plan/grouped_family.h"
#include "src/plan/kernel_code.h"
#include "tests/support/recipes/recipe_check.h"
#include "tests/support/test.h"
#include "tests/unit/fusion/assembly/reassembled.h"
#include "tests/unit/fusion/stitch/graphs.h"
#include "tests/unit/fusion/stitch/plan_interpreter.h"

namespace sinter::testing {

inline constexpr int64_t kM = 16;

inline Chain TextChain(const std::string& line) {
  Problem problem = Got(ParseProblem(line));
  return problem.chain;
}

inline std::vector<Plan> All(const FusionResult& r) {
  std::vector<Plan> plans = {r.chosen};
  plans.insert(plans.end(), r.alternatives.begin(), r.alternatives.end());
  return plans;
}

// Every plan of the chain's normal form computes it, reads back from its decisions, and has
// sources. Returns the chosen one.
inline Plan ExpectPlans(const Chain& given, bool computed = true) {
  const DeviceModel model = H200();
  const auto form = Got(NormalFormOf(std::make_shared<const Chain>(given)));
  const Chain& chain = *form->chain;
  const FusionResult result = Got(PlanChain(chain, kM, model, {}));
  for (const Plan& plan : All(result)) {
    SCOPED_TRACE(plan.ToText());
    EXPECT_EQ(FindMisbinding(chain, plan), "");
    if (computed) {
      EXPECT_LT(WorstError(chain, plan, 11, 3), 0.02);
    }
    const absl::StatusOr<Plan> read = Reassembled(plan, chain, model);
    EXPECT_TRUE(read.ok()) << read.status();
    if (read.ok()) {
      EXPECT_EQ(read->PlanDigest(), plan.PlanDigest());
    }
    for (const PlannedKernel& kernel : plan.kernels) {
      const absl::StatusOr<GeneratedKernel> made = Generate(kernel.spec, model);
      EXPECT_TRUE(made.ok()) << made.status();
      if (made.ok()) {
        EXPECT_TRUE(made->recipe.Check().ok()) << made->recipe.Check();
      }
    }
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
