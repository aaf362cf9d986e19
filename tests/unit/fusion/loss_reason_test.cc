// Why a candidate lost, in the cost model's terms.
#include "src/fusion/plan_choice.h"
#include "tests/support/test.h"
#include "tests/unit/plan/timed_plan.h"

namespace sinter {
namespace {

TEST(WhyNotChosen, NamesTheLevelThatGrewAndWhatMadeItGrow) {
  Schedule narrow = Grid();
  narrow.first.block_n = 16;  // A is read by twice as many tiles
  const std::string why =
      WhyNotChosen(PlanOf(narrow, Times(12, 2.5)), PlanOf(Grid(), Times(11, 1)), H200());
  EXPECT_THAT(why, StartsWith("predicted 1.00 us slower: intake +1.50 us ("));
  EXPECT_THAT(why, HasSubstr("rows read 192 times, chosen 96"));
}

TEST(WhyNotChosen, NamesAtMostTwoLevelsMostFirst) {
  Prediction slow = Times(14, 8, 2.5, 5.5);
  slow.hbm_us = 6;
  const std::string why = WhyNotChosen(PlanOf(Grid(), slow), PlanOf(Grid(), Times(11, 7)), H200());
  EXPECT_THAT(why, StartsWith("predicted 3.00 us slower: hbm +2.00 us (19 MB, chosen 19 MB)"));
  EXPECT_THAT(why, HasSubstr(", dsm +1.50 us"));
  EXPECT_THAT(why, Not(HasSubstr("fixed")));
}

TEST(WhyNotChosen, LeavesOutWhatIsSmallBesideTheLargest) {
  const std::string why =
      WhyNotChosen(PlanOf(Grid(), Times(13, 9, 1.1)), PlanOf(Grid(), Times(11, 7)), H200());
  EXPECT_THAT(why, Not(HasSubstr("dsm")));
}

TEST(WhyNotChosen, SaysHowKIsSplit) {
  Schedule split = Grid();
  split.first.split_k = 4;
  Prediction times = Times(12, 7, 2);
  times.dsm_bytes = 3e6;
  EXPECT_THAT(WhyNotChosen(PlanOf(split, times), PlanOf(Grid(), Times(11, 7)), H200()),
              HasSubstr("dsm +1.00 us (3 MB, chosen 1 MB: K over 4 and 4 blocks, chosen 1 and 4)"));
}

TEST(WhyNotChosen, CountsLaunches) {
  Plan two = PlanOf(Grid(), Times(7, 3.5, 0.5, 3));
  two.kernels.push_back(two.kernels[0]);
  EXPECT_THAT(WhyNotChosen(two, PlanOf(Grid(), Times(11, 7)), H200()),
              HasSubstr("fixed +2.00 us (2 launches, chosen 1)"));
}

TEST(WhyNotChosen, ATieAndABalanceAreSaidAsSuch) {
  const Plan chosen = PlanOf(Grid(), Times(11, 7));
  EXPECT_EQ(WhyNotChosen(chosen, chosen, H200()), "predicted equal, later in order");
  EXPECT_EQ(WhyNotChosen(PlanOf(Grid(), Times(11.5, 7)), chosen, H200()),
            "predicted 0.50 us slower: less is loaded while c is handed over");
}

TEST(WhyNotChosen, NamesLevelsKernelsAndBytesOfStitchedPlans) {
  const auto graph = [](size_t kernels, double hbm, double bytes, double fixed, double total) {
    Plan plan;
    for (size_t i = 0; i < kernels; ++i) {
      PlannedKernel kernel;
      kernel.spec.family = &StitchFamily();
      kernel.spec.body = MakeBody(StitchSpec());
      kernel.prediction.hbm_us = hbm;
      kernel.prediction.hbm_bytes = bytes;
      kernel.prediction.fixed_us = fixed;
      kernel.prediction.total_us = total;
      plan.kernels.push_back(kernel);
    }
    return plan;
  };
  const Plan chosen = graph(1, 1, 2e6, 0.6, 2);
  EXPECT_EQ(
      WhyNotChosen(graph(4, 1, 2e6, 0.6, 2), chosen, H200()),
      "predicted 6.00 us slower: hbm +3.00 us (8 MB, chosen 2 MB), fixed +1.80 us (4 kernels, "
      "chosen 1)");
  EXPECT_EQ(WhyNotChosen(graph(1, 1.5, 2e6, 0.6, 2.5), chosen, H200()),
            "predicted 0.50 us slower: hbm +0.50 us (2 MB by fewer SMs)");
  EXPECT_EQ(WhyNotChosen(graph(1, 1, 2e6, 0.6, 2.25), chosen, H200()),
            "predicted 0.25 us slower: instructions and waits +0.25 us");
  EXPECT_EQ(WhyNotChosen(chosen, chosen, H200()), "predicted equal, later in order");
  EXPECT_EQ(WhyNotChosen(graph(1, 1, 2e6, 0.6, 2.001), chosen, H200()),
            "predicted less than 0.01 us slower");
}

TEST(WhyNotChosen, NeverCrashesOnWhatCannotBeSized) {
  EXPECT_THAT(
      WhyNotChosen(
          PlanOf({.block_m = 0, .block_k = 0, .stages = 0, .cluster = 0, .grid = 0}, Times(12, 9)),
          PlanOf(Grid(), Times(11, 7)), H200()),
      StartsWith("predicted 1.00 us slower"));
  EXPECT_EQ(WhyNotChosen(Plan(), Plan(), H200()), "predicted equal, later in order");
}

TEST(WhyNotChosen, ExplainsEveryRunnerUpOfASearch) {
  for (const ProductSequence& p : {SampleS8(), SampleG7(), FirstOf(SampleS8())}) {
    const auto found = Got(SearchSchedules(p, H200(), {}));
    std::vector<Plan> plans;
    for (const RankedSchedule& r : found.ranked) {
      plans.push_back(PlanOf(r.schedule, r.prediction));
      ProductIn(&plans.back().kernels[0].spec).sequence = p;
    }
    for (size_t i = 1; i < plans.size(); i++) {
      const std::string why = WhyNotChosen(plans[i], plans[0], H200());
      EXPECT_THAT(why, StartsWith("predicted "));
      EXPECT_THAT(why, Not(HasSubstr("()"))) << why;
      EXPECT_LT(why.size(), 300u) << why;
    }
  }
}

}  // namespace
}  // namespace sinter
