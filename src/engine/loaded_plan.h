// LoadedPlan: a plan with its kernels, ready to be bound; which plans it replaced, and why.
#ifndef SINTER_SRC_ENGINE_LOADED_PLAN_H_
#define SINTER_SRC_ENGINE_LOADED_PLAN_H_

#include <cstdint>
#include <functional>
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
  std::string failure;  // set for kFailed
};
std::string TextOf(const PassedOver& other);  // "predicted slower"

// How many rows launches of a plan take.
struct RowLimits {
  // In one pass through the plan's kernels. A lone kernel may take more than the largest bucket;
  // several kernels share a workspace made for the plan's bucket.
  int64_t at_once = 0;
  int64_t most = 0;  // in all passes of one launch
};

// Where the elements of a buffer lie: `pitch` bytes apart, blocks of `width` bytes; one block, or
// one for each row of M.
struct BufferBlocks {
  int64_t width = 0, pitch = 0;  // 0: no elements, or they lie otherwise
  bool of_m = false;
};

// Made only by NewLoadedPlan, immutable once its maker shares it. All prepared plans of equal
// chains share it. Buffers are in the canonical order of the caller's chain.
struct LoadedPlan {
  std::shared_ptr<const void>
      owner;  // the engine's core; first, so that kernels unload before its ports go
  // Destroyed after the kernels below; tells the module cache that they are free.
  std::shared_ptr<const void> lease;
  std::shared_ptr<const NormalForm> form;
  const Chain& chain() const { return *form->callers; }
  Plan plan;             // the plan that runs, of form->chain
  Digest chosen_digest;  // PlanDigest of the plan that planning chose; differs from plan's after a
                         // fallback
  // One per kernel of the plan. Kernels with equal code share one; each has its own recipe.
  std::vector<BuiltKernelPtr> kernels;
  std::vector<LaunchRecipe> recipes;
  std::vector<BufferBlocks> blocks;  // of each buffer
  int64_t fixed_rows = -1;           // rows of a chain without M; -1: each launch says
  RowLimits rows;
  bool mixes_rows = false;  // they cannot be taken piece by piece
  // The kernels that a launch without rows runs, in order: those that make the outputs without M.
  // Empty where every output has M.
  std::vector<size_t> without_rows;

  // Called at each bind, before kernels are bound: checks what passes of `at_once` rows will read
  // and write. Only tests set it.
  std::function<absl::Status(const LoadedPlan&, int64_t at_once)> check_bind;

  uint64_t saved_ns_per_pass = 0;  // what the unfused plan would take longer

  bool from_cache = false;  // the plan record was found in the cache, not searched for
  uint64_t considered = 0, legal = 0;
  Digest tuning_digest;  // of the tuning set used in planning; all zero: none
  std::string tuning;    // PlanRecord::tuning
  std::string fallback;  // why the chosen plan does not run; "" when it does
  std::vector<PassedOver> passed_over;
};
using LoadedPlanPtr = std::shared_ptr<const LoadedPlan>;

// Fills in everything that chain and plan determine; no kernels yet. It reads the programs of
// stitch kernels, so that no launch has to.
std::shared_ptr<LoadedPlan> NewLoadedPlan(std::shared_ptr<const NormalForm> form, Plan plan);

// OK, or OUT_OF_RANGE if a plan prepared for `m` rows could not be launched with them: its kernels
// take all rows at once and are made for fewer. Names the op that needs all rows.
absl::Status CheckAskedRows(const LoadedPlan& plan, int64_t m);

// What ranks compare: a digest of the chosen plan and of the tuning set it was chosen with. Without
// a set it is the plan's digest.
Digest AgreedDigest(const LoadedPlan& plan);

// LoadedPlan::fixed_rows for a chain that is planned.
int64_t FixedRowsOf(const Chain& chain);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_LOADED_PLAN_H_
