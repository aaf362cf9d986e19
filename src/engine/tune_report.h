// What a tuning prints: a line for each plan that was tried.
#ifndef SINTER_SRC_ENGINE_TUNE_REPORT_H_
#define SINTER_SRC_ENGINE_TUNE_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "src/plan/plan.h"

namespace sinter {

struct TriedPlan {
  const Plan* plan = nullptr;
  double measured_us = 0;  // 0: not measured
  double in_turns_us = 0;  // under load, beside the other fastest ones; 0: not measured
  std::string state;       // "ok", or why there is no time
};

// `tried`: in the order in which they were measured; `taken`: index of the plan to take, -1 for
// none.
std::string TuneReport(int64_t bucket, absl::string_view device,
                       const std::vector<TriedPlan>& tried, int taken);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_TUNE_REPORT_H_
