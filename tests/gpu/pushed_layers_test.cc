// Without a GPU: layers whose product sends have legal schedules over SINTER_GPU_RANKS ranks, so
// that pushed_sums_gpu_test has plans to run on a machine with as many GPUs.
#include "tests/gpu/pushed_layers.h"

#include "src/plan/collective_family.h"
#include "tests/support/product_in.h"

namespace sinter::gpu_testing {
namespace {

TEST(PushedLayers, HaveCutsForFewRows) {
  const Layer layer(2048, 512);
  for (const int64_t bucket : {1, 16, 128}) {
    const Plan plain = layer.PlainPlan(bucket);
    const std::vector<Schedule> cuts = Cuts(plain);
    EXPECT_GE(cuts.size(), 2u) << bucket;
    for (const Schedule& cut : cuts) {
      const Plan pushed = With(plain, cut, true, 256);
      EXPECT_EQ(ProductOf(pushed.kernels[0].spec).schedule.pushes, Ranks());
      EXPECT_FALSE(CollectiveKernels::ScheduleOf(pushed.kernels[1].spec).two_shot);
    }
  }
}

TEST(PushedLayers, HaveCutsThatComputeColumnsEarly) {
  const Layer layer(2048, 512, 1024);
  const Plan plain = layer.PlainPlan(1024);
  const std::vector<Schedule> cuts = EarlyCuts(plain);
  EXPECT_GT(cuts.size(), 2u);
  for (const Schedule& cut : cuts) {
    const int64_t columns = EarlyColumns(ProductOf(plain.kernels[0].spec).sequence, cut);
    const Plan early = With(plain, cut, false, 256, columns);
    EXPECT_EQ(CollectiveKernels::ScheduleOf(early.kernels[1].spec).pushed_columns, columns);
  }
}

}  // namespace
}  // namespace sinter::gpu_testing
