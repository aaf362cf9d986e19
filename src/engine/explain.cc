#include "src/engine/explain.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "src/base/format.h"
#include "src/base/printable.h"
#include "src/draw/units.h"
#include "src/plan/picture/plan_svg.h"
#include "src/plan/plan_text.h"
#include "src/plan/report/plan_report.h"

namespace sinter {
namespace {

std::string OriginText(const BuiltKernel& kernel) {
  if (kernel.origin == "compiled") {
    return FormatText("compiled in %.0f ms", kernel.compile_us / 1e3);
  }
  if (kernel.origin == "stand-in") return "of the library's own (stand-in)";
  return absl::StrCat("from the cache (", kernel.origin, ")");
}

std::string KernelLine(const LoadedPlan& plan, const std::vector<int>& equal) {
  const auto i = static_cast<size_t>(equal.front());
  const BuiltKernel& kernel = *plan.kernels[i];
  std::string line =
      FormatText("  kernel %s: %s %s", KernelNumbers(equal),
                 plan.plan.kernels[i].kernel_digest.Hex().substr(0, 16), OriginText(kernel));
  if (kernel.registers > 0) absl::StrAppend(&line, ", ", Counted(kernel.registers, "register"));
  absl::StrAppend(&line, kernel.verified ? ", verified" : ", not verified", "\n");
  return line;
}

// Kernels that were built once.
std::vector<std::vector<int>> SameKernels(const LoadedPlan& plan) {
  std::vector<std::vector<int>> groups;
  std::map<std::tuple<Digest, const BuiltKernel*>, size_t> known;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const auto [at, fresh] = known.try_emplace(
        {plan.plan.kernels[i].kernel_digest, plan.kernels[i].get()}, groups.size());
    if (fresh) groups.emplace_back();
    groups[at->second].push_back(static_cast<int>(i));
  }
  return groups;
}

std::string TuningLine(const LoadedPlan& plan) {
  if (plan.tuning_digest == Digest()) return "tuning: none\n";
  return absl::StrCat("tuning: ", plan.tuning_digest.Hex().substr(0, 16), ", ",
                      Printable(plan.tuning),
                      "\ndigest with the tuning set: ", AgreedDigest(plan).Hex(), "\n");
}

std::string DeviceLines(const LoadedPlan& plan, const Ports& ports) {
  const std::string& device = ports.device_name.empty() ? ports.model.name : ports.device_name;
  std::string text =
      absl::StrCat("device: ", device, " (model ", ports.model.name, ", ", ports.model.arch, ")",
                   ports.loader == nullptr ? absl::StrCat(", ", ports.no_gpu_reason) : "", "\n");
  if (plan.chosen_digest != plan.plan.PlanDigest()) {
    absl::StrAppend(&text, "chosen by planning: ", plan.chosen_digest.Hex(), "\n");
  }
  return text;
}

std::string SourceLines(const LoadedPlan& plan) {
  std::string text = absl::StrCat(
      "search: ", plan.considered, " considered, ", plan.legal, " legal, ",
      plan.from_cache ? "plan from the cache" : "searched now", "\n", TuningLine(plan), "cache:\n");
  for (const std::vector<int>& equal : SameKernels(plan)) text += KernelLine(plan, equal);
  return text;
}

// The kernels of a plan, or those that are alike together.
std::string KernelReports(const LoadedPlan& plan, const FusionPicture& picture,
                          const DeviceModel& model) {
  std::string text;
  const std::vector<PlannedKernel>& kernels = plan.plan.kernels;
  for (size_t i = 0; i < kernels.size() && picture.kernels.empty(); ++i) {
    absl::StrAppend(&text, KernelReport(i, kernels[i], model));
  }
  for (const std::vector<int>& equal : picture.equal) {
    const auto i = static_cast<size_t>(equal.front());
    if (equal.size() > 1) absl::StrAppend(&text, "alike: kernels ", KernelNumbers(equal), "\n");
    absl::StrAppend(&text, KernelReport(i, kernels[i], model, &picture.kernels[i]));
  }
  if (kernels.size() > 1) {
    absl::StrAppend(
        &text, "all kernels: ", MeasuredText(plan.plan.PredictedUs(), MeasuredUs(plan.plan)), "\n");
  }
  if (!picture.kernels.empty()) {
    absl::StrAppend(&text,
                    "saved by fusion: ", AmountText(static_cast<double>(picture.saved_bytes), "B"),
                    "\n", ApartText(picture));
  }
  return text;
}

// Passed over for its time or the caller's wish: planning says more of that than the engine.
bool IsByTime(const PassedOver& other) {
  return other.why == PassedOver::Why::kSlower || other.why == PassedOver::Why::kNotAskedFor;
}

}  // namespace

std::vector<Candidate> NotChosen(const LoadedPlan& plan) {
  std::vector<Candidate> list;
  const Digest self = plan.plan.PlanDigest();
  for (const Candidate& c : plan.plan.runners_up) {
    if (c.plan != self) list.push_back(c);
  }
  const bool planned = !list.empty();  // then planning listed what is worth it
  std::vector<Candidate> unlisted;
  for (const PassedOver& other : plan.passed_over) {
    const auto known = std::find_if(list.begin(), list.end(),
                                    [&](const Candidate& c) { return c.plan == other.plan; });
    if (known == list.end() && !(planned && IsByTime(other))) {
      const std::string name(PlanName(other.fused));
      unlisted.push_back({name, other.predicted_us, TextOf(other), other.plan});
    } else if (known != list.end() && !IsByTime(other)) {
      known->why_not = TextOf(other);
    }
  }
  list.insert(list.begin(), unlisted.begin(), unlisted.end());
  return list;
}

std::string ExplainPlan(const LoadedPlan& plan, const Ports& ports, const FusionPicture& picture) {
  std::string text = PlanHeadText(plan.plan) + DeviceLines(plan, ports);
  if (!plan.plan.note.empty()) absl::StrAppend(&text, "note: ", Printable(plan.plan.note), "\n");
  text += KernelReports(plan, picture, ports.model);
  return absl::StrCat(text, SourceLines(plan), RunnersUpReport(NotChosen(plan)));
}

std::string SummarizePlan(const LoadedPlan& plan, const Ports& ports) {
  return absl::StrCat(plan.plan.ToText(), DeviceLines(plan, ports), SourceLines(plan));
}

std::string ExplainJson(const LoadedPlan& plan, const Ports& ports, const FusionPicture& picture) {
  Plan merged = plan.plan;
  merged.runners_up = NotChosen(plan);
  return ReportJson(merged, ports.model, picture);
}

std::string ExplainSvg(const LoadedPlan& plan, const FusionPicture& picture) {
  Plan merged = plan.plan;
  merged.runners_up = NotChosen(plan);
  return PlanSvg(merged, picture);
}

}  // namespace sinter
