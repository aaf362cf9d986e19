// PreparedCase: the plans that the engine makes for a case.
#pragma once

#include "src/engine/engine.h"
#include "tests/bench/cases.h"
#include "tests/bench/results.h"

namespace sinter::bench {

// Which plans to prepare in addition to the chosen one.
struct Wanted {
  bool fused = true, unfused = true, batch_invariant = false;
};

// What the engine prepared for a case. Errors say why a plan is missing.
struct PreparedCase {
  absl::StatusOr<std::shared_ptr<const PreparedPlan>> best, fused, unfused, batch_invariant;
  absl::StatusOr<std::shared_ptr<const PreparedPlan>> untuned;  // best by prediction
};

// `chosen`: options of the best plan. `untuned`: an engine that makes all but the best plan, by
// prediction; null where `engine` chooses so itself. Thread-safe.
PreparedCase PrepareCase(Engine* engine, Engine* untuned, const PrepareOptions& chosen,
                         const Case& c, const Wanted& wanted);

// A row that says what was prepared, nothing measured yet.
Row RowOf(const Case& c, const PreparedCase& prepared, const DeviceModel& model);

// The schedules of a plan, one a kernel.
std::string SchedulesOf(const Plan& plan);

}  // namespace sinter::bench
