#include "tests/bench/ablation.h"

#include "tests/support/test.h"

namespace sinter::bench {
namespace {

PlacedSchedule Placed(int rank, double dsm_bytes) {
  PlacedSchedule s{.rank = rank};
  s.ranked.prediction.dsm_bytes = dsm_bytes;
  return s;
}

TEST(AblationTest, StepsAreToldApartByBytesThroughDsm) {
  std::vector<PlacedSchedule> legal;
  for (int i = 1; i <= 40; ++i) legal.push_back(Placed(i, i % 4 == 0 ? 0 : 100));
  const auto without = WithoutDsm(legal);
  ASSERT_EQ(without.size(), 1u);
  EXPECT_EQ(without[0].rank, 4);
  const auto with = RandomWithDsm(legal, 5, 1);
  ASSERT_EQ(with.size(), 5u);
  for (const PlacedSchedule& s : with) EXPECT_NE(s.rank % 4, 0);
  EXPECT_TRUE(WithoutDsm({Placed(1, 8)}).empty());
  EXPECT_TRUE(RandomWithDsm({Placed(1, 0)}, 5, 1).empty());
}

TEST(AblationTest, TheBestOfEachDataflowThatOnlyTuningIsOffered) {
  std::vector<PlacedSchedule> legal;
  for (Dataflow dataflow : {Dataflow::kGridExchange, Dataflow::kClusterSlab, Dataflow::kSpatialGate,
                            Dataflow::kClusterSlab, Dataflow::kClusterRanges}) {
    legal.push_back(Placed(static_cast<int>(legal.size()) + 1, 0));
    legal.back().ranked.schedule.dataflow = dataflow;
  }
  std::vector<int> ranks;
  for (const PlacedSchedule& s : OfTuningAlone(legal)) ranks.push_back(s.rank);
  EXPECT_THAT(ranks, ElementsAre(2, 3, 5));
}

TEST(AblationTest, PrintsMeansBesideThePaper) {
  Row row;
  row.id = "G1";
  row.layout = "oi";
  row.unfused_cold_us = 12;
  row.chosen_cold_us = 4;
  row.cublaslt_cold_us = 6;
  SweepRow step{.id = "G1", .layout = "oi", .kind = kWithoutDsm, .measured_us = 8};
  std::vector<SweepRow> sweep = {step};
  step.kind = kRandomDsm;
  for (double us : {4.0, 9.0}) step.measured_us = us, sweep.push_back(step);
  const std::string text = AblationText({row}, sweep);
  EXPECT_THAT(text,
              HasSubstr("  G      1.50 ( 0.75) of 1   2.00 ( 1.00) of 1   3.00 ( 1.50) of 1"));
  EXPECT_THAT(text, HasSubstr("1.52, 2.11, 3.29"));
}

}  // namespace
}  // namespace sinter::bench
