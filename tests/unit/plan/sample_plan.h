// Hand-made problems, schedules and plans that the plan tests share.
#pragma once

#include "src/base/launch_recipe.h"
#include "tests/support/product_in.h"
#include "tests/support/read_schedule.h"
#include "tests/support/sequences.h"

namespace sinter {

inline ProductSequence SampleGated() {
  return MakeSequence(128, MakeProduct(3072, 1024, Activation::kSilu, true), 1024);
}

inline Schedule SampleGridExchange() {
  return ReadSchedule("grid-exchange bm128 wg2x1 bk128 st3 cl4 grid120 first 32/1 second 40/4");
}

// Six clusters a row tile, each with a range of 128 of N.
// A gate-up pair of 96 rows with swapped operands: 3 x 5 tiles of 40 rows and 128 columns.
inline ProductSequence SampleSwappedProblem() {
  return MakeSequence(96, MakeProduct(600, 512, Activation::kSilu, true));
}

inline Schedule SampleSwapped() {
  return ReadSchedule("product bm40 wg1x2 bk64 st4 cl2 swapped grid30 first 128/2");
}

inline ProductSequence SampleRangesProblem() {
  return MakeSequence(128, MakeProduct(760, 512), 1000);
}

inline Schedule SampleRanges() {
  return ReadSchedule("cluster-ranges bm64 wg1x1 bk64 cl4 ranges6 grid48 first 32/1 second 256/1");
}

inline Schedule SampleProduct(const ProductSequence& p, int block_n, int split_k) {
  return Schedule{
      .stages = 3,
      .cluster = split_k,
      .grid = static_cast<int>((p.m + 127) / 128 * ((p[0].n + block_n - 1) / block_n) * split_k),
      .first = {block_n, split_k}};
}

inline Plan SampleFusedPlan() {
  Plan plan{.fused = true, .bucket = 128};
  PlannedKernel kernel;
  ProductIn(&kernel.spec).sequence = SampleGated();
  ProductIn(&kernel.spec).schedule = SampleGridExchange();
  ProductIn(&kernel.spec).operands = {
      {Role::kA, 0, 0, 1024},   {Role::kW, 1, 0, 1024},
      {Role::kWUp, 2, 0, 1024}, {Role(Role::kW, 1), 3, 0, 3072},
      {Role::kOut, 4, 0, 1024}, {Role::kC, kWorkspaceBuffer, kWorkspaceFlagBytes, 3072}};
  kernel.prediction.total_us = 11.5;
  kernel.prediction.hbm_us = 4.25;
  kernel.prediction.intake_us = 7.5;
  kernel.prediction.fixed_us = 4;
  kernel.prediction.hbm_bytes = 19.5e6;
  kernel.prediction.bound = "intake";
  plan.kernels.push_back(kernel);
  plan.workspace_bytes = kWorkspaceFlagBytes + 128 * 3072 * 2;
  plan.note = "sample";
  plan.runners_up = {{"unfused", 14.25, "predicted slower"}};
  return plan;
}

inline Plan SampleUnfusedPlan() {
  Plan plan{.bucket = 128};
  PlannedKernel first, second;
  ProductIn(&first.spec).sequence = FirstOf(SampleGated());
  ProductIn(&first.spec).schedule = SampleProduct(ProductOf(first.spec).sequence, 48, 2);
  ProductIn(&first.spec).operands = {{Role::kA, 0, 0, 1024},
                                     {Role::kW, 1, 0, 1024},
                                     {Role::kWUp, 2, 0, 1024},
                                     {Role::kOut, kWorkspaceBuffer, kWorkspaceFlagBytes, 3072}};
  first.prediction.total_us = 7;
  ProductIn(&second.spec).sequence = SecondOf(SampleGated());
  ProductIn(&second.spec).schedule = SampleProduct(ProductOf(second.spec).sequence, 32, 4);
  ProductIn(&second.spec).operands = {{Role::kA, kWorkspaceBuffer, kWorkspaceFlagBytes, 3072},
                                      {Role::kW, 3, 0, 3072},
                                      {Role::kOut, 4, 0, 1024}};
  second.prediction.total_us = 7.25;
  plan.kernels = {first, second};
  plan.workspace_bytes = kWorkspaceFlagBytes + 128 * 3072 * 2;
  return plan;
}

}  // namespace sinter
