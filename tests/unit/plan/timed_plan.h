// A plan of one kernel whose predicted times a test gives.
#pragma once

#include "tests/support/chips.h"
#include "tests/unit/plan/sample_kernels.h"

namespace sinter {

// A plan of one kernel whose times are given, level by level.
inline Plan PlanOf(const Schedule& schedule, const Prediction& times) {
  Plan plan{.fused = true};
  PlannedKernel kernel{.spec = SampleSpec(SampleS8(), schedule), .prediction = times};
  plan.kernels = {kernel};
  return plan;
}

inline Prediction Times(double total, double intake, double dsm = 1, double fixed = 4) {
  return Prediction{.total_us = total,
                    .hbm_us = 4,
                    .intake_us = intake,
                    .dsm_us = dsm,
                    .fixed_us = fixed,
                    .hbm_bytes = 19e6,
                    .l2_bytes = 40e6,
                    .dsm_bytes = 1e6,
                    .bound = "intake"};
}

inline Schedule Grid() { return SampleSchedule(SampleS8(), Dataflow::kGridExchange); }

}  // namespace sinter
