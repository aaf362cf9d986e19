// The text of `explain` beyond a plan's schedules: drawings, levels, losers. Sections of text, each
// ending with a newline; and as JSON, with all losers and the constants of the device model.
#ifndef SINTER_SRC_PLAN_REPORT_PLAN_REPORT_H_
#define SINTER_SRC_PLAN_REPORT_PLAN_REPORT_H_

#include <string>
#include <vector>

#include "src/base/device_model.h"
#include "src/plan/picture/fusion_picture.h"
#include "src/plan/plan.h"

namespace sinter {

// One kernel: its schedule, drawing, bytes and time of each level, predicted and measured time. A
// schedule that CheckScheduleFields refuses is not drawn. With `fusion`: what a stitch kernel
// fuses.
std::string KernelReport(size_t index, const PlannedKernel& kernel, const DeviceModel& model,
                         const KernelFusion* fusion = nullptr);

// "predicted 11.50 us, measured 12.10 us: 5.2 % more than predicted". Without a measurement: how to
// get one; never "not measured", which the plan text says already.
std::string MeasuredText(double predicted_us, double measured_us);

// The first candidates, so that a plan fits a screen; "" for none.
constexpr size_t kRunnersUpShown = 3;
std::string RunnersUpReport(const std::vector<Candidate>& runners_up);

// {"schema": 2, "kernels": [{"title", "formulas", "launch", "shared", "products", "window" (of
// a convolution), "hand_overs", "intermediate_bytes" (c's bytes by level), "levels" (for a stitch
// kernel those of StitchLevelsOf)}], "runners_up", "fusion" (FusionJson, for plans with stitch
// kernels), "model":
// {"name", "measured", "note", "constants"}}.
std::string ReportJson(const Plan& plan, const DeviceModel& model,
                       const FusionPicture& picture = {});

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_REPORT_PLAN_REPORT_H_
