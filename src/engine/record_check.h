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

// A decoded plan record: it names the chain and the bucket of `request`, its plans fit them on the
// chip of `model`, and its kernels' keys are theirs. Generates no source.
absl::Status CheckPlanRecord(const PlanRecord& record, const PlanRequest& request,
                             const DeviceModel& model, const EngineCore& core);

// A decoded kernel record: it was compiled under `key`. Whoever launches it makes the recipe from
// a plan that fits its chain.
absl::Status CheckKernelRecord(const KernelRecord& record, absl::string_view key);

// The same of bytes, without a request: Engine::CheckStored.
absl::Status CheckStoredRecord(RecordKind kind, absl::string_view key, absl::string_view payload,
                               const EngineCore& core);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_RECORD_CHECK_H_
