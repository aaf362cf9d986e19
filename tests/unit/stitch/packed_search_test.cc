// Packed kernels: legal, costed no better than their parts allow, alike parts alike.
#include "src/stitch/body_work.h"
#include "tests/unit/stitch/stitch_tests.h"

namespace sinter {
namespace {

// What the parts take in kernels of their own.
double ApartUs(const Chain& body, const std::vector<StitchPart>& parts) {
  double us = 0;
  for (const StitchPart& part : parts) {
    const PartBody own = Got(ExtractPart(body, part.outputs));
    us += Got(SearchStitch(own.body, 1, H200(), {})).front().prediction.total_us;
  }
  return us;
}

TEST(PackedSearch, RowsOfOtherLengthsShareALaunch) {
  const Chain body = testing::IndependentRows({{700, 1000}, {33, 4096}}, 50000);
  PackedSearch search(1, H200());
  const std::vector<RankedStitch> packings = search.Of(body);
  ASSERT_FALSE(packings.empty());
  double before = 0;
  for (const RankedStitch& one : packings) {
    EXPECT_EQ(one.parts.size(), 3u);
    EXPECT_TRUE(CheckParts(body, one.schedule, one.parts).ok())
        << CheckParts(body, one.schedule, one.parts);
    EXPECT_GE(one.prediction.total_us, before) << "best first";
    before = one.prediction.total_us;
  }
  const RankedStitch& best = packings.front();
  EXPECT_LT(best.prediction.total_us, ApartUs(body, best.parts)) << "launched once";
  for (const StitchPart& part : best.parts) {
    const absl::StatusOr<PartBody> own = ExtractPart(body, part.outputs);
    EXPECT_GT(best.prediction.total_us,
              TimesOfStitch(own->body, part.schedule, 1, H200())->alone.total_us)
        << "no faster than one of its parts";
  }
}

// A launch's check makes the program of each part once.
TEST(PackedSearch, LaunchesAreCheckedWithTheWorkOfTheirParts) {
  const Chain body = testing::IndependentRows({{700, 1000}, {33, 4096}}, 50000);
  const RankedStitch best = PackedSearch(1, H200()).Of(body).front();
  auto spec = std::make_shared<StitchSpec>();
  spec->body = body;
  spec->schedule = best.schedule;
  spec->parts = best.parts;
  const StitchCode code = *CodeOf(std::shared_ptr<const StitchSpec>(spec));
  StitchBudget parts, launch;
  ASSERT_TRUE(CheckParts(body, best.schedule, best.parts, &parts).ok());
  ASSERT_TRUE(CheckStitchLaunch(*spec, code, H200(), &launch).ok());
  EXPECT_LT(launch.visits, StitchBudget().visits);
  EXPECT_EQ(launch.visits, parts.visits);
  StitchBudget little{.visits = StitchBudget().visits - parts.visits - 1};
  EXPECT_TRUE(absl::IsResourceExhausted(CheckStitchLaunch(*spec, code, H200(), &little).status()));
}

// Alone they would be a cluster's, which no part is; the next best of its owner is.
TEST(PackedSearch, RowsThatClustersTakeBestArePackedAsBlocks) {
  const Chain body = testing::IndependentRows({{8, 32768}, {4, 65536}}, 0);
  PackedSearch search(1, H200());
  const std::vector<RankedStitch> packings = search.Of(body);
  ASSERT_FALSE(packings.empty());
  for (const StitchPart& part : packings.front().parts) {
    const PartBody own = Got(ExtractPart(body, part.outputs));
    const auto alone = Got(SearchStitch(own.body, 1, H200(), {}));
    EXPECT_GT(alone.front().schedule.cluster, 1);
    EXPECT_EQ(alone.front().schedule.owner, part.schedule.owner);
    EXPECT_EQ(part.schedule.cluster, 1);
  }
}

TEST(PackedSearch, PartsThatDifferInExtentsTakeOneSchedule) {
  const Chain body = testing::IndependentUpdates({100000, 77, 4096, 33333, 500});
  PackedSearch search(1, H200());
  const std::vector<RankedStitch> packings = search.Of(body);
  ASSERT_FALSE(packings.empty());
  std::set<std::string> work;
  for (const StitchPart& part : packings.front().parts) work.insert(part.schedule.WorkText());
  EXPECT_EQ(packings.front().parts.size(), 5u);
  EXPECT_EQ(work.size(), 1u);
}

TEST(PackedSearch, LaunchesGrowWithTheirParts) {
  PackedSearch search(1, H200());
  const auto us = [&](const std::vector<int64_t>& sizes) {
    const auto packings = search.Of(testing::IndependentUpdates(sizes));
    return packings.empty() ? 0 : packings.front().prediction.total_us;
  };
  const double two = us({1 << 20, 1 << 20}), four = us({1 << 20, 1 << 20, 1 << 20, 1 << 20});
  EXPECT_GT(two, 0);
  EXPECT_GT(four, 1.5 * two);
  EXPECT_GT(us({1 << 22, 1 << 22, 1000}), us({1 << 22, 1 << 22}));
}

TEST(PackedSearch, WhatIsConnectedOrMeetsTheGridIsNotPacked) {
  PackedSearch search(1, H200());
  EXPECT_TRUE(search.Of(testing::FromText("softmax rows=64 cols=64")).empty());
  const Chain columns = ReadChain(
      "x: f32[16384,64]; y: f32[16384,32];"
      "out x - spread(sum(x, 0, keep), x), y - spread(sum(y, 0, keep), y)");
  EXPECT_TRUE(search.Of(columns).empty()) << "16384 rows a column need the grid";
}

TEST(PackedSearch, RandomGraphsPackLegally) {
  int packed = 0;
  for (uint64_t seed = 1; seed <= testing::kRandomStitchGraphs; ++seed) {
    const Chain body = testing::MakeRandomStitchGraph(seed, {1 << 16});
    PackedSearch search(1, H200());
    for (const RankedStitch& one : search.Of(body)) {
      ++packed;
      const absl::Status status = CheckParts(body, one.schedule, one.parts);
      EXPECT_TRUE(status.ok()) << seed << ": " << status;
    }
  }
  EXPECT_GT(packed, 20);
}

}  // namespace
}  // namespace sinter
