// What the cache and the fused kernels saved, as the statistics say it.
#include "src/base/dtype.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

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
