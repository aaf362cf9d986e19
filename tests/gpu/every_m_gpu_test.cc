// One kernel per bucket serves every number of rows, and writes none beyond.
#include "tests/gpu/gpu_tests.h"

namespace sinter::gpu_testing::every_m {
namespace {

constexpr int64_t kMost = 300;

constexpr char kPlain[] = "n768 k384 l264 relu";

class EveryM : public GpuTest {
 protected:
  void Sweep(const char* ffn, PrepareOptions::Choice choice) {
    const Chain chain = Got(MakeFfnChain(ReadFfn(ffn)));
    const auto data = Got(DeviceChain::Make(ports(), chain, kMost, 7));
    ExpectEveryM(*data, kMost, PlansOfBuckets(chain, kMost, choice));
  }
};

TEST_F(EveryM, PlainFused) { Sweep(kPlain, PrepareOptions::Choice::kFused); }
TEST_F(EveryM, PlainUnfused) { Sweep(kPlain, PrepareOptions::Choice::kUnfused); }
// So large that C goes through memory.
TEST_F(EveryM, LargeFused) { Sweep("n2048 k512 l520 relu", PrepareOptions::Choice::kFused); }
TEST_F(EveryM, GatedFused) {
  Sweep("gated n640 k256 l320 silu io", PrepareOptions::Choice::kFused);
}
TEST_F(EveryM, GatedUnfused) {
  Sweep("gated n640 k256 l320 silu io", PrepareOptions::Choice::kUnfused);
}

TEST_F(EveryM, NoRowsIsANoOp) {
  const Chain chain = Got(MakeFfnChain(ReadFfn(kPlain)));
  for (auto choice : {PrepareOptions::Choice::kFused, PrepareOptions::Choice::kUnfused}) {
    const auto plan = Got(engine()->Prepare(chain, 16, {.choice = choice}));
    const auto data = Got(DeviceChain::Make(ports(), chain, 16, 7));
    const auto run = Got(data->Bind(plan));
    EXPECT_OK(data->CheckUntouched(Got(data->Run(run, 0))));
  }
}

TEST_F(EveryM, MoreRowsThanTheBucketAreRefused) {
  const Chain chain = Got(MakeFfnChain(ReadFfn(kPlain)));
  const auto plan = Got(engine()->Prepare(chain, 16, PrepareOptions{}));
  const auto data = Got(DeviceChain::Make(ports(), chain, 32, 7));
  const auto run = Got(data->Bind(plan));
  EXPECT_EQ(data->Run(run, 17).status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_EQ(data->Run(run, -1).status().code(), absl::StatusCode::kOutOfRange);
}

TEST_F(EveryM, MoreRowsThanTheLargestBucketAreLooped) {
  const int64_t rows = kLargestBucket + 333;
  const Chain chain = Got(MakeFfnChain(ReadFfn("n128 k64 l72 silu")));
  for (auto choice : {PrepareOptions::Choice::kFused, PrepareOptions::Choice::kUnfused}) {
    const auto plan = engine()->Prepare(chain, rows, {.choice = choice});
    if (!plan.ok() && choice == PrepareOptions::Choice::kFused) continue;  // no legal fused plan
    ASSERT_OK(plan);
    const auto data = Got(DeviceChain::Make(ports(), chain, rows, 7));
    for (int64_t m : {kLargestBucket, kLargestBucket + 1, rows}) ExpectCorrect(*data, *plan, m, 2);
  }
}

}  // namespace
}  // namespace sinter::gpu_testing::every_m
