#include "src/fusion/stitch/stitch_plans.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/base/format.h"
#include "src/base/status.h"
#include "src/fusion/stitch/explorer.h"
#include "src/fusion/stitch/plan_assembly.h"
#include "src/fusion/stitch/product_runs.h"
#include "src/fusion/stitch/run_rankings.h"
#include "src/fusion/stitch/search_costs.h"
#include "src/plan/plan_text.h"
#include "src/plan/report/loss_reason.h"
#include "src/stitch/search/stitch_at_bucket.h"

namespace sinter {
namespace {

constexpr size_t kRunnersUp = 10;
constexpr size_t kMostTunedKernels = 16;    // plans of more kernels come with one schedule each
constexpr int kTunedDepth = 3;              // times as many schedules of a kernel for tuning
constexpr size_t kMostAbsorbers = 6;        // told in a note
constexpr size_t kMostRefusedProducts = 3;  // told in an error

// Kernels of one way to fuse the chain, and how it came about.
struct Partition {
  bool fused = false;
  ChosenKernels chosen;
  std::vector<int> run_of;  // by kernel: a run of products; -1
};

// What plans of all buckets have in common where they are batch-invariant.
struct Settlement {
  Partition partition;
  std::vector<RankedStitch> stitched;  // by kernel; nothing of a run of products
};

class Planner {
 public:
  Planner(const Chain& chain, int64_t bucket, const DeviceModel& model,
          const FusionOptions& options, Pace* pace)
      : chain_(chain),
        bucket_(bucket),
        model_(model),
        options_(options),
        search_(SearchOptionsOf(options, pace)),
        products_(FindProductRuns(chain, bucket, pace)),
        costs_(bucket, model, search_),
        latency_(&costs_),
        rankings_(model, search_) {
    for (const GraphRun& run : products_.runs) groups_.push_back(run.group);
  }

  absl::StatusOr<FusionResult> Run() {
    SINTER_ASSIGN_OR_RETURN(std::vector<Plan> plans, MakePlans());
    return Choose(std::move(plans));
  }

  // The partition and the stitched kernels of the plan that is chosen.
  absl::StatusOr<Settlement> Settled() {
    SINTER_ASSIGN_OR_RETURN(std::vector<Plan> plans, MakePlans());
    const FusionResult result = Choose(std::move(plans));
    const Origin& origin = origins_[known_.at(result.chosen.PlanDigest())];
    Settlement settled{std::move(partitions_[origin.partition]), {}};
    SINTER_ASSIGN_OR_RETURN(const std::vector<PlanStep> steps,
                            StepsOf(settled.partition, origin.choice));
    for (const PlanStep& step : steps) settled.stitched.push_back(step.stitch);
    return settled;
  }

  // Plans of another bucket's partition. Its stitched kernels keep all but their grids.
  absl::StatusOr<FusionResult> RunLike(Settlement settled) {
    for (size_t i = 0; i < settled.stitched.size(); ++i) {
      const CostedKernel& kernel = settled.partition.chosen.kernels[i];
      if (kernel.body == nullptr) continue;
      Ask(search_.pace);
      SINTER_ASSIGN_OR_RETURN(
          settled.stitched[i],
          AtBucket(kernel.body->body, settled.stitched[i].schedule, bucket_, model_));
    }
    given_ = std::move(settled.stitched);
    partitions_ = {std::move(settled.partition)};
    std::vector<Plan> plans;
    SINTER_RETURN_IF_ERROR(AddPlans(0, &plans));
    return Choose(std::move(plans));
  }

 private:
  // Which partition a plan is of, and which schedules of its rankings it takes.
  struct Origin {
    size_t partition = 0;
    int choice = 0;
  };

  absl::StatusOr<std::vector<Plan>> MakePlans() {
    absl::Status why = AddFused(true, &partitions_);
    if (partitions_.empty()) why = AddFused(false, &partitions_);
    const absl::Status unfused = AddUnfused(&partitions_);
    if (partitions_.empty()) return WithProducts(unfused.ok() ? why : unfused);
    // Of equal plans the first keeps its name: there is always one that is named unfused.
    std::stable_partition(partitions_.begin(), partitions_.end(),
                          [](const Partition& partition) { return !partition.fused; });
    std::vector<Plan> plans;
    for (size_t i = 0; i < partitions_.size(); ++i) SINTER_RETURN_IF_ERROR(AddPlans(i, &plans));
    return plans;
  }

  static SearchOptions SearchOptionsOf(const FusionOptions& options, Pace* pace) {
    SearchOptions search;
    search.pace = pace;
    search.top_k = options.top_k * (options.for_tuning ? kTunedDepth : 1);
    search.allow_cooperative = options.allow_cooperative;
    search.batch_invariant = options.batch_invariant;
    search.tight_registers = search.kinds_first = options.for_tuning;
    return search;
  }

  absl::StatusOr<StitchGraph> MakeGraph(bool contract) const {
    Ask(search_.pace);
    StitchGraphOptions options;
    options.pace = search_.pace;
    options.contract = contract;
    return StitchGraph::Make(chain_, bucket_, groups_, options);
  }

  NodeSet VerticesOfRuns(const StitchGraph& graph) const {
    NodeSet vertices(graph.size());
    for (const OpaqueGroup& group : groups_) vertices.Add(graph.VertexOf(group.end));
    return vertices;
  }

  absl::StatusOr<Partition> Settle(const StitchGraph& graph, const PatternSet& patterns,
                                   DeltaEvaluator* evaluator, bool join, bool pack) {
    Partition partition;
    SINTER_ASSIGN_OR_RETURN(partition.chosen, ChooseKernels(graph, patterns, VerticesOfRuns(graph),
                                                            evaluator, &latency_, join, pack));
    for (const CostedKernel& kernel : partition.chosen.kernels) {
      int run = -1;
      for (size_t i = 0; kernel.body == nullptr && i < groups_.size(); ++i) {
        if (kernel.vertices.Contains(graph.VertexOf(groups_[i].end))) run = static_cast<int>(i);
      }
      partition.run_of.push_back(run);
    }
    return partition;
  }

  // Why the products that are not in any run are not.
  absl::Status WithProducts(const absl::Status& why) const {
    std::string text(why.message());
    size_t told = 0;
    for (const auto& [op, reason] : products_.refused) {
      if (told++ == kMostRefusedProducts) break;
      absl::StrAppend(&text, "; op ", op, " (", NameOf(chain_.op(op)),
                      ") is no product of the gemm ", "family: ", reason);
    }
    return absl::Status(why.code(), text);
  }

  // The explorer's plans, as far as kernels take them.
  absl::Status AddFused(bool contract, std::vector<Partition>* partitions) {
    SINTER_ASSIGN_OR_RETURN(const StitchGraph graph, MakeGraph(contract));
    costs_.RenewBudget();
    ExploreOptions explore;
    explore.delta.allow_cooperative = options_.allow_cooperative;
    explore.delta.pace = search_.pace;
    DeltaEvaluator evaluator(graph, model_, explore.delta);
    absl::Status why;
    for (const PatternSet& patterns : ExploreFusion(graph, model_, explore)) {
      // Unjoined parts stand in when a joined kernel turns out to spill.
      for (const bool join : {true, false}) {
        absl::StatusOr<Partition> partition =
            Settle(graph, patterns, &evaluator, join, !options_.batch_invariant);
        if (!partition.ok()) {
          why = partition.status();
          break;
        }
        partition->fused = true;
        partitions->push_back(*std::move(partition));
      }
    }
    // The latency-evaluator's pick first; of equals the one with the higher f.
    std::stable_sort(
        partitions->begin(), partitions->end(),
        [](const Partition& a, const Partition& b) { return a.chosen.us < b.chosen.us; });
    return why;
  }

  absl::Status AddUnfused(std::vector<Partition>* partitions) {
    SINTER_ASSIGN_OR_RETURN(const StitchGraph graph, MakeGraph(false));
    costs_.RenewBudget();  // there is always an unfused plan, whatever the others took
    DeltaOptions delta;
    delta.pace = search_.pace;
    DeltaEvaluator evaluator(graph, model_, delta);
    SINTER_ASSIGN_OR_RETURN(Partition partition,
                            Settle(graph, PatternSet(graph), &evaluator, true, false));
    partitions->push_back(std::move(partition));
    return absl::OkStatus();
  }

  const RankedStitch& RankedAt(const CostedKernel& kernel, int choice) const {
    const std::vector<RankedStitch>& ranked = costs_.RankingOf(kernel.body->body, kernel.packed);
    return ranked[std::min(ranked.size() - 1, static_cast<size_t>(choice))];
  }

  absl::StatusOr<std::vector<PlanStep>> StepsOf(const Partition& partition, int choice) {
    std::vector<PlanStep> steps;
    for (size_t i = 0; i < partition.run_of.size(); ++i) {
      const CostedKernel& kernel = partition.chosen.kernels[i];
      PlanStep step;
      if (kernel.body == nullptr) {
        const GraphRun& run = products_.runs[static_cast<size_t>(partition.run_of[i])];
        SINTER_ASSIGN_OR_RETURN(step, rankings_.StepOf(run, partition.fused, choice));
      } else {
        step.body = kernel.body;
        step.stitch = given_.empty() ? RankedAt(kernel, choice) : given_[i];
      }
      steps.push_back(std::move(step));
    }
    return steps;
  }

  // The i-th plan takes the i-th schedule of every kernel's ranking, as in plans of products.
  absl::Status AddPlans(size_t index, std::vector<Plan>* plans) {
    const Partition& partition = partitions_[index];
    const bool tuned = partition.run_of.size() <= kMostTunedKernels;
    for (int choice = 0; choice < (tuned ? search_.top_k : 1); ++choice) {
      Ask(search_.pace);
      SINTER_ASSIGN_OR_RETURN(const std::vector<PlanStep> steps, StepsOf(partition, choice));
      Ask(search_.pace);
      SINTER_ASSIGN_OR_RETURN(Plan plan, AssemblePlan(chain_, bucket_, steps));
      Ask(search_.pace);
      plan.name = partition.fused ? "fused" : "unfused";
      plan.note = NoteOf(partition, steps);
      const auto [at, fresh] = known_.try_emplace(plan.PlanDigest(), plans->size());
      if (fresh) {
        plans->push_back(std::move(plan));
        origins_.push_back({index, choice});
      } else if (partition.fused) {
        (*plans)[at->second].note = std::move(plan.note);  // says what was refused
      }
    }
    return absl::OkStatus();
  }

  // Who took what, and what was wanted in one kernel but is not.
  std::string NoteOf(const Partition& partition, const std::vector<PlanStep>& steps) const {
    std::vector<std::string> parts;
    int ops = 0, kernels = 0;
    for (const CostedKernel& kernel : partition.chosen.kernels) {
      if (kernel.body == nullptr) continue;
      ++kernels;
      for (const Op& op : kernel.body->body.ops()) ops += op.kind != OpKind::kInput;
    }
    if (kernels > 0) parts.push_back(absl::StrCat(ops, " ops stitched in ", Count(kernels)));
    size_t absorbers = 0;
    for (const PlanStep& step : steps) {
      if (step.run == nullptr) continue;
      if (++absorbers <= kMostAbsorbers) parts.push_back(AbsorbedBy(*step.run));
    }
    if (absorbers > kMostAbsorbers) {
      parts.push_back(absl::StrCat("and ", absorbers - kMostAbsorbers, " more products"));
    }
    for (const std::string& refusal : partition.chosen.refusals) {
      parts.push_back(absl::StrCat("not fused: ", refusal));
    }
    return absl::StrJoin(parts, "; ");
  }

  static std::string Count(int kernels) {
    return absl::StrCat(kernels, kernels == 1 ? " kernel" : " kernels");
  }

  FusionResult Choose(std::vector<Plan> plans) const {
    std::stable_sort(plans.begin(), plans.end(), [](const Plan& a, const Plan& b) {
      const double x = a.PredictedUs(), y = b.PredictedUs();
      return x != y ? x < y : (a.name == "unfused") > (b.name == "unfused");
    });
    FusionResult result;
    result.considered = static_cast<uint64_t>(costs_.bodies());
    result.legal = plans.size();
    result.chosen = std::move(plans.front());
    result.alternatives.assign(std::make_move_iterator(plans.begin() + 1),
                               std::make_move_iterator(plans.end()));
    AddRunnersUp(&result);
    return result;
  }

  // The best of the other kind first, then the nearest.
  static void AddRunnersUp(FusionResult* result) {
    std::vector<const Plan*> order;
    for (const Plan& plan : result->alternatives) {
      if (plan.name == result->chosen.name) continue;
      order.push_back(&plan);
      break;
    }
    for (const Plan& plan : result->alternatives) {
      if (order.empty() || order.front() != &plan) order.push_back(&plan);
    }
    if (order.size() > kRunnersUp) order.resize(kRunnersUp);
    for (const Plan* plan : order) {
      result->chosen.runners_up.push_back(
          {NameInList(*plan), plan->PredictedUs(), WhyGraphNotChosen(*plan, result->chosen)});
    }
  }

  const Chain& chain_;
  const int64_t bucket_;
  const DeviceModel& model_;
  const FusionOptions options_;
  const SearchOptions search_;
  const ProductRuns products_;
  std::vector<OpaqueGroup> groups_;
  SearchCosts costs_;
  LatencyEvaluator latency_;
  RunRankings rankings_;
  std::vector<Partition> partitions_;
  std::vector<RankedStitch> given_;  // by kernel of the only partition; empty: what rankings say
  std::map<Digest, size_t> known_;   // plans, by what is executed
  std::vector<Origin> origins_;      // of plans, in the order in which they were made
};

// A function of chain and model: what else is asked for must not change the order of a row.
absl::StatusOr<Settlement> SettleRowOrder(const Chain& chain, const DeviceModel& model,
                                          Pace* pace) {
  FusionOptions options;
  options.batch_invariant = true;
  options.allow_cooperative = false;
  return Planner(chain, kRowOrderBucket, model, options, pace).Settled();
}

absl::StatusOr<FusionResult> PlanInRowOrder(const Chain& chain, int64_t bucket,
                                            const DeviceModel& model, const FusionOptions& options,
                                            Pace* pace) {
  SINTER_ASSIGN_OR_RETURN(Settlement settled, SettleRowOrder(chain, model, pace));
  return Planner(chain, bucket, model, options, pace).RunLike(std::move(settled));
}

}  // namespace

absl::StatusOr<FusionResult> PlanStitch(const Chain& chain, int64_t bucket,
                                        const DeviceModel& model, const FusionOptions& options,
                                        Pace* pace) {
  absl::StatusOr<FusionResult> result = options.batch_invariant
                                            ? PlanInRowOrder(chain, bucket, model, options, pace)
                                            : Planner(chain, bucket, model, options, pace).Run();
  if (result.ok()) return result;
  return MakeError(ErrorCode::kNoLegalPlan,
                   absl::StrCat("no kernel family takes this chain: ", result.status().message()));
}

}  // namespace sinter
