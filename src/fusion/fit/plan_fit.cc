#include "src/fusion/fit/plan_fit.h"

#include <algorithm>

#include "src/base/launch_recipe.h"
#include "src/base/status.h"
#include "src/fusion/fit/access.h"
#include "src/fusion/fit/launch_check.h"
#include "src/fusion/fit/meaning.h"
#include "src/fusion/fit/order_check.h"
#include "src/fusion/fit/places.h"
#include "src/fusion/fit/refusal.h"

namespace sinter {
namespace {

// Rows of a chain without M are those of its only run of products; other kernels have constant
// rows.
LaunchRows RowsOf(const ChainMeaning& meaning, int64_t bucket) {
  LaunchRows rows;
  rows.bucket = bucket;
  if (meaning.chain().UsesM()) {
    rows.at[1] = (bucket + 1) / 2;
    rows.at[2] = bucket;
    return rows;
  }
  int64_t fixed = 1;
  for (const GraphRun& run : meaning.runs()) {
    if (!run.constant_rows) fixed = run.matched.m.value;
  }
  std::fill(std::begin(rows.at), std::end(rows.at), fixed);
  return rows;
}

// A lone stitched kernel may be launched with more rows than its workspace is laid out for.
absl::Status CheckLone(const Plan& plan, const KernelAccesses& accesses) {
  if (plan.kernels.size() > 1) return absl::OkStatus();
  for (const BufferAccess& access : accesses.list) {
    if (access.kind != AccessKind::kWrite || access.buffer != kWorkspaceBuffer) continue;
    return RefuseFit(access.name, " is left in the workspace to no kernel");
  }
  return absl::OkStatus();
}

}  // namespace

PlanFit::PlanFit(const Chain& chain, int64_t bucket, const DeviceModel& model,
                 const FitRequest& request)
    : chain_(chain),
      bucket_(bucket),
      model_(model),
      request_(request),
      meaning_(std::make_unique<ChainMeaning>(chain, bucket)),
      order_(std::make_unique<OrderCheck>(chain, model, request.batch_invariant && chain.UsesM())) {
}

PlanFit::~PlanFit() = default;

absl::Status PlanFit::CheckHead(const Plan& plan) const {
  if (plan.bucket != bucket_) {
    return RefuseFit("it is for bucket ", plan.bucket, ", asked for is ", bucket_);
  }
  if (plan.kernels.empty() || plan.kernels.size() > chain_.ops().size()) {
    return RefuseFit(plan.kernels.size(), " kernels for ", chain_.ops().size(), " ops");
  }
  return absl::OkStatus();
}

absl::Status PlanFit::Check(const Plan& plan, const std::vector<KernelCode>& codes) const {
  SINTER_RETURN_IF_ERROR(CheckHead(plan));
  SINTER_RETURN_IF_ERROR(order_->Check(plan));
  const LaunchRows rows = RowsOf(*meaning_, bucket_);
  Places places(chain_, rows, plan.workspace_bytes);
  Meaning meaning(meaning_.get());
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const KernelSpec& spec = plan.kernels[i].spec;
    const absl::Status status = [&]() -> absl::Status {
      SINTER_ASSIGN_OR_RETURN(const KernelLaunch launch, CheckLaunch(spec, codes[i], model_));
      if (launch.cooperative && !request_.allow_cooperative) {
        return RefuseFit("it waits across blocks");
      }
      SINTER_ASSIGN_OR_RETURN(const KernelAccesses accesses, AccessesOf(spec, launch, rows));
      SINTER_RETURN_IF_ERROR(places.Add(accesses));
      SINTER_RETURN_IF_ERROR(CheckLone(plan, accesses));
      return meaning.Add(spec);
    }();
    if (!status.ok()) return RefuseFit("kernel ", i, ": ", status.message());
  }
  SINTER_RETURN_IF_ERROR(meaning.Finish());
  return places.Finish();
}

absl::Status PlanFit::Check(const Plan& plan) const {
  SINTER_ASSIGN_OR_RETURN(const std::vector<KernelCode> codes, CodesOf(plan));
  return Check(plan, codes);
}

PlanJudge MakePlanJudge(const Chain& chain, int64_t bucket, const DeviceModel& model,
                        const FitRequest& request) {
  const auto fit = std::make_shared<const PlanFit>(chain, bucket, model, request);
  return [fit](const Plan& plan, const std::vector<KernelCode>& codes) {
    return fit->Check(plan, codes);
  };
}

absl::Status CheckPlanFits(const Plan& plan, const Chain& chain, int64_t bucket,
                           const DeviceModel& model, const FitRequest& request) {
  return PlanFit(chain, bucket, model, request).Check(plan);
}

}  // namespace sinter
