// Bytes of one KernelSpec, for plan records and plan digests.
#ifndef SINTER_SRC_PLAN_SPEC_CODEC_H_
#define SINTER_SRC_PLAN_SPEC_CODEC_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "src/base/codec.h"
#include "src/plan/plan.h"

namespace sinter {

constexpr int kMaxPlanBuffers = 1024;  // buffers a plan may name
constexpr uint64_t kMaxOffset = uint64_t{1} << 48;

// One word of specs and kernel codes: 1 for two products, 2 for a stitched kernel, 3 for a product
// alone, and whether the kernel is batch-invariant.
uint32_t FamilyWord(KernelFamily family, int products, bool batch_invariant);
// The number of products; DATA_LOSS for any other word.
absl::StatusOr<int> ReadFamilyWord(uint32_t word, KernelFamily* family, bool* batch_invariant);

void WriteSpec(const KernelSpec& spec, ByteWriter& writer);

// Trusts nothing: checks enums, sizes and bindings, and that products and schedule fit each other
// (CheckScheduleFields), so that SizesOf and codegen see only values within bounds. DATA_LOSS
// otherwise, also where a stitched kernel would take more work to follow than `budget` (may be
// null) has left. `scratch_bytes` (may be null) is set for a stitched kernel (ReadStitch).
absl::StatusOr<KernelSpec> ReadSpec(ByteReader& reader, StitchBudget* budget = nullptr,
                                    uint64_t* scratch_bytes = nullptr);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_SPEC_CODEC_H_
