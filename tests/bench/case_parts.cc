#include "tests/bench/case_parts.h"

#include "src/fusion/fusion.h"
#include "tests/support/plan_of_products.h"

namespace sinter::bench {

absl::StatusOr<std::vector<Case>> PartsOf(const Case& c, const DeviceModel& model) {
  if (c.matched.size() > 0) return std::vector<Case>{c};
  absl::StatusOr<FusionResult> planned = PlanChain(c.chain, BucketOf(c.chain, c.m), model, {});
  if (!planned.ok()) return Annotate(planned.status(), c.id);
  const auto plan = std::make_shared<const Plan>(std::move(planned->chosen));
  std::vector<Case> parts;
  for (size_t i = 0; i < plan->kernels.size(); ++i) {
    const KernelSpec& spec = plan->kernels[i].spec;
    if (spec.family != &ProductFamily()) continue;
    Case part = c;
    part.id = absl::StrCat(c.id, "/", i);
    part.matched.sequence = ProductOf(spec).sequence;
    part.plan = plan;
    part.kernel = static_cast<int>(i);
    parts.push_back(std::move(part));
  }
  return parts;
}

Plan PlanOf(const Case& c, const RankedSchedule& ranked) {
  if (c.plan == nullptr) return MakePlan(c.chain, c.matched, {{0, c.matched.size()}}, {ranked});
  Plan plan = *c.plan;
  PlannedKernel& kernel = plan.kernels[static_cast<size_t>(c.kernel)];
  ProductBody body = ProductOf(kernel.spec);
  body.schedule = ranked.schedule;
  kernel.spec.body = MakeBody(std::move(body));
  kernel.prediction = ranked.prediction;
  return plan;
}

}  // namespace sinter::bench
