#include "src/engine/tune.h"
#include "tests/support/product_in.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

Plan PlanOf(bool fused, int kernels, Dataflow dataflow, double us) {
  Plan plan{.fused = fused};
  plan.kernels.resize(static_cast<size_t>(kernels));
  for (PlannedKernel& kernel : plan.kernels) {
    ProductIn(&kernel.spec).schedule.dataflow = dataflow;
    kernel.prediction.total_us = us / kernels;
  }
  return plan;
}

std::vector<double> Times(const std::vector<Plan>& plans) {
  std::vector<double> times;
  for (const Plan& plan : plans) times.push_back(plan.PredictedUs());
  return times;
}

TEST(TuneRankingTest, TriesTheBestAndAFewOfEveryDataflowThatIsNear) {
  std::vector<Plan> ranking;
  for (double us = 100; us < 120; ++us)
    ranking.push_back(PlanOf(true, 1, Dataflow::kGridExchange, us));
  for (double us : {121, 122, 123})
    ranking.push_back(PlanOf(true, 1, Dataflow::kClusterExchange, us));
  for (double us : {124, 126, 131}) ranking.push_back(PlanOf(false, 2, Dataflow::kProduct, us));
  EXPECT_EQ(Times(PlansToTry(ranking, 4)), (std::vector<double>{100, 101, 102, 103, 121, 124}));
  EXPECT_EQ(Times(PlansToTry(ranking, 11)).size(), 11u + 2 + 2);
}

TEST(TuneRankingTest, TheUnfusedPlanIsTriedHoweverSlow) {
  const std::vector<Plan> ranking = {PlanOf(true, 1, Dataflow::kGridExchange, 100),
                                     PlanOf(true, 1, Dataflow::kClusterExchange, 150),
                                     PlanOf(false, 2, Dataflow::kProduct, 200),
                                     PlanOf(false, 2, Dataflow::kProduct, 201)};
  EXPECT_EQ(Times(PlansToTry(ranking, 1)), (std::vector<double>{100, 200}));
  EXPECT_EQ(Times(PlansToTry(ranking, 8)).size(), 4u);
}

}  // namespace
}  // namespace sinter
