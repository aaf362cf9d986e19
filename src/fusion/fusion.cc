#include "src/fusion/fusion.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/status.h"
#include "src/chain/rows_apart.h"
#include "src/fusion/product_plans.h"
#include "src/fusion/rankings.h"
#include "src/fusion/segments.h"
#include "src/fusion/stitch/stitch_plans.h"
#include "src/plan/plan_text.h"
#include "src/plan/report/loss_reason.h"
#include "src/product/matcher.h"

namespace sinter {
namespace {

constexpr size_t kRunnersUp = 10;

absl::Status NoLegalPlan(absl::string_view why) {
  return MakeError(ErrorCode::kNoLegalPlan,
                   absl::StrCat("no kernel family takes this chain: ", why));
}

Segmentation AllAlone(int products) {
  Segmentation segments;
  for (int i = 0; i < products; ++i) segments.push_back({i, 1});
  return segments;
}

// The best ways to cut the sequence, and the unfused one wherever it ranks.
std::vector<Segmentation> Candidates(const Rankings& rankings, int products, size_t limit) {
  std::vector<Segmentation> list = BestSegmentations(
      products, [&](const Segment& segment) { return rankings.CostOf(segment); }, limit);
  const Segmentation unfused = AllAlone(products);
  if (std::find(list.begin(), list.end(), unfused) == list.end()) list.push_back(unfused);
  return list;
}

// The i-th plan takes the i-th schedule of every kernel's ranking.
void AddPlans(const MatchedSequence& matched, int inputs, const Rankings& rankings,
              const Segmentation& segments, std::vector<Plan>* plans) {
  size_t depth = std::numeric_limits<size_t>::max();
  for (const Segment& segment : segments) depth = std::min(depth, rankings.Of(segment).size());
  for (size_t i = 0; i < depth; ++i) {
    std::vector<RankedSchedule> ranked;
    for (const Segment& segment : segments) ranked.push_back(rankings.Of(segment)[i]);
    plans->push_back(MakePlan(matched, inputs, segments, ranked));
  }
}

// Best first; of equal times the unfused plan; then the order of the rankings.
void SortPlans(std::vector<Plan>* plans) {
  std::stable_sort(plans->begin(), plans->end(), [](const Plan& a, const Plan& b) {
    const double x = a.PredictedUs(), y = b.PredictedUs();
    return x != y ? x < y : a.fused < b.fused;
  });
}

// The best plan of the other kind first, then the nearest of the rest.
std::vector<Candidate> RunnersUp(const Plan& chosen, const std::vector<Plan>& others,
                                 const DeviceModel& model) {
  std::vector<const Plan*> order;
  for (const bool other_kind : {true, false}) {
    for (const Plan& plan : others) {
      if ((plan.fused != chosen.fused) != other_kind) continue;
      order.push_back(&plan);
      if (other_kind) break;
    }
  }
  std::vector<Candidate> list;
  for (const Plan* plan : order) {
    if (list.size() == kRunnersUp) break;
    list.push_back({NameInList(*plan), plan->PredictedUs(), WhyNotChosen(*plan, chosen, model),
                    plan->PlanDigest()});
  }
  return list;
}

// "products 1+2 | 3": one group a kernel.
std::string GroupsOf(const Plan& plan) {
  int next = 1;
  return absl::StrCat(
      "products ",
      absl::StrJoin(plan.kernels, " | ", [&](std::string* out, const PlannedKernel& kernel) {
        absl::StrAppend(out, next++);
        if (kernel.spec.sequence.size() == 2) {
          absl::StrAppend(out, "+", next++);
        }
      }));
}

std::string NoteOf(const Plan& plan, const Rankings& rankings, int products) {
  if (!rankings.why_no_pair().empty()) return rankings.why_no_pair();
  if (plan.fused) return products > 2 ? GroupsOf(plan) : "";
  return absl::StrCat("not fused: ", products == 2 ? "two" : absl::StrCat(products),
                      " kernels are predicted to be no slower");
}

FusionResult Choose(std::vector<Plan> plans, const Rankings& rankings, int products,
                    const DeviceModel& model) {
  FusionResult result;
  result.considered = rankings.considered();
  result.legal = rankings.legal();
  SortPlans(&plans);
  for (Plan& plan : plans) plan.note = NoteOf(plan, rankings, products);
  result.chosen = std::move(plans.front());
  result.alternatives.assign(std::make_move_iterator(plans.begin() + 1),
                             std::make_move_iterator(plans.end()));
  result.chosen.runners_up = RunnersUp(result.chosen, result.alternatives, model);
  return result;
}

absl::StatusOr<FusionResult> PlanProducts(const Chain& chain, const MatchedSequence& matched,
                                          const DeviceModel& model, const FusionOptions& options,
                                          Pace* pace) {
  const absl::Status strides = CheckStrides(matched);
  if (!strides.ok()) return NoLegalPlan(strides.message());
  SearchOptions search;
  search.top_k = options.top_k;
  search.allow_cooperative = options.allow_cooperative;
  search.task_lists = search.spatial_gates = options.for_tuning;
  search.batch_invariant = options.batch_invariant;
  search.pace = pace;
  const absl::StatusOr<Rankings> rankings = Rankings::Make(matched.sequence, model, search);
  if (!rankings.ok()) return NoLegalPlan(rankings.status().message());
  std::vector<Plan> plans;
  for (const Segmentation& segments :
       Candidates(*rankings, matched.size(), static_cast<size_t>(options.top_k))) {
    AddPlans(matched, chain.num_inputs(), *rankings, segments, &plans);
  }
  return Choose(std::move(plans), *rankings, matched.size(), model);
}

void MarkBatchInvariant(FusionResult* result) {
  const auto mark = [](Plan& plan) {
    for (PlannedKernel& kernel : plan.kernels) kernel.spec.batch_invariant = true;
  };
  mark(result->chosen);
  for (Plan& plan : result->alternatives) mark(plan);
}

}  // namespace

absl::StatusOr<FusionResult> PlanChain(const Chain& chain, int64_t bucket, const DeviceModel& model,
                                       const FusionOptions& options) {
  FusionOptions used = options;
  used.batch_invariant &= chain.UsesM();  // else there is one number of rows
  if (used.batch_invariant) {
    const absl::Status apart = CheckRowsApart(chain);
    if (!apart.ok()) {
      return MakeError(ErrorCode::kNoLegalPlan, absl::StrCat("batch_invariant: ", apart.message()));
    }
  }
  absl::StatusOr<FusionResult> result = Stoppable(options.keep_going, [&](Pace* pace) {
    const absl::StatusOr<MatchedSequence> matched = MatchProducts(chain, bucket);
    return matched.ok() ? PlanProducts(chain, *matched, model, used, pace)
                        : PlanStitch(chain, bucket, model, used, pace);
  });
  if (result.ok() && used.batch_invariant) MarkBatchInvariant(&*result);
  return result;
}

}  // namespace sinter
