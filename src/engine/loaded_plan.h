// LoadedPlan: a plan with its kernels, ready to be bound; what it took the place of, and why.
#ifndef SINTER_SRC_ENGINE_LOADED_PLAN_H_
#define SINTER_SRC_ENGINE_LOADED_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "src/base/digest.h"
#include "src/chain/chain.h"
#include "src/engine/kernel_builder.h"
#include "src/normal/normal_form.h"
#include "src/plan/plan.h"

namespace sinter {

// A plan that was considered and does not run.
struct PassedOver {
  enum class Why { kSlower, kNotAskedFor, kTunedAway, kFailed };

  Digest plan;  // PlanDigest
  bool fused = false;
  double predicted_us = 0;
  Why why = Why::kSlower;
  std::string failure;  // of kFailed
};
std::string TextOf(const PassedOver& other);  // "predicted slower"

// Rows that launches of a plan take.
struct RowLimits {
  // In one pass through the plan's kernels: a lone one may take more than the largest bucket; the
  // rows of others lie in a workspace made for the plan's bucket.
  int64_t at_once = 0;
  int64_t most = 0;  // in all passes of a launch
};

// Made by NewLoadedPlan alone, immutable once its maker shares it. Shared by all prepared plans of
// equal chains. Buffers are in the canonical order of the caller's chain here.
struct LoadedPlan {
  std::shared_ptr<const void>
      owner;  // the engine's core; first, so that kernels unload before its ports go
  // Dies after the kernels below, and tells the module cache that they are free.
  std::shared_ptr<const void> lease;
  std::shared_ptr<const NormalForm> form;
  const Chain& chain() const { return *form->callers; }
  Plan plan;             // as executed, of form->chain
  Digest chosen_digest;  // PlanDigest of what planning chose; differs from plan's after a fallback
  // One per kernel of the plan. Kernels of equal code are one; each has a recipe of its own.
  std::vector<BuiltKernelPtr> kernels;
  std::vector<LaunchRecipe> recipes;
  int64_t fixed_rows = -1;  // rows of a chain without M; -1: the launch says
  RowLimits rows;
  // The kernels that a launch without rows needs, in order: those that outputs without M are made
  // by. Empty where every output has M.
  std::vector<size_t> without_rows;

  uint64_t saved_ns_per_pass = 0;  // that the unfused plan would take longer

  bool from_cache = false;  // the plan record was found, not searched for
  uint64_t considered = 0, legal = 0;
  Digest tuning_digest;  // of the set that planning was done with; all zero: none
  std::string tuning;    // PlanRecord::tuning
  std::string fallback;  // why the chosen plan does not run; "" when it does
  std::vector<PassedOver> passed_over;
};
using LoadedPlanPtr = std::shared_ptr<const LoadedPlan>;

// With what chain and plan say of it; no kernels yet. Reads the programs of stitch kernels, so that
// no launch has to.
std::shared_ptr<LoadedPlan> NewLoadedPlan(std::shared_ptr<const NormalForm> form, Plan plan);

// OK, or OUT_OF_RANGE where a plan that was prepared for `m` rows could not be launched with them:
// its kernels take all rows at once and are made for fewer. Names the op that joins them.
absl::Status CheckAskedRows(const LoadedPlan& plan, int64_t m);

// What ranks compare: the chosen plan, and the tuning set that it was chosen with. Without a set
// the plan's own digest.
Digest AgreedDigest(const LoadedPlan& plan);

// LoadedPlan::fixed_rows of a chain that is planned.
int64_t FixedRowsOf(const Chain& chain);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_LOADED_PLAN_H_
