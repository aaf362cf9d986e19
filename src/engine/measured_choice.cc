#include "src/engine/measured_choice.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/status.h"
#include "src/engine/build_lock.h"
#include "src/engine/paced_measurer.h"

namespace sinter {
namespace {

constexpr int kPlans = 3;  // by prediction, beside the plain one
// A run cannot be cut into slices, and what is served waits for it.
constexpr double kLongestRunUs = 120;

}  // namespace

bool MeasuredChoices::IsKept(const PlanRequest& measured, const BuildControl& control) {
  return plans_->Get(measured, OnMiss::kGoOn, control).ok();
}

absl::Status MeasuredChoices::Measure(const PlanRequest& request, const BuildControl& control) {
  PlanRequest measured = request;
  measured.measured = true;
  if (IsKept(measured, control)) return absl::OkStatus();
  SINTER_ASSIGN_OR_RETURN(
      const std::shared_ptr<void> lock,
      AwaitBuildLock(*core_->ports.store, RecordKind::kPlan, PlanKeyBytes(measured, *core_),
                     control, core_->trace.get()));
  if (IsKept(measured, control)) return absl::OkStatus();
  Counters& counters = core_->counters;
  counters.slot_measurements_begun.fetch_add(1, std::memory_order_relaxed);
  const absl::Status status = MeasureNow(request, measured, control);
  if (status.ok()) return status;
  counters.slot_measurements_given_up.fetch_add(1, std::memory_order_relaxed);
  core_->log.Log(LogLevel::kInfo,
                 absl::StrCat("slot: the plan for chain ",
                              request.chain().CanonicalDigest().Hex().substr(0, 16), " at m <= ",
                              request.bucket, " stays as predicted: ", status.message()));
  return status;
}

absl::Status MeasuredChoices::MeasureNow(const PlanRequest& request, const PlanRequest& measured,
                                         const BuildControl& control) {
  SINTER_ASSIGN_OR_RETURN(const FoundPlan found, plans_->Get(request, OnMiss::kBuild, control));
  const double run_us = found.record->variants.front().plan.PredictedUs();
  if (run_us > kLongestRunUs) {
    return absl::FailedPreconditionError(
        absl::StrFormat("a run is predicted to take %.0f us, must be at most %.0f to be measured "
                        "beside what serves: measure it by sinter_tune",
                        run_us, kLongestRunUs));
  }
  SINTER_ASSIGN_OR_RETURN(std::unique_ptr<Measurer> background,
                          core_->ports.measurer->MakeBackground());
  GpuShare share;
  share.sleep = core_->hooks.pause;
  PacedMeasurer paced(std::move(background), std::move(share), &control);
  TuneOptions options;
  options.top_k = kPlans;
  options.brief = true;
  options.batch_invariant = request.batch_invariant;
  SINTER_ASSIGN_OR_RETURN(const TuneResult result, tuner_->Tune(request, options, control, &paced));
  SINTER_RETURN_IF_ERROR(control.Check("the choice was kept"));
  if (result.entry == nullptr) {
    return absl::FailedPreconditionError("no candidate could be measured");
  }
  SINTER_RETURN_IF_ERROR(plans_->KeepMeasured(measured, *result.entry, control));
  Counters& counters = core_->counters;
  counters.slot_measurements.fetch_add(1, std::memory_order_relaxed);
  counters.slot_measured_wins.fetch_add(result.predicted ? 0 : 1, std::memory_order_relaxed);
  return absl::OkStatus();
}

}  // namespace sinter
