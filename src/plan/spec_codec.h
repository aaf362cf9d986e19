// Bytes of one KernelSpec: inside plan records and under plan digests.
#ifndef SINTER_SRC_PLAN_SPEC_CODEC_H_
#define SINTER_SRC_PLAN_SPEC_CODEC_H_

#include "absl/status/statusor.h"
#include "src/base/codec.h"
#include "src/plan/plan.h"

namespace sinter {

constexpr int kMaxPlanBuffers = 1024;  // buffers a plan may name
constexpr uint64_t kMaxOffset = uint64_t{1} << 48;

void WriteSpec(const KernelSpec& spec, ByteWriter& writer);

// Trusts nothing: enums, sizes and bindings are checked, and the products and the schedule fit each
// other (CheckScheduleFields), so that SizesOf and codegen see only values within bounds. DATA_LOSS
// otherwise, also where a stitched kernel would take more work to follow than `budget` (may be
// null) has left.
absl::StatusOr<KernelSpec> ReadSpec(ByteReader& reader, StitchBudget* budget = nullptr);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_SPEC_CODEC_H_
