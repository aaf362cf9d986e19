#include "src/engine/explain.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace sinter {
namespace {

std::string KernelLine(const LoadedPlan& plan, size_t i) {
  const BuiltKernel& kernel = *plan.kernels[i];
  std::string line = absl::StrFormat(
      "  kernel %d: %s %s", i, plan.plan.kernels[i].kernel_digest.Hex().substr(0, 16),
      kernel.origin == "compiled" ? absl::StrFormat("compiled in %.0f ms", kernel.compile_us / 1e3)
                                  : absl::StrCat("from the cache (", kernel.origin, ")"));
  if (kernel.registers > 0) absl::StrAppend(&line, ", ", kernel.registers, " registers");
  absl::StrAppend(&line, kernel.verified ? ", verified" : ", not verified", "\n");
  return line;
}

std::string TuningLine(const LoadedPlan& plan) {
  if (plan.tuning_digest == Digest()) return "tuning: none\n";
  return absl::StrCat("tuning: ", plan.tuning_digest.Hex().substr(0, 16), ", ", plan.tuning,
                      "\ndigest with the tuning set: ", AgreedDigest(plan).Hex(), "\n");
}

}  // namespace

std::string ExplainPlan(const LoadedPlan& plan, const Ports& ports) {
  std::string text = plan.plan.ToText();
  if (!absl::EndsWith(text, "\n")) text += "\n";
  absl::StrAppend(&text,
                  "device: ", ports.device_name.empty() ? ports.model.name : ports.device_name,
                  " (model ", ports.model.name, ", ", ports.model.arch, ")",
                  ports.loader == nullptr ? absl::StrCat(", ", ports.no_gpu_reason) : "", "\n");
  if (plan.chosen_digest != plan.plan.PlanDigest()) {
    absl::StrAppend(&text, "chosen by planning: ", plan.chosen_digest.Hex(), "\n");
  }
  absl::StrAppend(&text, "search: ", plan.considered, " considered, ", plan.legal, " legal, ",
                  plan.from_cache ? "plan from the cache" : "searched now", "\n");
  text += TuningLine(plan);
  text += "cache:\n";
  for (size_t i = 0; i < plan.kernels.size(); ++i) text += KernelLine(plan, i);
  if (!plan.passed_over.empty()) text += "not taken:\n";
  for (const PassedOver& other : plan.passed_over) {
    text +=
        absl::StrFormat("  %s, predicted %.2f us: %s\n", other.name, other.predicted_us, other.why);
  }
  return text;
}

}  // namespace sinter
