
#include "src/base/codec.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

// The record that a cold prepare writes.
std::string StoredRecord(testing::FakeWorld& world) {
  const auto engine = world.MakeEngine();
  EXPECT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  return world.disk->records.begin()->second;
}

TEST(PlanRecordTest, RoundTripsByteForByte) {
  testing::FakeWorld world;
  const std::string bytes = StoredRecord(world);
  const PlanRecord record = DecodePlanRecord(bytes).value();
  ASSERT_EQ(record.variants.size(), 3u);
  EXPECT_TRUE(record.variants[0].decisions.fused);
  EXPECT_FALSE(record.variants[2].decisions.fused);
  EXPECT_EQ(record.variants[2].sources.size(), 2u);
  EXPECT_EQ(record.toolchain_id, world.toolchain);
  EXPECT_EQ(record.considered, 1000u);
  EXPECT_EQ(EncodePlanRecord(record), bytes);
}

TEST(PlanRecordTest, TruncatedAtAnyByteIsDataLoss) {
  testing::FakeWorld world;
  const std::string bytes = StoredRecord(world);
  for (size_t size = 0; size < bytes.size(); size += 7) {
    EXPECT_FALSE(DecodePlanRecord(absl::string_view(bytes).substr(0, size)).ok()) << size;
  }
  EXPECT_FALSE(DecodePlanRecord(bytes + "x").ok());
}

TEST(PlanRecordTest, FlippedBytesNeverCrash) {
  testing::FakeWorld world;
  const std::string bytes = StoredRecord(world);
  int refused = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x41);
    refused += !DecodePlanRecord(damaged).ok();
  }
  EXPECT_GT(refused, 0);
}

TEST(PlanRecordTest, KeepsTheBestTwoOfEachKindAndTheChosenFirst) {
  FusionResult result;
  const auto plan = [](bool fused, int64_t tag) { return Plan{.fused = fused, .bucket = tag}; };
  result.chosen = plan(false, 0);
  result.alternatives = {plan(true, 1), plan(false, 2), plan(true, 3), plan(false, 4),
                         plan(true, 5)};
  const PlanRecord record = MakePlanRecord(result);
  std::vector<int64_t> tags;
  for (const PlanVariant& variant : record.variants) tags.push_back(variant.decisions.bucket);
  EXPECT_EQ(tags, (std::vector<int64_t>{0, 1, 2, 3}));
}

}  // namespace
}  // namespace sinter
