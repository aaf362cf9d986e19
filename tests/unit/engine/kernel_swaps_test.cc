#include "src/engine/tune.h"
#include "src/stitch/spec.h"
#include "tests/support/product_in.h"
#include "tests/support/sequences.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

// A plan of two products; a kernel is known by its stages.
Plan TwoKernels(int first_stages, int second_stages) {
  Plan plan{.bucket = 16};
  for (const int stages : {first_stages, second_stages}) {
    PlannedKernel kernel;
    const auto columns = 64 * static_cast<int64_t>(plan.kernels.size() + 1);
    ProductIn(&kernel.spec).sequence = MakeSequence(16, MakeProduct(columns, 64));
    ProductIn(&kernel.spec).schedule.stages = stages;
    kernel.ops = {{9}, false, static_cast<int>(plan.kernels.size())};
    kernel.prediction.total_us = stages;
    plan.kernels.push_back(kernel);
  }
  return plan;
}

std::vector<int> StagesOf(const std::vector<Decisions>& swaps, size_t kernel) {
  std::vector<int> stages;
  for (const Decisions& swap : swaps) stages.push_back(swap.kernels[kernel].schedule.stages);
  return stages;
}

TEST(KernelSwapsTest, TakesEachOtherScheduleOfOneKernelOnce) {
  const Plan plan = TwoKernels(2, 3);
  const std::vector<Plan> ranking = {TwoKernels(2, 3), TwoKernels(4, 5), TwoKernels(4, 6),
                                     TwoKernels(7, 3)};
  const std::vector<Decisions> swaps = KernelSwaps(plan, 0, ranking, 11);
  EXPECT_EQ(StagesOf(swaps, 0), (std::vector<int>{4, 7}));
  EXPECT_EQ(StagesOf(swaps, 1), (std::vector<int>{3, 3}));
  EXPECT_EQ(swaps[0].kernels[0].prediction.total_us, 4);
  EXPECT_EQ(swaps[0].kernels[1].prediction.total_us, 3);
  EXPECT_EQ(StagesOf(KernelSwaps(plan, 1, ranking, 11), 1), (std::vector<int>{5, 6}));
}

TEST(KernelSwapsTest, LooksAtSoManyPlansOfTheCut) {
  const std::vector<Plan> ranking = {TwoKernels(2, 3), TwoKernels(4, 5), TwoKernels(6, 7)};
  EXPECT_EQ(StagesOf(KernelSwaps(ranking[0], 0, ranking, 2), 0), std::vector<int>{4});
  EXPECT_TRUE(KernelSwaps(ranking[0], 0, ranking, 1).empty());
}

TEST(KernelSwapsTest, PlansOfOtherCutsGiveNothing) {
  const Plan plan = TwoKernels(2, 3);
  Plan fewer = TwoKernels(4, 5), other_ops = fewer, other_absorbed = fewer, other_rows = fewer;
  fewer.kernels.pop_back();
  other_ops.kernels[1].ops.values = {8};
  other_absorbed.absorbed.norms = true;
  other_rows.bucket = 32;
  EXPECT_TRUE(KernelSwaps(plan, 0, {fewer, other_ops, other_absorbed, other_rows}, 11).empty());
}

// A plan of one stitched kernel; it is known by its grid.
Plan Stitched(std::vector<ValueId> values, int grid) {
  ChainBuilder b;
  const ValueId x = *b.Input({DType::kF32, {Dim::Constant(8)}});
  EXPECT_TRUE(b.Output(*b.Binary(BinaryKind::kAdd, x, x)).ok());
  auto spec = std::make_shared<StitchSpec>();
  spec->body = *b.Finish();
  spec->operands = {{0, 0}, {1, 0}};
  spec->schedule.grid = grid;
  Plan plan{.bucket = 16};
  plan.kernels.emplace_back();
  plan.kernels[0].spec.family = &StitchFamily();
  plan.kernels[0].spec.body = MakeBody(std::move(*spec));
  plan.kernels[0].ops.values = std::move(values);
  return plan;
}

TEST(KernelSwapsTest, StitchedKernelsOfOtherOpsGiveNothing) {
  const Plan plan = Stitched({1}, 1);
  const std::vector<Plan> ranking = {Stitched({2}, 2), Stitched({1, 2}, 3), Stitched({1}, 4)};
  const std::vector<Decisions> swaps = KernelSwaps(plan, 0, ranking, 11);
  ASSERT_EQ(swaps.size(), 1u);
  EXPECT_EQ(swaps[0].kernels[0].stitch.grid, 4);
}

}  // namespace
}  // namespace sinter
