#include "src/fusion/fusion.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/fusion/assembly.h"
#include "src/fusion/rankings.h"
#include "src/plan/collective_family.h"
#include "src/stitch/body_work.h"
#include "src/stitch/search/stitch_search.h"

namespace sinter {
namespace {

void MarkBatchInvariant(FusionResult* result) {
  const auto mark = [](Plan& plan) {
    for (PlannedKernel& kernel : plan.kernels) kernel.spec.batch_invariant = true;
  };
  mark(result->chosen);
  for (Plan& plan : result->alternatives) mark(plan);
}

absl::Status NoLegalPlan(absl::string_view why) {
  return MakeError(ErrorCode::kNoLegalPlan,
                   absl::StrCat("no kernel family takes this chain: ", why));
}

}  // namespace

int64_t RowOrderBucketOf(const Chain& chain) {
  return std::min(kRowOrderBucket, LargestBucketOf(chain));
}

absl::StatusOr<FusionResult> PlanChain(const Chain& chain, int64_t bucket, const DeviceModel& model,
                                       const FusionOptions& options) {
  FusionOptions used = options;
  used.batch_invariant &= chain.UsesM();  // otherwise there is only one number of rows
  if (used.batch_invariant && used.stand_ins) {
    return NoLegalPlan(
        "no stand-in is batch-invariant: leave batch_invariant off, or prepare where a compiler "
        "is");
  }
  if (used.batch_invariant) {
    const absl::Status apart = CheckRowsApart(chain);
    if (!apart.ok()) {
      return WithFieldsOf(
          NoLegalPlan(absl::StrCat("batch_invariant: ", apart.message(),
                                   ": leave batch_invariant off, or compute this op in a chain "
                                   "without it")),
          apart);
    }
  }
  absl::StatusOr<FusionResult> result = Stoppable(options.keep_going, [&](Pace* pace) {
    absl::StatusOr<FusionResult> plans = MakePlans(chain, bucket, model, used, pace);
    if (plans.ok()) return plans;
    return absl::StatusOr<FusionResult>(
        WithFieldsOf(NoLegalPlan(plans.status().message()), plans.status()));
  });
  if (result.ok() && used.batch_invariant) MarkBatchInvariant(&*result);
  return result;
}

namespace {

using Kernels = std::vector<KernelDecision>;

bool SameOps(const KernelDecision& a, const KernelDecision& b) {
  return a.family == b.family && a.products == b.products && a.ops == b.ops;
}

// The position after the last kernel that is replaced with kernel `i`. Kernels of one run of a
// family's own are one choice; each other kernel is replaced individually.
size_t EndOfWhole(const Kernels& kernels, size_t i) {
  size_t end = i + 1;
  while (end < kernels.size() && kernels[end].products == 0 &&
         kernels[end].ops.values == kernels[i].ops.values) {
    ++end;
  }
  return end;
}

class Replacer {
 public:
  Replacer(ChainParts* parts, int64_t bucket, const DeviceModel& model,
           const FusionOptions& options, const Kernels& refused, Pace* pace)
      : parts_(*parts), bucket_(bucket), model_(model), refused_(refused) {
    budget_ = StitchBudget{kMostPlannedVisits, pace};
    search_.pace = pace;
    search_.top_k = options.top_k;
    search_.allow_cooperative = options.allow_cooperative;
    search_.batch_invariant = options.batch_invariant;
    search_.budget = &budget_;
  }

  // `behind`: another kernel of the plan stands before this one.
  absl::StatusOr<Kernels> Replace(const KernelDecision& kernel, bool behind) {
    if (kernel.family == &ProductFamily()) return OfProducts(kernel, behind);
    return kernel.family == &StitchFamily() ? OfStitch(kernel) : OfOwn(kernel);
  }

 private:
  bool Exhausted(const KernelDecision& kernel) const {
    return std::count_if(refused_.begin(), refused_.end(), [&](const KernelDecision& other) {
             return SameOps(kernel, other);
           }) >= kMostTriedOfAKernel;
  }
  bool IsRefused(const KernelDecision& kernel) const {
    return std::any_of(refused_.begin(), refused_.end(), [&](const KernelDecision& other) {
      return SameOps(kernel, other) && kernel.family->SameSource(kernel, other);
    });
  }

  // All kernels of the run of which `kernel` is one.
  absl::StatusOr<Kernels> OfOwn(const KernelDecision& kernel) {
    const GraphRun* const run = parts_.RunOf(kernel.ops);
    if (run == nullptr || run->own.family != kernel.family) {
      return OpRefused(kernel.ops.values.front(), " is not a run's result");
    }
    SearchOptions options = search_;
    options.top_k = kMostTriedOfAKernel;
    SINTER_ASSIGN_OR_RETURN(const std::vector<OwnChoice> ranked,
                            kernel.family->RankOwn(run->own, bucket_, model_, options, true));
    for (const OwnChoice& choice : ranked) {
      Kernels kernels;
      for (const Prediction& prediction : choice.kernels) {
        KernelDecision one;
        one.family = kernel.family;
        one.ops = {{run->end}, false, static_cast<int>(kernels.size())};
        one.own = choice.own;
        one.prediction = prediction;
        kernels.push_back(std::move(one));
      }
      const bool refused = std::any_of(kernels.begin(), kernels.end(),
                                       [&](const auto& one) { return IsRefused(one); });
      if (!refused) return kernels;
    }
    return OpRefused(run->end, ": each schedule of its ", kernel.family->name(),
                     " kernels was refused by the compiler");
  }

  absl::StatusOr<Kernels> OfProducts(const KernelDecision& kernel, bool behind) {
    const GraphRun* const run = parts_.RunOf(kernel.ops);
    if (run == nullptr) return OpRefused(kernel.ops.values.front(), " is not a run's result");
    if (kernel.products == 1 || !Exhausted(kernel)) {
      absl::StatusOr<KernelDecision> next = NextOfProducts(*run, kernel, behind);
      if (next.ok()) return Kernels{*std::move(next)};
      if (kernel.products == 1) return next.status();
    }
    Kernels alone;
    for (int i = 0; i < kernel.products; ++i) {
      KernelDecision one;
      one.family = kernel.family;
      one.ops = kernel.ops;
      one.ops.first += i;
      one.products = 1;
      SINTER_ASSIGN_OR_RETURN(one, NextOfProducts(*run, one, behind || i > 0));
      alone.push_back(std::move(one));
    }
    return alone;
  }

  absl::StatusOr<KernelDecision> NextOfProducts(const GraphRun& run, KernelDecision kernel,
                                                bool behind) {
    const ProductSequence part = run.matched.sequence.Part(kernel.ops.first, kernel.products);
    SearchOptions options = search_;
    options.behind = behind;
    SINTER_ASSIGN_OR_RETURN(const SearchResult found, SearchSchedules(part, model_, options));
    for (const RankedSchedule& ranked : found.ranked) {
      kernel.schedule = ranked.schedule;
      kernel.prediction = ranked.prediction;
      kernel.measured_us = 0;
      if (!IsRefused(kernel)) return kernel;
    }
    return OpRefused(run.end, ": each schedule of product ", kernel.ops.first,
                     " of its run was refused by the compiler");
  }

  absl::StatusOr<Kernels> OfStitch(const KernelDecision& kernel) {
    SINTER_ASSIGN_OR_RETURN(const NodeSet vertices, parts_.VerticesOf(kernel.ops));
    if (vertices.size() == 1 || !Exhausted(kernel)) {
      absl::StatusOr<KernelDecision> next = NextOfStitch(kernel, vertices);
      if (next.ok()) return Kernels{*std::move(next)};
      if (vertices.size() == 1) return next.status();
    }
    return Split(vertices);
  }

  absl::StatusOr<KernelDecision> NextOfStitch(KernelDecision kernel, const NodeSet& vertices) {
    SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<const StitchBody> body,
                            parts_.BodyOf(kernel.ops, vertices));
    std::vector<RankedStitch> found;
    if (!kernel.parts.empty()) {
      found = PackedSearch(bucket_, model_, &budget_).Of(body->body);
    } else {
      SINTER_ASSIGN_OR_RETURN(found, SearchStitch(body->body, bucket_, model_, search_));
    }
    for (RankedStitch& ranked : found) {
      kernel.stitch = std::move(ranked.schedule);
      kernel.parts = std::move(ranked.parts);
      kernel.prediction = std::move(ranked.prediction);
      kernel.measured_us = 0;
      if (!IsRefused(kernel)) return kernel;
    }
    return OpRefused(kernel.ops.values.back(),
                     ": each schedule of its kernel was refused by the compiler");
  }

  // The best kernel of all of `vertices`, or the kernels of their halves.
  absl::StatusOr<Kernels> Settle(const NodeSet& vertices) {
    absl::StatusOr<KernelDecision> whole = Whole(vertices);
    if (whole.ok()) return Kernels{*std::move(whole)};
    if (vertices.size() == 1) return whole.status();
    return Split(vertices);
  }

  absl::StatusOr<KernelDecision> Whole(const NodeSet& vertices) {
    KernelDecision kernel;
    vertices.ForEach([&](int v) {
      const std::vector<ValueId>& values = parts_.graph().vertex(v).values;
      kernel.ops.values.insert(kernel.ops.values.end(), values.begin(), values.end());
    });
    std::sort(kernel.ops.values.begin(), kernel.ops.values.end());
    if (Exhausted(kernel)) return FailedPrecondition("its schedules were refused by the compiler");
    absl::StatusOr<KernelDecision> whole = NextOfStitch(kernel, vertices);
    if (whole.ok()) return whole;
    kernel.ops.turned = true;
    absl::StatusOr<KernelDecision> turned = NextOfStitch(kernel, vertices);
    return turned.ok() ? turned : whole;
  }

  absl::StatusOr<Kernels> Split(const NodeSet& vertices) {
    Kernels kernels;
    for (const NodeSet& half : Halves(vertices)) {
      SINTER_ASSIGN_OR_RETURN(Kernels part, Settle(half));
      std::move(part.begin(), part.end(), std::back_inserter(kernels));
    }
    return kernels;
  }

  // Two halves of which the first reads nothing of the second: vertices are numbered in an order in
  // which they can be computed.
  std::vector<NodeSet> Halves(const NodeSet& vertices) const {
    const std::vector<NodeSet> apart = parts_.graph().ComponentsOf(vertices);
    std::vector<NodeSet> halves(2, NodeSet(parts_.graph().size()));
    if (apart.size() > 1) {
      for (size_t i = 0; i < apart.size(); ++i) halves[2 * i >= apart.size()].Unite(apart[i]);
      return halves;
    }
    int left = vertices.size() / 2;
    vertices.ForEach([&](int v) { halves[left-- > 0 ? 0 : 1].Add(v); });
    return halves;
  }

  ChainParts& parts_;
  const int64_t bucket_;
  const DeviceModel& model_;
  const Kernels& refused_;
  SearchOptions search_;
  StitchBudget budget_;
};

}  // namespace

absl::StatusOr<Decisions> ReplaceKernels(const Chain& chain, const DeviceModel& model,
                                         const FusionOptions& options, Decisions decisions,
                                         const std::vector<size_t>& positions,
                                         const std::vector<KernelDecision>& refused) {
  return Stoppable(options.keep_going, [&](Pace* pace) -> absl::StatusOr<Decisions> {
    SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<ChainParts> parts,
                            ChainParts::Make(chain, decisions.bucket, decisions.absorbed,
                                             decisions.batch_invariant, pace));
    Replacer replacer(parts.get(), decisions.bucket, model, options, refused, pace);
    Kernels kernels;
    for (size_t i = 0, end = 0; i < decisions.kernels.size(); i = end) {
      end = EndOfWhole(decisions.kernels, i);
      const auto next = std::lower_bound(positions.begin(), positions.end(), i);
      Kernels others;
      // A plan with a refused kernel pushes nothing: its neighbour would have to change with it.
      KernelDecision& kernel = decisions.kernels[i];
      kernel.schedule.pushes = kernel.schedule.pushed_columns = 0;
      if ((next != positions.end() && *next < end) ||
          CollectiveKernels::PushedSchedule(kernel.family, kernel.own).has_value()) {
        SINTER_ASSIGN_OR_RETURN(others, replacer.Replace(kernel, i > 0));
      } else {
        others.assign(decisions.kernels.begin() + static_cast<ptrdiff_t>(i),
                      decisions.kernels.begin() + static_cast<ptrdiff_t>(end));
      }
      std::move(others.begin(), others.end(), std::back_inserter(kernels));
    }
    decisions.kernels = std::move(kernels);
    return std::move(decisions);
  });
}

}  // namespace sinter
