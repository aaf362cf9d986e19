// What `explain` says of a plan beyond its schedules: drawings, levels, losers, constants. Sections
// of text, each ending with a newline, and the same as JSON.
#ifndef SINTER_SRC_PLAN_REPORT_PLAN_REPORT_H_
#define SINTER_SRC_PLAN_REPORT_PLAN_REPORT_H_

#include <string>
#include <vector>

#include "src/base/device_model.h"
#include "src/plan/picture/fusion_picture.h"
#include "src/plan/plan.h"

namespace sinter {

// One kernel: its schedule, its drawing, bytes and time of each level, predicted beside measured.
// A schedule that CheckScheduleFields refuses is not drawn. With `fusion`: what a stitch kernel
// fuses.
std::string KernelReport(size_t index, const PlannedKernel& kernel, const DeviceModel& model,
                         const KernelFusion* fusion = nullptr);

// "predicted 11.50 us, measured 12.10 us: 5.2 % more than predicted". Without a measurement: what
// takes one; never "not measured", so that one screen does not say both of its parts.
std::string MeasuredText(double predicted_us, double measured_us);

// The candidates, one after another; "" for none.
std::string RunnersUpReport(const std::vector<Candidate>& runners_up);

// The device model's constants, each with where it comes from.
std::string ConstantsReport(const DeviceModel& model);

// {"schema": 1, "kernels": [{"title", "formulas", "launch", "shared", "products", "hand_overs",
// "intermediate_bytes" (a level, its bytes of C), "levels" (of a stitch kernel StitchLevelsOf's)}],
// "runners_up", "fusion" (FusionJson; of plans with stitch kernels), "model": {"name", "measured",
// "constants"}}.
std::string ReportJson(const Plan& plan, const DeviceModel& model,
                       const FusionPicture& picture = {});

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_REPORT_PLAN_REPORT_H_
