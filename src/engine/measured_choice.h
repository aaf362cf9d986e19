// MeasuredChoices: what slots measure beside a program that serves, and where it is kept.
#ifndef SINTER_SRC_ENGINE_MEASURED_CHOICE_H_
#define SINTER_SRC_ENGINE_MEASURED_CHOICE_H_

#include <memory>
#include <utility>

#include "src/engine/core.h"
#include "src/engine/plan_builder.h"
#include "src/engine/tune.h"

namespace sinter {

// Thread-safe; one plan should be measured at a time, since each takes its share of the GPU.
class MeasuredChoices {
 public:
  // `plans` and `tuner` outlive it.
  MeasuredChoices(std::shared_ptr<EngineCore> core, PlanBuilder* plans, Tuner* tuner)
      : core_(std::move(core)), plans_(plans), tuner_(tuner) {}

  // OK once the store has a plan for `request` with `measured` set: found there, or measured now.
  // The predicted choice, the two plans behind it and the plain one are timed and checked as tuning
  // does, at the pace of a PacedMeasurer; what prediction chose is kept too where it stands. One
  // process measures while others that share the store wait for it. RESOURCE_EXHAUSTED,
  // FAILED_PRECONDITION, errors of tuning; counted, but where `control` ends a wait.
  absl::Status Measure(const PlanRequest& request, const BuildControl& control);

 private:
  bool IsKept(const PlanRequest& measured, const BuildControl& control);
  absl::Status MeasureNow(const PlanRequest& request, const PlanRequest& measured,
                          const BuildControl& control);

  const std::shared_ptr<EngineCore> core_;
  PlanBuilder* const plans_;
  Tuner* const tuner_;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_MEASURED_CHOICE_H_
