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

// What the source is made from. Schedules that differ in their grid alone have one source.
struct AttentionCode {
  AttentionProblem problem;
  AttentionSchedule schedule;
};

// A buffer of the plan, and where in it an operand begins.
struct AttentionOperand {
  int buffer = 0;
  uint64_t offset_bytes = 0;
  bool operator==(const AttentionOperand& o) const {
    return buffer == o.buffer && offset_bytes == o.offset_bytes;
  }
};

std::string AttentionSource(const AttentionCode& code);

// Operands in order: q, k, v, the terms, the result.
absl::StatusOr<LaunchRecipe> AttentionRecipe(const AttentionCode& code,
                                             const std::vector<AttentionOperand>& operands,
                                             int64_t grid);

}  // namespace sinter

#endif  // SINTER_SRC_ATTENTION_SOURCE_H_
