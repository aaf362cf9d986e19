// One kernel per bucket serves every number of rows, and writes none beyond.
#include "tests/gpu/gpu_tests.h"

namespace sinter::gpu_testing::every_m {
namespace {

constexpr int64_t kMost = 300;

FfnSpec PlainSpec() { return FfnSpec{.n = 768, .k = 384, .l = 264, .act = Activation::kRelu}; }

// Large enough that C goes through memory.
FfnSpec LargeSpec() {
  FfnSpec spec = PlainSpec();
  spec.n = 2048;
  spec.k = 512;
  spec.l = 520;
  return spec;
}

FfnSpec GatedSpec() {
  return FfnSpec{
      .gated = true, .n = 640, .k = 256, .l = 320, .act = Activation::kSilu, .layout = Layout::kIO};
}

class EveryM : public GpuTest {
 protected:
  // Every m from 1 to 300 with the plan of its bucket.
  void Sweep(const FfnSpec& spec, PrepareOptions::Choice choice) {
    const Chain chain = Got(MakeFfnChain(spec));
    std::vector<PlanJob> jobs;
    for (int64_t m = 1; m <= kMost; ++m) {
      if (jobs.empty() || BucketOf(jobs.back().m) != BucketOf(m)) {
        jobs.push_back({&chain, m, choice});
      }
    }
    const std::vector<absl::StatusOr<PreparedPlanPtr>> plans = PrepareAll(engine(), jobs);
    const auto data = Got(DeviceChain::Make(ports(), chain, kMost, 7));
    std::map<int64_t, BoundRun> bound;
    for (size_t i = 0; i < jobs.size(); ++i) {
      ASSERT_OK(plans[i]) << "bucket " << BucketOf(jobs[i].m);
      const BoundRun run = Got(data->Bind(*plans[i]));
      bound[BucketOf(jobs[i].m)] = run;
    }
    for (int64_t m = 1; m <= kMost; ++m) {
      const absl::StatusOr<std::string> output = data->Run(bound[BucketOf(m)], m);
      ASSERT_OK(output) << "m " << m;
      ASSERT_OK(data->Check(*output, m)) << "bucket " << BucketOf(m);
    }
  }
};

TEST_F(EveryM, PlainFused) { Sweep(PlainSpec(), PrepareOptions::Choice::kFused); }
TEST_F(EveryM, PlainUnfused) { Sweep(PlainSpec(), PrepareOptions::Choice::kUnfused); }
TEST_F(EveryM, LargeFused) { Sweep(LargeSpec(), PrepareOptions::Choice::kFused); }
TEST_F(EveryM, GatedFused) { Sweep(GatedSpec(), PrepareOptions::Choice::kFused); }
TEST_F(EveryM, GatedUnfused) { Sweep(GatedSpec(), PrepareOptions::Choice::kUnfused); }

TEST_F(EveryM, NoRowsIsANoOp) {
  const Chain chain = Got(MakeFfnChain(PlainSpec()));
  for (auto choice : {PrepareOptions::Choice::kFused, PrepareOptions::Choice::kUnfused}) {
    const auto plan = Got(engine()->Prepare(chain, 16, {.choice = choice}));
    const auto data = Got(DeviceChain::Make(ports(), chain, 16, 7));
    const auto run = Got(data->Bind(plan));
    const std::string output = Got(data->Run(run, 0));
    EXPECT_OK(data->CheckUntouched(output));
  }
}

TEST_F(EveryM, MoreRowsThanTheBucketAreRefused) {
  const Chain chain = Got(MakeFfnChain(PlainSpec()));
  const auto plan = Got(engine()->Prepare(chain, 16, PrepareOptions{}));
  const auto data = Got(DeviceChain::Make(ports(), chain, 32, 7));
  const auto run = Got(data->Bind(plan));
  EXPECT_EQ(data->Run(run, 17).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(data->Run(run, -1).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(EveryM, MoreRowsThanTheLargestBucketAreLooped) {
  FfnSpec spec{.n = 128, .k = 64, .l = 72, .act = Activation::kSilu};
  const int64_t rows = kLargestBucket + 333;
  const Chain chain = Got(MakeFfnChain(spec));
  for (auto choice : {PrepareOptions::Choice::kFused, PrepareOptions::Choice::kUnfused}) {
    const auto plan = engine()->Prepare(chain, rows, {.choice = choice});
    if (!plan.ok() && choice == PrepareOptions::Choice::kFused) continue;  // no legal fused plan
    ASSERT_OK(plan);
    const auto data = Got(DeviceChain::Make(ports(), chain, rows, 7));
    for (int64_t m : {kLargestBucket, kLargestBucket + 1, rows}) {
      ExpectCorrect(*data, *plan, m, 2);
    }
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::every_m
