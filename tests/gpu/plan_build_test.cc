// Plans built by hand launch like the engine's plans; fakes stand in for compiler and GPU.
#include "tests/gpu/plan_build.h"

#include "src/chain/problem.h"
#include "src/engine/bound_plan.h"
#include "tests/support/test.h"
#include "tests/unit/engine/fakes.h"

namespace sinter::gpu_testing {
namespace {

// Rows of each launch of the plan's first kernel.
std::vector<int64_t> RowsLaunched(const char* problem, int64_t m) {
  testing::FakeWorld world{.compute = false};
  const Ports ports = world.MakePorts();
  const auto chain = std::make_shared<const Chain>(ParseProblem(problem)->chain);
  const FusionResult fused = Got(PlanChain(*chain, kLargestBucket, world.model, {}));
  const absl::StatusOr<LoadedPlanPtr> plan = BuildPlan(ports, chain, fused.chosen);
  EXPECT_TRUE(plan.ok()) << plan.status();
  if (!plan.ok()) return {};
  constexpr DevicePtr kApart = DevicePtr{1} << 32;
  std::vector<DevicePtr> buffers;
  for (int i = 0; i < chain->num_inputs() + chain->num_outputs(); ++i) {
    buffers.push_back(kApart * static_cast<DevicePtr>(i + 1));
  }
  const auto bound = BindPlan(*plan, buffers, 1 << 20);
  EXPECT_TRUE(bound.ok()) << bound.status();
  if (!bound.ok()) return {};
  EXPECT_TRUE(CheckRows(**plan, m).ok());
  EXPECT_TRUE(EnqueuePlan(**bound, nullptr, m, false).ok());
  std::vector<int64_t> rows;
  for (size_t i = 0; i < world.launches.size(); i += (*plan)->kernels.size()) {
    rows.push_back(world.launches[i].m);
  }
  return rows;
}

TEST(BuildPlan, LaunchesOfItsPlansTakeAllRows) {
  const char* products = "gated_ffn m=M n=3072 k=1024 l=1024 act=silu layout=oi dtype=bf16";
  EXPECT_EQ(RowsLaunched(products, 100), (std::vector<int64_t>{100}));
  EXPECT_EQ(RowsLaunched(products, 2 * kLargestBucket + 5),
            (std::vector<int64_t>{kLargestBucket, kLargestBucket, 5}));
  const char* stitched = "residual_rmsnorm rows=M cols=1024 eps=1e-6";
  EXPECT_EQ(RowsLaunched(stitched, 2 * kLargestBucket + 5),
            (std::vector<int64_t>{2 * kLargestBucket + 5}));
}

}  // namespace
}  // namespace sinter::gpu_testing
