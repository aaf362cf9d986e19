#include "src/fusion/ffn_plans.h"

#include "src/fusion/product_plans.h"

namespace sinter {

FfnProblem ProblemOf(const FfnView& view, int64_t bucket) {
  return ProblemOf(ProductsOf(view), Segment{0, view.products}, bucket);
}

Plan FusedPlan(const FfnView& view, int num_inputs, const FfnProblem& problem,
               const RankedSchedule& ranked) {
  return MakePlan(ProductsOf(view), num_inputs, problem.bucket, {{0, 2}}, {ranked});
}

Plan UnfusedPlan(const FfnView& view, int num_inputs, const FfnProblem& problem,
                 const RankedSchedule& first, const RankedSchedule* second) {
  const ProductsView products = ProductsOf(view);
  if (second == nullptr) return MakePlan(products, num_inputs, problem.bucket, {{0, 1}}, {first});
  return MakePlan(products, num_inputs, problem.bucket, {{0, 1}, {1, 1}}, {first, *second});
}

}  // namespace sinter
