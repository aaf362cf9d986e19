#include "src/engine/kernel_swaps.h"

#include <gtest/gtest.h>

#include "src/chain/builder.h"
#include "src/stitch/spec.h"
#include "tests/support/sequences.h"

namespace sinter {
namespace {

// A plan of two products; a kernel is known by its stages.
Plan TwoKernels(int first_stages, int second_stages) {
  Plan plan;
  plan.bucket = 16;
  plan.workspace_bytes = 1024;
  for (const int stages : {first_stages, second_stages}) {
    PlannedKernel kernel;
    const auto columns = 64 * static_cast<int64_t>(plan.kernels.size() + 1);
    kernel.spec.sequence = MakeSequence(16, MakeProduct(columns, 64));
    kernel.spec.schedule.stages = stages;
    kernel.prediction.total_us = stages;
    plan.kernels.push_back(kernel);
  }
  return plan;
}

std::vector<int> StagesOf(const std::vector<Plan>& plans, size_t kernel) {
  std::vector<int> stages;
  for (const Plan& plan : plans) stages.push_back(plan.kernels[kernel].spec.schedule.stages);
  return stages;
}

TEST(KernelSwapsTest, TakesEachOtherScheduleOfOneKernelOnce) {
  const Plan plan = TwoKernels(2, 3);
  const std::vector<Plan> ranking = {TwoKernels(2, 3), TwoKernels(4, 5), TwoKernels(4, 6),
                                     TwoKernels(7, 3)};
  const std::vector<Plan> swaps = KernelSwaps(plan, 0, ranking, 11);
  EXPECT_EQ(StagesOf(swaps, 0), (std::vector<int>{4, 7}));
  EXPECT_EQ(StagesOf(swaps, 1), (std::vector<int>{3, 3}));
  EXPECT_EQ(swaps[0].PredictedUs(), 4 + 3);
  EXPECT_EQ(StagesOf(KernelSwaps(plan, 1, ranking, 11), 1), (std::vector<int>{5, 6}));
}

TEST(KernelSwapsTest, LooksAtSoManyPlansOfTheCut) {
  const std::vector<Plan> ranking = {TwoKernels(2, 3), TwoKernels(4, 5), TwoKernels(6, 7)};
  EXPECT_EQ(StagesOf(KernelSwaps(ranking[0], 0, ranking, 2), 0), std::vector<int>{4});
  EXPECT_TRUE(KernelSwaps(ranking[0], 0, ranking, 1).empty());
}

TEST(KernelSwapsTest, PlansOfOtherCutsGiveNothing) {
  const Plan plan = TwoKernels(2, 3);
  Plan fewer = TwoKernels(4, 5), other_problem = fewer, other_operands = fewer, other_rows = fewer;
  fewer.kernels.pop_back();
  SetColumns(&other_problem.kernels[1].spec.sequence, 0, 8);
  other_operands.kernels[1].spec.operands.push_back({Role::kBias1, 4, 0, 0});
  other_rows.bucket = 32;
  EXPECT_TRUE(KernelSwaps(plan, 0, {fewer, other_problem, other_operands, other_rows}, 11).empty());
}

// A plan of one stitched kernel; it is known by its grid.
Plan Stitched(BinaryKind kind, int buffer, int grid) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kF32, {Dim::Constant(8)}});
  EXPECT_TRUE(b.Output(*b.Binary(kind, x, x)).ok());
  auto spec = std::make_shared<StitchSpec>();
  spec->body = *b.Finish();
  spec->operands = {{0, 0}, {buffer, 0}};
  spec->schedule.grid = grid;
  Plan plan;
  plan.bucket = 16;
  plan.kernels.emplace_back();
  plan.kernels[0].spec.family = KernelFamily::kStitch;
  plan.kernels[0].spec.stitch = std::move(spec);
  return plan;
}

TEST(KernelSwapsTest, StitchedKernelsOfOtherBodiesOrOperandsGiveNothing) {
  const Plan plan = Stitched(BinaryKind::kAdd, 1, 1);
  const std::vector<Plan> ranking = {Stitched(BinaryKind::kMul, 1, 2),
                                     Stitched(BinaryKind::kAdd, 2, 3),
                                     Stitched(BinaryKind::kAdd, 1, 4)};
  const std::vector<Plan> swaps = KernelSwaps(plan, 0, ranking, 11);
  ASSERT_EQ(swaps.size(), 1u);
  EXPECT_EQ(swaps[0].kernels[0].spec.stitch->schedule.grid, 4);
}

TEST(KernelSwapsTest, TheWorkspaceCoversBothPlans) {
  const Plan plan = TwoKernels(2, 3);
  Plan larger = TwoKernels(4, 5);
  larger.workspace_bytes = 2048;
  const std::vector<Plan> swaps = KernelSwaps(plan, 0, {larger}, 11);
  ASSERT_EQ(swaps.size(), 1u);
  EXPECT_EQ(swaps[0].workspace_bytes, 2048u);
}

}  // namespace
}  // namespace sinter
