#include "src/base/codec.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

// The record that a cold prepare writes.
std::string StoredRecord(testing::FakeWorld& world) {
  EXPECT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
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

// A rolling upgrade: engines of two versions of the record formats on one store.

TEST(OtherFormatTest, EachVersionBuildsOnceAndIsWarmFromThenOn) {
  for (const RecordFormat& fresh : {RecordFormat{kEnvelopeVersion + 1, kKernelRecordVersion},
                                    RecordFormat{kEnvelopeVersion, kKernelRecordVersion + 1}}) {
    FakeWorld old_version, new_version;
    new_version.disk = old_version.disk;
    new_version.format = fresh;
    Digest digest;
    for (int round = 0; round < 3; ++round) {
      for (FakeWorld* world : {&old_version, &new_version}) {
        const auto engine = world->MakeEngine();
        const auto plan = Got(engine->Prepare(world->chain, 16, {}));
        EXPECT_EQ(world->compiles, 1);
        EXPECT_EQ(engine->Stats().searched, round == 0 ? 1u : 0u);
        if (round == 0 && world == &old_version) digest = plan->plan().PlanDigest();
        EXPECT_EQ(plan->plan().PlanDigest(), digest);
      }
    }
    EXPECT_EQ(old_version.disk->Count(RecordKind::kKernel), 2);
    EXPECT_EQ(old_version.disk->Count(RecordKind::kPlan), 2);
  }
}

// A store that a library filled whose keys and kernel records had another layout.
TEST(OtherFormatTest, AnOldCacheIsAMissAndNoError) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  const auto records = world.disk->records;
  world.disk->records.clear();
  constexpr size_t kKeyVersionAt = 8, kRecordVersionAt = 8;  // after their magic numbers
  for (const auto& [name, payload] : records) {
    std::string key = name.second, old = payload;
    key[kKeyVersionAt] = static_cast<char>(kKeyVersion - 1);
    old[name.first == RecordKind::kKernel ? kRecordVersionAt : 0] = 3;
    world.disk->records[{name.first, key}] = old;
  }
  const auto engine = world.MakeEngine();
  for (const auto& [name, payload] : world.disk->records) {
    EXPECT_FALSE(engine->CheckStored(name.first, name.second, payload).ok());
  }
  const size_t old_records = world.disk->records.size();
  ASSERT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(engine->Stats().searched, 1u);
  EXPECT_EQ(engine->Stats().kernels_compiled, 1u);
  EXPECT_GT(engine->Stats().store.misses[static_cast<int>(MissReason::kAbsent)], 0u);
  EXPECT_EQ(world.disk->records.size(), 2 * old_records)
      << "old records stay: older versions read them";
}

// A payload of the layout before, under the key of today.
TEST(OtherFormatTest, AnOldPayloadIsACountedMiss) {
  FakeWorld world;
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {}).ok());
  for (auto& [name, payload] : world.disk->records) {
    payload[name.first == RecordKind::kKernel ? 8 : 0] = 3;
  }
  const auto engine = world.MakeEngine();
  ASSERT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(engine->Stats().store.misses[static_cast<int>(MissReason::kDamaged)], 2u);
  EXPECT_EQ(engine->Stats().kernels_compiled, 1u);
}

// What the cache and the fused kernels saved, as the statistics say it.

using testing::kK;
using testing::kL;
using testing::kN;

TEST(SavedTest, AKernelFromTheCacheSavesWhatCompilingItTook) {
  FakeWorld world{.compile_ms = 7};
  const auto cold = world.MakeEngine();
  ASSERT_TRUE(cold->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(cold->Stats().compile_saved_us, 0);
  const auto warm = world.MakeEngine();
  ASSERT_TRUE(warm->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(warm->Stats().compile_saved_us, 7000);
  EXPECT_EQ(warm->Stats().kernel_hits, 1u);
  // Its mark does not lose the figure.
  ASSERT_TRUE(world.MakeEngine()->Prepare(world.chain, 16, {.verify = true}).ok());
  const auto third = world.MakeEngine();
  ASSERT_TRUE(third->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(third->Stats().compile_saved_us, 7000);
}

class GpuTime {
 public:
  explicit GpuTime(FakeWorld* world) : world_(world) { world->compute = false; }

  // Saved by one launch of `m` rows, in microseconds.
  double Of(int64_t m, PrepareOptions::Choice choice = PrepareOptions::Choice::kBest) {
    const auto engine = world_->MakeEngine();
    const auto plan = engine->Prepare(world_->chain, m, {.choice = choice}).value();
    FakeBuffers buffers({m * kK * 2, kN * kK * 2, kN * kL * 2, m * kL * 2, 64 << 20});
    std::vector<DevicePtr> pointers = buffers.pointers();
    const DevicePtr workspace = pointers.back();
    pointers.pop_back();
    const auto binding = plan->Bind(pointers, workspace).value();
    EXPECT_TRUE(plan->Launch(*binding, nullptr, m, false).ok());
    EXPECT_TRUE(plan->Launch(*binding, nullptr, 0, false).ok());
    return engine->Stats().gpu_time_saved_us;
  }

 private:
  FakeWorld* const world_;
};

TEST(SavedTest, LaunchesSaveTheDifferenceOfPredictedTimes) {
  FakeWorld world;
  GpuTime time(&world);
  EXPECT_NEAR(time.Of(16), 10, 0.01);
  EXPECT_NEAR(time.Of(16, PrepareOptions::Choice::kUnfused), 0, 0.01);
  EXPECT_NEAR(time.Of(2 * kLargestBucket + 1), 30, 0.01);
  world.unfused_is_best = true;
  world.disk = std::make_shared<testing::FakeDisk>();
  EXPECT_EQ(time.Of(16), 0);  // never negative
}

TEST(SavedTest, MeasuredTimesCountWhereBothPlansHaveThem) {
  FakeWorld world;
  GpuTime time(&world);
  time.Of(16);
  const std::string key = world.disk->Keys(RecordKind::kPlan).front();
  std::string& payload = world.disk->records[{RecordKind::kPlan, key}];
  PlanRecord record = DecodePlanRecord(payload).value();
  record.variants.front().decisions.kernels.front().measured_us = 8;
  payload = EncodePlanRecord(record);
  EXPECT_NEAR(time.Of(16), 10, 0.01);  // the unfused plan has none
  for (PlanVariant& variant : record.variants) {
    if (variant.decisions.fused) continue;
    for (KernelDecision& kernel : variant.decisions.kernels) kernel.measured_us = 12;
  }
  payload = EncodePlanRecord(record);
  EXPECT_NEAR(time.Of(16), 2 * 12 - 8, 0.01);
}

}  // namespace
}  // namespace sinter
