// A plan of one kernel whose predicted times a test gives.
#ifndef SINTER_TESTS_UNIT_PLAN_TIMED_PLAN_H_
#define SINTER_TESTS_UNIT_PLAN_TIMED_PLAN_H_

#include "tests/unit/plan/sample_kernels.h"

namespace sinter {

inline const DeviceModel& H200() {
  static const DeviceModel model = *BuiltinModel("h200");
  return model;
}

// A plan of one kernel whose times are given, level by level.
inline Plan PlanOf(const Schedule& schedule, const Prediction& times) {
  Plan plan;
  plan.fused = true;
  PlannedKernel kernel;
  kernel.spec = SampleSpec(SampleS8(), schedule);
  kernel.prediction = times;
  plan.kernels = {kernel};
  return plan;
}

inline Prediction Times(double total, double intake, double dsm = 1, double fixed = 4) {
  Prediction p;
  p.total_us = total;
  p.hbm_us = 4;
  p.intake_us = intake;
  p.dsm_us = dsm;
  p.fixed_us = fixed;
  p.hbm_bytes = 19e6;
  p.l2_bytes = 40e6;
  p.dsm_bytes = 1e6;
  p.bound = "intake";
  return p;
}

inline Schedule Grid() { return SampleSchedule(SampleS8(), Dataflow::kGridExchange); }

}  // namespace sinter

#endif  // SINTER_TESTS_UNIT_PLAN_TIMED_PLAN_H_
