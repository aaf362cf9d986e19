#include "src/engine/explain.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace sinter {
namespace {

// A kernel used at several positions is told of once.
std::vector<KernelOrigin> KernelOrigins(const LoadedPlan& plan) {
  std::vector<KernelOrigin> list;
  std::map<std::tuple<Digest, const BuiltKernel*>, size_t> known;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const BuiltKernel& kernel = *plan.kernels[i];
    const Digest& digest = plan.plan.kernels[i].kernel_digest;
    const auto [at, fresh] = known.try_emplace({digest, &kernel}, list.size());
    if (fresh) {
      list.push_back(
          {{}, digest, kernel.origin, kernel.compile_us, kernel.registers, kernel.verified});
    }
    list[at->second].kernels.push_back(static_cast<int>(i));
  }
  return list;
}

PlanOrigin OriginOf(const LoadedPlan& plan, const Ports& ports) {
  PlanOrigin origin;
  origin.device = ports.device_name.empty() ? ports.model.name : ports.device_name;
  origin.model = ports.model.name;
  origin.arch = ports.model.arch;
  if (ports.loader == nullptr) origin.no_gpu = ports.no_gpu_reason;
  origin.chosen = plan.chosen_digest;
  origin.considered = plan.considered;
  origin.legal = plan.legal;
  origin.from_cache = plan.from_cache;
  origin.tuning_digest = plan.tuning_digest;
  origin.agreed = AgreedDigest(plan);
  origin.tuning = plan.tuning;
  origin.kernels = KernelOrigins(plan);
  return origin;
}

// Whether it was passed over for its time or the caller's choice; planning then says more about it.
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
  const bool planned = !list.empty();  // then planning listed every plan worth showing
  std::vector<Candidate> unlisted;
  for (const PassedOver& other : plan.passed_over) {
    const auto known = std::find_if(list.begin(), list.end(),
                                    [&](const Candidate& c) { return c.plan == other.plan; });
    if (known == list.end() && !(planned && IsByTime(other))) {
      const char* name = other.fused ? "fused" : "the plain plan";
      unlisted.push_back({name, other.predicted_us, TextOf(other), other.plan});
    } else if (known != list.end() && !IsByTime(other)) {
      known->why_not = TextOf(other);
    }
  }
  list.insert(list.begin(), unlisted.begin(), unlisted.end());
  return list;
}

BufferNames NamesIn(const Chain& chain, const LoadedPlan& plan) {
  const std::vector<int32_t>& order = chain.InputOrder();
  BufferNames out;
  for (const BufferView& view : plan.form->buffers) {
    const auto i = static_cast<size_t>(view.buffer);
    std::string name;
    if (i < order.size()) name = chain.InputName(order[i]);
    out.given.push_back(!name.empty());
    if (name.empty()) {
      const size_t output = i - order.size();
      name = i < order.size()           ? absl::StrCat("input ", order[i])
             : chain.num_outputs() == 1 ? "output"
                                        : absl::StrCat("output ", output);
    }
    if (view.offset_bytes > 0) absl::StrAppend(&name, " + ", view.offset_bytes);
    out.names.push_back(std::move(name));
  }
  return out;
}

Explanation ExplanationOf(const LoadedPlan& plan, const EngineCore& core, Detail detail,
                          const BufferNames& names) {
  Explanation out = Describe(plan.plan, core.ports.model, names);
  out.origin = OriginOf(plan, core.ports);
  if (detail == Detail::kSummary) return out;
  out.plan.runners_up = NotChosen(plan);
  if (core.hooks.explain) core.hooks.explain(core.ports.model, &out);
  return out;
}

}  // namespace sinter
