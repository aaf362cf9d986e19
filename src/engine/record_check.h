// RecordCheck: whether a record that was not made in this process is what its key says.
#ifndef SINTER_SRC_ENGINE_RECORD_CHECK_H_
#define SINTER_SRC_ENGINE_RECORD_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/record/kernel_record.h"
#include "src/base/ports.h"
#include "src/engine/core.h"
#include "src/engine/keys.h"
#include "src/engine/plan_record.h"

namespace sinter {

// Makes the plans and the kernel keys of a decoded record. DATA_LOSS or FAILED_PRECONDITION unless
// it names the chain and the bucket of `request`, its decisions are of them, on the chip of
// `model`, and the unfused plan is there. Generates no source: a digest of a source that is not the
// kernel's makes a key that no kernel has. Asks `control` before each plan.
absl::Status CompletePlanRecord(const PlanRequest& request, const DeviceModel& model,
                                const EngineCore& core, const BuildControl& control,
                                PlanRecord* record);
// Fills in what is not stored: a plan, and keys of its kernels for `toolchain_id`.
void CompleteVariant(AssembledPlan assembled, absl::string_view toolchain_id,
                     absl::string_view arch, const EngineCore& core, PlanVariant* variant);
// The bounds that a plan record for `request` keeps to.
PlanRecordLimits LimitsOf(const PlanRequest& request, const KeepGoing* keep_going = nullptr);

// A decoded kernel record: it was compiled under `key`. Whoever launches it makes the recipe from
// a plan that fits its chain.
absl::Status CheckKernelRecord(const KernelRecord& record, absl::string_view key);

// The same of bytes, without a request, and of the sources of a plan's kernels, which are made
// for it: Engine::CheckStored.
absl::Status CheckStoredRecord(RecordKind kind, absl::string_view key, absl::string_view payload,
                               const EngineCore& core);
// Why a record is not what its key says (RecordCheck). OK too for records that only another version
// or an engine for another device can judge. Makes no source.
absl::Status JudgeStoredRecord(RecordKind kind, absl::string_view key, absl::string_view payload,
                               const EngineCore& core);

// Tells the store to answer `key` with `payload` no more. Returns whether another tier may hold a
// better record.
bool RefuseRecord(RecordKind kind, absl::string_view key, absl::string_view payload,
                  const EngineCore& core);
// Records of a key that are refused in a row before it counts as a miss.
constexpr int kMostRefused = 4;

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_RECORD_CHECK_H_
