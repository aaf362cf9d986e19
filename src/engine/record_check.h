// RecordCheck: whether a record that was not made in this process is what its key says.
#ifndef SINTER_SRC_ENGINE_RECORD_CHECK_H_
#define SINTER_SRC_ENGINE_RECORD_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/record/record.h"
#include "src/base/ports.h"
#include "src/engine/core.h"
#include "src/engine/keys.h"
#include "src/engine/plan_record.h"

namespace sinter {

// Makes the plans and kernel keys of a decoded record that have not been made. DATA_LOSS or
// FAILED_PRECONDITION unless the record names the chain and bucket of `request`, its decisions fit
// them on the chip of `model`, and the unfused plan is there. It generates no source: a wrong
// source digest only gives a key that no kernel has. Asks `control` before each plan.
absl::Status CompletePlanRecord(const PlanRequest& request, const DeviceModel& model,
                                const EngineCore& core, const BuildControl& control,
                                PlanRecord* record);
// The same of the chosen plan alone, which is nearly always the one that runs.
absl::Status CompleteChosen(const PlanRequest& request, const DeviceModel& model,
                            const EngineCore& core, const BuildControl& control,
                            PlanRecord* record);
// Fills in what is not stored: a plan, and the keys of its kernels for `toolchain_id`.
void CompleteVariant(AssembledPlan assembled, absl::string_view toolchain_id,
                     absl::string_view arch, const EngineCore& core, PlanVariant* variant);
// The bounds of a plan record for `request`.
PlanRecordLimits LimitsOf(const PlanRequest& request, const KeepGoing* keep_going = nullptr);

// OK if a decoded kernel record was compiled under `key`. Its recipe is not checked: whoever
// launches it makes that from a plan that fits its chain.
absl::Status CheckKernelRecord(const KernelRecord& record, absl::string_view key);

// The same checks on bytes, without a request; also makes the sources of a plan's kernels to
// compare them: Engine::CheckStored.
absl::Status CheckStoredRecord(RecordKind kind, absl::string_view key, absl::string_view payload,
                               const EngineCore& core);
// An error if a record is not what its key says (RecordCheck). OK also for records that only
// another version, or an engine for another device, can judge. Generates no source.
absl::Status JudgeStoredRecord(RecordKind kind, absl::string_view key, absl::string_view payload,
                               const EngineCore& core);

// Tells the store never to answer `key` with `payload` again. Returns whether another tier may hold
// a better record.
bool RefuseRecord(RecordKind kind, absl::string_view key, absl::string_view payload,
                  const EngineCore& core);
// How many records of one key may be refused in a row before the key counts as a miss.
constexpr int kMostRefused = 4;

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_RECORD_CHECK_H_
