// What the target and its replay share: the engine's checks without a planner, a compiler and a
// device, and the kernel keys of a record.
#ifndef SINTER_TESTS_FUZZ_PLAN_RECORD_RECORDS_H_
#define SINTER_TESTS_FUZZ_PLAN_RECORD_RECORDS_H_

#include <utility>

#include "src/engine/core.h"
#include "src/engine/keys.h"
#include "src/engine/plan_record.h"
#include "src/fusion/fit/plan_fit.h"
#include "src/plan/kernel_code.h"

namespace sinter {

constexpr char kToolchain[] = "nvrtc-13.0-of-a-record";

inline const EngineCore& Core() {
  static const auto* const core = [] {
    Ports ports;
    ports.model = *BuiltinModel("h200");
    PlanningHooks hooks;
    hooks.fit = MakePlanJudge;
    hooks.device_headers = [](const KernelSpec&) { return Digest(); };  // a record outlives theirs
    return new EngineCore(std::move(ports), Config(), LogSink(), std::move(hooks));
  }();
  return *core;
}

// Gives every kernel the key that it must have; false where one has no code.
inline bool MakeKeys(PlanRecord* record) {
  for (PlanVariant& variant : record->variants) {
    variant.kernel_keys.clear();
    for (PlannedKernel& kernel : variant.plan.kernels) {
      const auto code = CodeOf(kernel.spec);
      if (!code.ok()) return false;
      GeneratedKernel made;
      made.code = *code;
      made.request.arch = Core().ports.model.arch;
      made.request.options = CompileOptionsOf(kernel.spec);
      variant.kernel_keys.push_back(KernelKeyOf(kernel.spec, made, record->toolchain_id, Core()));
      kernel.kernel_digest = Sha256(variant.kernel_keys.back());
    }
  }
  return true;
}

}  // namespace sinter

#endif  // SINTER_TESTS_FUZZ_PLAN_RECORD_RECORDS_H_
