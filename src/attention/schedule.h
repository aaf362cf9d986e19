// AttentionSchedule: how a kernel of attention runs; which schedules are legal; their times.
#ifndef SINTER_SRC_ATTENTION_SCHEDULE_H_
#define SINTER_SRC_ATTENTION_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/attention/problem.h"
#include "src/base/device_model.h"
#include "src/base/launch_recipe.h"
#include "src/model/search.h"

namespace sinter {

// A block takes items, which are 64 rows of a batch for each of its warpgroups.
struct AttentionSchedule {
  int warpgroups = 1;    // that multiply
  int block_keys = 64;   // keys of a tile: a multiple of 16
  int stages = 2;        // tiles of k or v in shared memory
  int query_stages = 1;  // items' rows of q in shared memory
  int resident = 1;      // blocks on an SM
  int64_t grid = 1;      // blocks

  int BlockRows() const { return 64 * warpgroups; }
  int Threads() const { return 128 * warpgroups + (warpgroups == 1 ? 32 : 128); }
  std::string ToString() const;  // "warpgroups2 keys128 stages4 queries1 resident1 grid384"
  void Write(ByteWriter& w) const;
  static absl::StatusOr<AttentionSchedule> Read(ByteReader& r);
  SINTER_FIELDS(AttentionSchedule, warpgroups, block_keys, stages, query_stages, resident, grid);
};

int64_t AttentionItems(const AttentionProblem& problem, const AttentionSchedule& schedule,
                       int64_t m);
int64_t AttentionSharedBytes(const AttentionProblem& problem, const AttentionSchedule& schedule);
// The parts of it that hold an item's rows of q, and a tile of k or v.
int64_t AttentionQueryBytes(const AttentionProblem& problem, const AttentionSchedule& schedule);
int64_t AttentionStageBytes(const AttentionProblem& problem, const AttentionSchedule& schedule);
// Registers that a thread of a warpgroup needs, as compilers have been seen to use, and has.
int AttentionRegisters(const AttentionProblem& problem, const AttentionSchedule& schedule);
int RegistersOf(const AttentionSchedule& schedule);

// FAILED_PRECONDITION naming the field, its value and the bound.
absl::Status CheckSchedule(const AttentionProblem& problem, const AttentionSchedule& schedule,
                           const DeviceModel& model);

// FAILED_PRECONDITION where the schedule cannot run.
absl::StatusOr<Prediction> PredictSchedule(const AttentionProblem& problem,
                                           const AttentionSchedule& schedule, int64_t m,
                                           const DeviceModel& model);

using RankedAttention = RankedKernel<AttentionSchedule>;

// Legal ones, the fastest by prediction first. Without `any_keys`, the keys of a tile and the rows
// of an item of causal attention depend only on the problem. So a row's bits are the same whatever
// M is.
// FAILED_PRECONDITION where none is legal.
absl::StatusOr<std::vector<RankedAttention>> RankAttention(const AttentionProblem& problem,
                                                           int64_t m, const DeviceModel& model,
                                                           size_t top_k, bool any_keys);

// The text of a kernel of attention, and its launch.

constexpr char kAttentionEntry[] = "sinter_attention";
// The headers of the device library that the source includes.
std::vector<std::string> HeadersOf(const AttentionProblem& problem,
                                   const AttentionSchedule& schedule);

// Schedules that differ only in their grid share one source.
std::string SourceOf(const AttentionProblem& problem, const AttentionSchedule& schedule);

// Operands in order: q, k, v, the terms, the result.
absl::StatusOr<LaunchRecipe> RecipeOf(const AttentionProblem& problem,
                                      const AttentionSchedule& schedule,
                                      const std::vector<BufferPlace>& operands);

}  // namespace sinter

#endif  // SINTER_SRC_ATTENTION_SCHEDULE_H_
