#include <algorithm>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "src/attention/attention.h"
#include "src/base/arch.h"
#include "src/base/refusal.h"
#include "src/base/status.h"
#include "src/fusion/fusion.h"
#include "src/fusion/plan_assembly.h"
#include "src/fusion/plan_choice.h"
#include "src/fusion/product_runs.h"
#include "src/fusion/rankings.h"
#include "src/fusion/stitch/evaluators.h"
#include "src/fusion/stitch/explorer.h"
#include "src/fusion/stitch/stitch_graph.h"
#include "src/plan/family.h"
#include "src/standin/stand_in.h"
#include "src/stitch/search/stitch_search.h"

namespace sinter {
namespace {

constexpr size_t kMostTunedSteps = 16;  // partitions with more steps have one plan each
constexpr int kTunedDepth = 3;          // factor of a stitched kernel's schedules for tuning

// The kernels of one way to fuse the chain.
struct Partition {
  bool fused = false;
  ChosenKernels chosen;
  std::vector<int> run_of;  // by kernel: a run of products; -1

  bool SameKernels(const Partition& o) const {
    return fused == o.fused &&
           std::equal(chosen.kernels.begin(), chosen.kernels.end(), o.chosen.kernels.begin(),
                      o.chosen.kernels.end(), [](const CostedKernel& a, const CostedKernel& b) {
                        return a.vertices == b.vertices && a.packed == b.packed;
                      });
  }
};

// The choices that batch-invariant plans of all buckets share.
struct Settlement {
  Partition partition;
  std::vector<ValueId> ends;           // of the runs that the partition counts
  std::vector<RankedStitch> stitched;  // by kernel; empty for a run of products
};

class Planner {
 public:
  Planner(const Chain& chain, int64_t bucket, const DeviceModel& model,
          const FusionOptions& options, Pace* pace, Absorbed absorbed = {})
      : chain_(chain),
        bucket_(bucket),
        model_(model),
        options_(options),
        pace_(pace),
        absorbed_(absorbed),
        products_(FindProductRuns(chain, bucket, pace, absorbed)),
        costs_(bucket, model, StitchSearch()),
        latency_(&costs_),
        rankings_(model, ProductSearch()),
        pushed_(chain, bucket, model, ProductSearch()) {}

  // Whether the chain is one sequence of products.
  bool IsSequence() const { return products_.all; }
  // Whether a product computes the norm of its rows.
  bool TakesNorms() const {
    return std::any_of(products_.runs.begin(), products_.runs.end(), [](const GraphRun& run) {
      return !run.IsOwn() && HasNorm(run.matched.sequence);
    });
  }

  // Whether a product unpacks weights of four bits.
  bool TakesFourBits() const { return products_.four_bits; }

  // Whether a product quantises its own result by groups of columns.
  bool TakesGroups() const {
    return std::any_of(products_.runs.begin(), products_.runs.end(), HasGroups);
  }

  // Chooses among the plans of this planner and of `others`, whose products absorb other ops.
  absl::StatusOr<FusionResult> Run(const std::vector<std::unique_ptr<Planner>>& others) {
    SINTER_ASSIGN_OR_RETURN(std::vector<Plan> plans, MakePlans());
    std::vector<const Planner*> counted;
    for (const std::unique_ptr<Planner>& other : others) {
      absl::StatusOr<std::vector<Plan>> more = other->MakePlans();
      if (!more.ok()) continue;  // such as no legal schedule
      for (Plan& plan : *more) {
        // A chain has one unfused plan. The one of products which leave their quantiser to another
        // kernel is dropped; the one of products with norms counts as fused.
        if (!plan.fused && !other->absorbed_.groups) continue;
        plan.fused = true;
        plans.push_back(std::move(plan));
      }
      counted.push_back(other.get());
    }
    FusionResult result = Choose(std::move(plans));
    for (const Planner* other : counted) other->Count(&result);
    return result;
  }

  // The partition and the stitched kernels of the chosen plan.
  absl::StatusOr<Settlement> Settled() {
    SINTER_ASSIGN_OR_RETURN(std::vector<Plan> plans, MakePlans());
    const FusionResult result = Choose(std::move(plans));
    const Origin& origin = origins_[known_.at(result.chosen.planned_digest)];
    Settlement settled{std::move(partitions_[origin.partition]), RunEnds(), {}};
    for (const PlanStep& step : StepsOf(settled.partition, 0, origin.choice)) {
      settled.stitched.push_back(step.stitch);
    }
    return settled;
  }

  // Plans with the partition of another bucket. Stitched kernels keep all but their grids.
  absl::StatusOr<FusionResult> RunLike(Settlement settled) {
    if (settled.ends != RunEnds()) {
      return Refusal(
          chain_, products_,
          Invalid("other products have kernels than at ", RowOrderBucketOf(chain_), " rows"));
    }
    for (size_t i = 0; i < settled.stitched.size(); ++i) {
      const CostedKernel& kernel = settled.partition.chosen.kernels[i];
      if (kernel.body == nullptr) continue;
      Ask(pace_);
      SINTER_ASSIGN_OR_RETURN(
          settled.stitched[i],
          AtBucket(kernel.body->body, settled.stitched[i].schedule, bucket_, model_));
    }
    given_ = std::move(settled.stitched);
    partitions_ = {std::move(settled.partition)};
    std::vector<Plan> plans;
    SINTER_RETURN_IF_ERROR(RankRuns());
    AddPlans(0, &plans);
    return Choose(std::move(plans));
  }

 private:
  std::vector<ValueId> RunEnds() const {
    std::vector<ValueId> ends;
    for (const GraphRun& run : products_.runs) ends.push_back(run.end);
    return ends;
  }

  // The partition of a plan, and the index of its schedules in the rankings.
  struct Origin {
    size_t partition = 0;
    size_t choice = 0;
  };

  absl::StatusOr<std::vector<Plan>> MakePlans() {
    absl::Status made = RankRuns();
    if (made.ok()) made = IsSequence() ? AddLoneRun() : AddPartitions();
    if (!made.ok()) return Refusal(chain_, products_, made);
    // If plans are equal, the first one keeps its name. Unfused ones come first, so that one plan
    // is always named unfused.
    std::stable_partition(partitions_.begin(), partitions_.end(),
                          [](const Partition& partition) { return !partition.fused; });
    std::vector<Plan> plans;
    for (size_t i = 0; i < partitions_.size(); ++i) AddPlans(i, &plans);
    return plans;
  }

  // The chain is one run of products, so nothing is left to explore.
  absl::Status AddLoneRun() {
    for (const bool fused : {false, true}) {
      partitions_.push_back({fused, {{{NodeSet(1), nullptr, 0, false}}, 0, {}}, {0}});
    }
    return absl::OkStatus();
  }

  absl::Status AddPartitions() {
    absl::Status why = AddFused(true);
    if (partitions_.empty()) why = AddFused(false);
    const absl::Status unfused = AddUnfused();
    if (!partitions_.empty()) return absl::OkStatus();
    return unfused.ok() ? why : unfused;
  }

  SearchOptions AnySearch() const {
    SearchOptions search;
    search.pace = pace_;
    search.top_k = options_.top_k;
    search.allow_cooperative = options_.allow_cooperative;
    search.batch_invariant = options_.batch_invariant;
    if (options_.stand_ins) search.only = &StandInSchedules();
    return search;
  }
  SearchOptions ProductSearch() const {
    SearchOptions search = AnySearch();
    if (options_.for_tuning) search.offered = Offered::kTuning;
    return search;
  }
  SearchOptions StitchSearch() const {
    SearchOptions search = AnySearch();
    if (options_.for_tuning) search.top_k *= kTunedDepth;
    search.tight_registers = search.kinds_first = options_.for_tuning;
    return search;
  }

  absl::StatusOr<StitchGraph> MakeGraph(bool contract) const {
    Ask(pace_);
    StitchGraphOptions options;
    options.pace = pace_;
    options.contract = contract;
    return StitchGraph::Make(chain_, bucket_, products_.runs, options);
  }

  absl::StatusOr<Partition> Settle(const StitchGraph& graph, const PatternSet& patterns,
                                   DeltaEvaluator* evaluator, bool join, bool pack) {
    NodeSet runs(graph.size());
    for (const GraphRun& run : products_.runs) runs.Add(graph.VertexOf(run.end));
    Partition partition;
    SINTER_ASSIGN_OR_RETURN(partition.chosen,
                            ChooseKernels(graph, patterns, runs, evaluator, &latency_, join, pack));
    for (const CostedKernel& kernel : partition.chosen.kernels) {
      int run = -1;
      for (size_t i = 0; kernel.body == nullptr && i < products_.runs.size(); ++i) {
        if (kernel.vertices.Contains(graph.VertexOf(products_.runs[i].end))) {
          run = static_cast<int>(i);
        }
      }
      partition.run_of.push_back(run);
    }
    return partition;
  }

  // The explorer's plans, as far as kernels exist for their patterns.
  absl::Status AddFused(bool contract) {
    SINTER_ASSIGN_OR_RETURN(const StitchGraph graph, MakeGraph(contract));
    costs_.RenewBudget();
    const bool pack = !options_.batch_invariant && !options_.stand_ins;
    ExploreOptions explore;
    explore.delta.allow_cooperative = options_.allow_cooperative;
    explore.delta.pace = pace_;
    DeltaEvaluator evaluator(graph, model_, explore.delta);
    absl::Status why;
    for (const PatternSet& patterns : ExploreFusion(graph, model_, explore)) {
      // The plan of unjoined parts is the substitute if a joined kernel spills registers.
      for (const bool join : {true, false}) {
        absl::StatusOr<Partition> partition = Settle(graph, patterns, &evaluator, join, pack);
        if (!partition.ok()) {
          why = partition.status();
          break;
        }
        partition->fused = true;
        const bool known =
            std::any_of(partitions_.begin(), partitions_.end(),
                        [&](const Partition& p) { return p.SameKernels(*partition); });
        if (!known) partitions_.push_back(*std::move(partition));
      }
    }
    // The latency-evaluator's choice first; on a tie the one with the higher f.
    std::stable_sort(
        partitions_.begin(), partitions_.end(),
        [](const Partition& a, const Partition& b) { return a.chosen.us < b.chosen.us; });
    return why;
  }

  absl::Status AddUnfused() {
    SINTER_ASSIGN_OR_RETURN(const StitchGraph graph, MakeGraph(false));
    costs_.RenewBudget();  // an unfused plan is always made, whatever the others used up
    DeltaOptions delta;
    delta.pace = pace_;
    DeltaEvaluator evaluator(graph, model_, delta);
    SINTER_ASSIGN_OR_RETURN(Partition partition,
                            Settle(graph, PatternSet(graph), &evaluator, true, false));
    partitions_.push_back(std::move(partition));
    return absl::OkStatus();
  }

  // For a stitched kernel that is not given.
  const std::vector<RankedStitch>& RankingOf(const CostedKernel& kernel) const {
    return costs_.RankingOf(kernel.body->body, kernel.packed);
  }

  absl::Status RankRuns() {
    for (const GraphRun& run : products_.runs) {
      own_.emplace_back();
      if (run.IsOwn()) {
        const KernelFamily& family = *run.own.family;
        if (options_.stand_ins) {
          return OpRefused(run.end, ": the library has no ", family.name(), " kernels of its own");
        }
        Ask(pace_);
        SINTER_ASSIGN_OR_RETURN(own_.back(),
                                family.RankOwn(run.own, bucket_, model_, AnySearch(), false));
        if (own_.back().empty()) {
          return WithOp(Internal("op ", run.end, ": ", family.name(), " ranked no kernel"),
                        run.end);
        }
        ranked_.push_back(nullptr);
        continue;
      }
      SINTER_RETURN_IF_ERROR(CheckStrides(run.matched, chain_, bucket_));
      if (options_.stand_ins) SINTER_RETURN_IF_ERROR(CheckStandIn(run.matched.sequence));
      const ValueId rows = run.matched.ValueOf(run.matched.rows);
      const bool behind = chain_.op(rows).kind != OpKind::kInput;
      SINTER_ASSIGN_OR_RETURN(const RankedRun* ranked, rankings_.Of(run, behind));
      ranked_.push_back(ranked);
    }
    return absl::OkStatus();
  }

  // Null for a stitched kernel (-1) and a family's own run.
  const RankedRun* RankedOf(int run) const {
    return run < 0 ? nullptr : ranked_[static_cast<size_t>(run)];
  }

  std::vector<PlanStep> StepsOf(const Partition& partition, size_t cut, size_t choice) const {
    std::vector<PlanStep> steps(partition.run_of.size());
    for (size_t i = 0; i < steps.size(); ++i) {
      const CostedKernel& kernel = partition.chosen.kernels[i];
      if (partition.run_of[i] >= 0) {
        const auto run = static_cast<size_t>(partition.run_of[i]);
        steps[i].run = &products_.runs[run];
        if (const RankedRun* ranked = ranked_[run]) {
          steps[i].segments = ranked->CutAt(partition.fused, cut);
          steps[i].ranked = ranked->SchedulesAt(steps[i].segments, choice);
        } else {
          steps[i].own = own_[run][std::min(own_[run].size() - 1, choice)];
        }
        continue;
      }
      steps[i].body = kernel.body;
      if (!given_.empty()) {
        steps[i].stitch = given_[i];
        continue;
      }
      const std::vector<RankedStitch>& ranked = RankingOf(kernel);
      steps[i].stitch = ranked[std::min(ranked.size() - 1, choice)];
    }
    return steps;
  }

  // The most cuts of any of its runs; and the most schedules of any kernel for a given cut.
  size_t CutsOf(const Partition& partition) const {
    size_t cuts = 1;
    if (!partition.fused) return cuts;
    for (const int run : partition.run_of) {
      const RankedRun* ranked = RankedOf(run);
      if (ranked != nullptr) cuts = std::max(cuts, ranked->cuts.size());
    }
    return cuts;
  }
  size_t DepthOf(const Partition& partition, size_t cut) const {
    size_t depth = 1;
    for (size_t i = 0; i < partition.run_of.size(); ++i) {
      const int run = partition.run_of[i];
      if (const RankedRun* ranked = RankedOf(run)) {
        depth = std::max(depth, ranked->Depth(ranked->CutAt(partition.fused, cut)));
      } else if (run >= 0) {
        depth = std::max(depth, own_[static_cast<size_t>(run)].size());
      } else if (given_.empty()) {
        depth = std::max(depth, RankingOf(partition.chosen.kernels[i]).size());
      }
    }
    return depth;
  }

  void AddPlans(size_t index, std::vector<Plan>* plans) {
    const Partition& partition = partitions_[index];
    const bool tuned = partition.run_of.size() <= kMostTunedSteps;
    const size_t cuts = tuned ? CutsOf(partition) : 1;
    for (size_t cut = 0; cut < cuts; ++cut) {
      // A sequence cut into single products is the unfused plan.
      if (IsSequence() && partition.fused && ranked_.front()->IsApart(cut)) continue;
      const size_t depth = tuned ? DepthOf(partition, cut) : 1;
      for (size_t choice = 0; choice < depth; ++choice) AddPlan(index, cut, choice, false, plans);
    }
    if (chain_.ranks() > 1 && !options_.batch_invariant) AddPlan(index, 0, 0, true, plans);
  }

  // `pushes`: only where results are pushed to other ranks.
  void AddPlan(size_t index, size_t cut, size_t choice, bool pushes, std::vector<Plan>* plans) {
    const Partition& partition = partitions_[index];
    Ask(pace_);
    std::vector<PlanStep> steps = StepsOf(partition, cut, choice);
    if (pushes && !pushed_.Put(&steps)) return;
    Ask(pace_);
    Plan plan = AssemblePlan(chain_, bucket_, steps);
    if (options_.stand_ins) MarkStandIns(&plan);
    CountBehindCodes(&plan);
    Ask(pace_);
    plan.fused = partition.fused || pushes;
    plan.absorbed = absorbed_;
    plan.note = IsSequence() && !TakesNorms()
                    ? NoteOfSequence(steps.front().segments, ranked_.front()->rankings)
                    : NoteOfGraph(steps, partition.chosen.refusals);
    plan.planned_digest = plan.PlanDigest();
    const auto [at, fresh] = known_.try_emplace(plan.planned_digest, plans->size());
    if (fresh) {
      plans->push_back(std::move(plan));
      origins_.push_back({index, choice});
    } else if (partition.fused) {
      (*plans)[at->second].note = std::move(plan.note);  // it says what was refused
    }
  }

  // A stitched kernel after a product of FP8/INT8 operands takes longer than it does by itself.
  void CountBehindCodes(Plan* plan) const {
    for (size_t i = 1; i < plan->kernels.size(); ++i) {
      const KernelSpec& before = plan->kernels[i - 1].spec;
      PlannedKernel& kernel = plan->kernels[i];
      if (StitchOf(kernel.spec) == nullptr || !HasProducts(before)) continue;
      if (!IsCode(ProductOf(before).sequence.element())) continue;
      kernel.prediction.fixed_us += model_.behind_codes_us;
      kernel.prediction.total_us += model_.behind_codes_us;
    }
  }

  FusionResult Choose(std::vector<Plan> plans) const {
    FusionResult result = ChoosePlan(std::move(plans), model_);
    Count(&result);
    return result;
  }
  void Count(FusionResult* result) const {
    result->considered += rankings_.considered() + static_cast<uint64_t>(costs_.bodies());
    result->legal += rankings_.legal() + costs_.legal_bodies();
  }

  const Chain& chain_;
  const int64_t bucket_;
  const DeviceModel& model_;
  const FusionOptions options_;
  Pace* const pace_;
  const Absorbed absorbed_;
  const ProductRuns products_;
  SearchCosts costs_;
  LatencyEvaluator latency_;
  RunRankings rankings_;
  PushedSums pushed_;
  std::vector<const RankedRun*> ranked_;     // by run; null for a family's own
  std::vector<std::vector<OwnChoice>> own_;  // by run; empty for products
  std::vector<Partition> partitions_;
  std::vector<RankedStitch> given_;  // by kernel of the only partition; empty: use the rankings
  std::map<Digest, size_t> known_;   // plans, by digest
  std::vector<Origin> origins_;      // of plans, in the order of creation
};

// Depends only on chain and model: other options must not change the order of a row.
absl::StatusOr<Settlement> SettleRowOrder(const Chain& chain, const DeviceModel& model, Pace* pace,
                                          Absorbed absorbed) {
  FusionOptions options;
  options.batch_invariant = true;
  options.allow_cooperative = false;
  return Planner(chain, RowOrderBucketOf(chain), model, options, pace, absorbed).Settled();
}

// Whether stitched kernels could take all attention too, thread by thread.
bool MayStitch(const Chain& chain, const std::vector<FoundAttention>& all) {
  return std::all_of(all.begin(), all.end(), [&](const FoundAttention& found) {
    return std::none_of(found.values.begin(), found.values.end(),
                        [&](ValueId value) { return ClassOf(chain, value) == OpClass::kProduct; });
  });
}

// Whether stitched kernels may be as fast as kernels of attention. From 65 scores of a batch on
// they took 1.6 to 2.5 times their prediction at six drawn sizes (docs/lab/attention.md).
bool MayWinStitched(const std::vector<FoundAttention>& all) {
  constexpr int64_t kFewScores = 64;
  return std::all_of(all.begin(), all.end(), [](const FoundAttention& found) {
    return found.problem.rows * found.problem.keys <= kFewScores;
  });
}

absl::StatusOr<FusionResult> MakePlansOf(const Chain& chain, int64_t bucket,
                                         const DeviceModel& model, const FusionOptions& options,
                                         Pace* pace, Absorbed absorbed, bool stitches) {
  Planner planner(chain, bucket, model, options, pace, absorbed);
  if (!options.batch_invariant && !options.stand_ins && !absorbed.mma) {
    std::vector<std::unique_ptr<Planner>> others;
    const auto add = [&](bool norms, bool groups, bool attention, bool four_bits = false) {
      others.push_back(
          std::make_unique<Planner>(chain, bucket, model, options, pace,
                                    Absorbed{norms, groups, false, attention, four_bits}));
    };
    if (MayTakeNorms(chain, bucket)) {
      add(true, true, absorbed.attention);
      if (!others.back()->TakesNorms()) others.pop_back();
    }
    if (planner.TakesGroups()) add(false, false, absorbed.attention);
    if (absorbed.attention && stitches) add(false, true, false);
    if (MayHaveFourBits(chain)) {
      add(false, true, absorbed.attention, true);
      if (!others.back()->TakesFourBits()) others.pop_back();
    }
    return planner.Run(others);
  }
  if (!options.batch_invariant || planner.IsSequence()) return planner.Run({});
  SINTER_ASSIGN_OR_RETURN(Settlement settled, SettleRowOrder(chain, model, pace, absorbed));
  return planner.RunLike(std::move(settled));
}

}  // namespace

absl::StatusOr<FusionResult> MakePlans(const Chain& chain, int64_t bucket, const DeviceModel& model,
                                       const FusionOptions& options, Pace* pace) {
  SINTER_ASSIGN_OR_RETURN(const ArchFeatures features, FeaturesOf(model.arch));
  SINTER_RETURN_IF_ERROR(CheckChip(chain, model, features));
  Absorbed absorbed;
  absorbed.mma = !features.products;
  absorbed.stand_ins = options.stand_ins;
  const bool own = features.products && !options.stand_ins;
  const std::vector<FoundAttention> found =
      own ? FindAttention(chain) : std::vector<FoundAttention>();
  const bool stitches = MayStitch(chain, found);
  if (!found.empty()) {
    absorbed.attention = true;
    absl::StatusOr<FusionResult> result = MakePlansOf(chain, bucket, model, options, pace, absorbed,
                                                      stitches && MayWinStitched(found));
    // Without a legal schedule of attention, as on a chip with little shared memory.
    if (!stitches || !absl::IsFailedPrecondition(result.status())) return result;
    absorbed.attention = false;
  }
  return MakePlansOf(chain, bucket, model, options, pace, absorbed, stitches);
}

}  // namespace sinter
