#include "src/fusion/fusion.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/ffn_view.h"
#include "src/fusion/ffn_plans.h"
#include "src/plan/plan_text.h"
#include "src/search/loss_reason.h"

namespace sinter {
namespace {

constexpr size_t kRunnersUp = 10;

absl::Status NoLegalPlan(absl::string_view why) {
  return MakeError(ErrorCode::kNoLegalPlan,
                   absl::StrCat("no kernel family takes this chain: ", why));
}

// Everything that was planned for one chain, before the choice.
struct Planned {
  std::vector<Plan> plans;
  std::string why_not_fused;  // empty when a fused plan exists
  uint64_t considered = 0, legal = 0;

  void Count(const SearchResult& r) {
    considered += r.considered;
    legal += r.legal;
  }
};

absl::Status AddUnfused(const FfnView& view, int inputs, const FfnProblem& p,
                        const DeviceModel& model, const SearchOptions& options, Planned* out) {
  const FfnProblem first = FirstProductOf(p);
  auto one = SearchSchedules(first, model, options);
  if (!one.ok()) return NoLegalPlan(absl::StrCat("first product: ", one.status().message()));
  out->Count(*one);
  if (p.products == 1) {
    for (const RankedSchedule& r : one->ranked) {
      out->plans.push_back(UnfusedPlan(view, inputs, p, r, nullptr));
    }
    return absl::OkStatus();
  }
  auto two = SearchSchedules(SecondProductOf(p), model, options);
  if (!two.ok()) return NoLegalPlan(absl::StrCat("second product: ", two.status().message()));
  out->Count(*two);
  const size_t pairs = std::min(one->ranked.size(), two->ranked.size());
  for (size_t i = 0; i < pairs; i++) {
    RankedSchedule second = two->ranked[i];
    second.prediction = BehindProgrammaticEdge(second.prediction, model);
    out->plans.push_back(UnfusedPlan(view, inputs, p, one->ranked[i], &second));
  }
  return absl::OkStatus();
}

void AddFused(const FfnView& view, int inputs, const FfnProblem& p, const DeviceModel& model,
              const SearchOptions& options, Planned* out) {
  if (p.products == 1) {
    out->why_not_fused = "one product: there is nothing to fuse";
    return;
  }
  auto found = SearchSchedules(p, model, options);
  if (!found.ok()) {
    out->why_not_fused = absl::StrCat("not fused: ", found.status().message());
    return;
  }
  out->Count(*found);
  for (const RankedSchedule& r : found->ranked) {
    out->plans.push_back(FusedPlan(view, inputs, p, r));
  }
}

// Best first; of equal times the unfused plan; then the order of the rankings.
void SortPlans(std::vector<Plan>* plans) {
  std::stable_sort(plans->begin(), plans->end(), [](const Plan& a, const Plan& b) {
    const double x = a.PredictedUs(), y = b.PredictedUs();
    return x != y ? x < y : (a.name == "unfused") > (b.name == "unfused");
  });
}

// The best plan of the other kind first, then the nearest of the rest.
std::vector<Candidate> RunnersUp(const Plan& chosen, const std::vector<Plan>& others,
                                 const DeviceModel& model) {
  std::vector<const Plan*> order;
  for (const bool other_kind : {true, false}) {
    for (const Plan& plan : others) {
      if ((plan.name != chosen.name) != other_kind) continue;
      order.push_back(&plan);
      if (other_kind) break;
    }
  }
  std::vector<Candidate> list;
  for (const Plan* plan : order) {
    if (list.size() == kRunnersUp) break;
    list.push_back({NameInList(*plan), plan->PredictedUs(), WhyNotChosen(*plan, chosen, model)});
  }
  return list;
}

std::string NoteOf(const Plan& chosen, const Planned& planned) {
  if (!planned.why_not_fused.empty()) return planned.why_not_fused;
  if (chosen.name == "fused") return "";
  return "not fused: two kernels are predicted to be no slower";
}

FusionResult Choose(Planned planned, const DeviceModel& model) {
  FusionResult result;
  result.considered = planned.considered;
  result.legal = planned.legal;
  SortPlans(&planned.plans);
  for (Plan& plan : planned.plans) plan.note = NoteOf(plan, planned);
  result.chosen = std::move(planned.plans.front());
  result.alternatives.assign(std::make_move_iterator(planned.plans.begin() + 1),
                             std::make_move_iterator(planned.plans.end()));
  result.chosen.runners_up = RunnersUp(result.chosen, result.alternatives, model);
  return result;
}

}  // namespace

absl::StatusOr<FusionResult> PlanChain(const Chain& chain, int64_t bucket, const DeviceModel& model,
                                       const FusionOptions& options) {
  auto view = ViewAsFfn(chain);
  if (!view.ok()) return NoLegalPlan(view.status().message());
  const absl::Status strides = CheckStrides(*view);
  if (!strides.ok()) return NoLegalPlan(strides.message());
  const FfnProblem problem = ProblemOf(*view, bucket);
  const absl::Status takes = CheckProblem(problem);
  if (!takes.ok()) return NoLegalPlan(takes.message());
  SearchOptions search;
  search.top_k = options.top_k;
  search.allow_cooperative = options.allow_cooperative;
  Planned planned;
  SINTER_RETURN_IF_ERROR(AddUnfused(*view, chain.num_inputs(), problem, model, search, &planned));
  AddFused(*view, chain.num_inputs(), problem, model, search, &planned);
  // Every schedule of both families adds in a fixed order, so options.deterministic excludes
  // nothing.
  return Choose(std::move(planned), model);
}

}  // namespace sinter
