// The text of a kernel of attention, and its launch.
#ifndef SINTER_SRC_ATTENTION_SOURCE_H_
#define SINTER_SRC_ATTENTION_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/attention/problem.h"
#include "src/attention/schedule.h"
#include "src/base/launch_recipe.h"

namespace sinter {

constexpr char kAttentionEntry[] = "sinter_attention";
constexpr char kAttentionHeader[] = "attention/attention.cuh";

// AttentionSource makes a kernel's source from this. Schedules that differ only in their grid share
// one source.
struct AttentionCode {
  AttentionProblem problem;
  AttentionSchedule schedule;
};

std::string AttentionSource(const AttentionCode& code);

// Operands in order: q, k, v, the terms, the result.
absl::StatusOr<LaunchRecipe> AttentionRecipe(const AttentionCode& code,
                                             const std::vector<BufferPlace>& operands,
                                             int64_t grid);

}  // namespace sinter

#endif  // SINTER_SRC_ATTENTION_SOURCE_H_
