#include "tests/gpu/mutant_plans.h"

#include "tests/gpu/plan_build.h"
#include "tests/support/read_chain.h"
#include "tests/support/sequences.h"

namespace sinter::gpu_testing {
namespace {

constexpr size_t kSchedules = 2;

bool OfNorms(const Mutation& mutation) {
  return mutation.needs == Needs::kNorm || mutation.needs == Needs::kNormTiles;
}

bool OfGrouped(const Mutation& mutation) {
  return mutation.needs == Needs::kGrouped || mutation.needs == Needs::kSwapped;
}

// More tiles than blocks, with a ring that goes round many times. In the second product a ring
// holds several tiles, so that the slots of one may be overwritten while it is stored: of swapped
// ones, whose steps of K are two at least, two of them.
absl::StatusOr<Chain> MakeGroupedChain(Needs needs) {
  SINTER_ASSIGN_OR_RETURN(
      Problem problem,
      ParseProblem(absl::StrCat("grouped_gated_ffn m=M experts=7 top=2 k=512 l=256 act=silu n=",
                                needs == Needs::kSwapped ? 128 : 64)));
  SINTER_ASSIGN_OR_RETURN(const auto form,
                          NormalFormOf(std::make_shared<const Chain>(std::move(problem.chain))));
  return *form->chain;
}

absl::StatusOr<std::vector<Plan>> GroupedPlans(const Chain& chain, const DeviceModel& model,
                                               const Mutation& mutation) {
  constexpr int kBlocks = 4;
  const std::vector<GroupedSchedule> schedules =
      mutation.needs == Needs::kSwapped
          ? std::vector<GroupedSchedule>{{128, 256, 4, kBlocks, 2}, {64, 256, 5, kBlocks, 2}}
          : std::vector<GroupedSchedule>{{128, 128, 4, kBlocks}, {64, 256, 4, kBlocks}};
  std::vector<Plan> plans;
  for (const GroupedSchedule& schedule : schedules) {
    SINTER_ASSIGN_OR_RETURN(Plan plan, GroupedPlanOf(chain, MutantRows(mutation), model, schedule));
    plans.push_back(std::move(plan));
  }
  return plans;
}

// More keys than fill whole tiles.
absl::StatusOr<Chain> MakeAttentionChain() {
  SINTER_ASSIGN_OR_RETURN(Problem problem,
                          ParseProblem("attention rows=M heads=4 queries=1 keys=1050 dim=128"));
  SINTER_ASSIGN_OR_RETURN(const auto form,
                          NormalFormOf(std::make_shared<const Chain>(std::move(problem.chain))));
  return *form->chain;
}

absl::StatusOr<std::vector<Plan>> AttentionPlans(const Chain& chain, const DeviceModel& model,
                                                 const Mutation& mutation) {
  std::vector<Plan> plans;
  for (const int splits : {2, 8}) {
    AttentionSchedule s;
    s.splits = splits, s.grid = splits;
    SINTER_ASSIGN_OR_RETURN(Plan plan, AttentionPlanOf(chain, MutantRows(mutation), model, s));
    plans.push_back(std::move(plan));
  }
  return plans;
}

// K ends in the middle of a step, rows of tiles in the middle of one. The second schedule divides
// each step among slices.
absl::StatusOr<Chain> MakeMmaChain() {
  SINTER_ASSIGN_OR_RETURN(Problem problem, ParseProblem("matmul m=M n=264 k=1032 act=relu"));
  SINTER_ASSIGN_OR_RETURN(const auto form,
                          NormalFormOf(std::make_shared<const Chain>(std::move(problem.chain))));
  return *form->chain;
}

absl::StatusOr<std::vector<Plan>> MmaPlans(const Chain& chain, const DeviceModel& model,
                                           const Mutation& mutation) {
  std::vector<Plan> plans;
  for (const MmaSchedule& schedule :
       {MmaSchedule{64, 64, 32, 32, 1, 3}, MmaSchedule{32, 32, 16, 16, 2, 4}}) {
    SINTER_ASSIGN_OR_RETURN(Plan plan, MmaPlanOf(chain, MutantRows(mutation), model, schedule));
    plans.push_back(std::move(plan));
  }
  return plans;
}

// A product of normalised rows.
Chain MakeNormedChain() {
  return ReadChain("x: bf16[M,1032]; w: const bf16[2304,1032]; out bf16(rmsnorm(x, 1e-5) @ w.T)");
}

FfnSpec SpecFor(Dataflow dataflow) {
  FfnSpec spec{.act = Activation::kRelu};
  if (dataflow == Dataflow::kResidentWeights) {
    spec.n = 512;
    spec.k = spec.l = 128;
    return spec;
  }
  spec.n = dataflow == Dataflow::kClusterExchange ? 512 : 2048;
  spec.k = 512;
  spec.l = dataflow == Dataflow::kClusterExchange ? 256 : 512;
  return spec;
}

bool IsEarly(const ProductSequence& problem, const Schedule& s) {
  const int64_t columns = int64_t{s.stages} * s.block_k;  // of K that the ring holds
  if (s.dataflow == Dataflow::kClusterSlab) return columns > problem[0].k + s.cut;
  return columns * s.first.split_k >= problem[0].k &&
         SizesOf(problem, s).first_tiles <= s.grid / s.first.split_k;
}

bool Fits(const ProductSequence& problem, const Schedule& s, Needs needs) {
  switch (needs) {
    case Needs::kAny:
      return true;
    case Needs::kSplit:
      return s.first.split_k > 1 || (problem.size() == 2 && s.second.split_k > 1);
    case Needs::kBothSplit:
      return s.first.split_k > 1 && s.second.split_k > 1;
    case Needs::kManyTiles:
      return s.first.split_k > 1 && SizesOf(problem, s).first_tiles > s.grid / s.first.split_k;
    case Needs::kPairs:
      return s.share != Share::kNone;
    case Needs::kSlab:
      return s.dataflow == Dataflow::kClusterSlab;
    case Needs::kEarlyC:
      return IsEarly(problem, s);
    case Needs::kChunks:
      return int64_t{s.first.block_n} * s.cluster < problem[0].n;
    case Needs::kShortRing:
      return s.stages < 4;
    case Needs::kLongRing:
      return s.stages >= 4;
    case Needs::kWindow:
    case Needs::kNorm:
    case Needs::kGrouped:
    case Needs::kSwapped:
    case Needs::kSplitKeys:
    case Needs::kMma:
      return true;
    case Needs::kNormTiles:
      return SizesOf(problem, s).first_tiles > s.grid;
    case Needs::kHalfWindow:
      return problem.front().rows.source != Source::kWindow || s.share == Share::kRows;
  }
  return false;
}

// What the space does not hold: rings cut short, slabs cut down, grids cut down so that groups take
// several tiles.
std::vector<Schedule> Varied(const ProductSequence& problem, const DeviceModel& model,
                             const Schedule& s, Needs needs) {
  std::vector<Schedule> list = {s};
  const bool slab = needs == Needs::kSlab ||
                    (needs == Needs::kEarlyC && s.dataflow == Dataflow::kClusterExchange);
  if (needs == Needs::kShortRing || needs == Needs::kPairs)
    list.back().stages = std::min(s.stages, 3);
  if (slab) {
    list.back().dataflow = Dataflow::kClusterSlab;
    list.back().cut = static_cast<int>(problem[0].n) / 2 / s.block_k * s.block_k;
  }
  if (needs == Needs::kManyTiles && s.dataflow == Dataflow::kGridExchange) {
    const int groups = static_cast<int>(SizesOf(problem, s).first_tiles) / 3;
    list.back().grid = std::max(1, groups * s.first.split_k / s.cluster) * s.cluster;
  }
  if (needs == Needs::kNormTiles) {
    const int groups = static_cast<int>(SizesOf(problem, s).first_tiles) / 3 / s.cluster;
    list.back().grid = std::max(1, groups) * s.cluster;
  }
  if (s.dataflow == Dataflow::kResidentWeights) list.back().grid = s.cluster;  // takes all tiles
  if (!CheckSchedule(problem, list.back(), model).ok()) list.clear();
  return list;
}

std::vector<Schedule> SchedulesFor(const ProductSequence& problem, const DeviceModel& model,
                                   Dataflow dataflow, Needs needs) {
  std::vector<Schedule> fitting;
  for (const Schedule& s : LegalSchedules(problem, model, dataflow)) {
    for (const Schedule& v : Varied(problem, model, s, needs)) {
      if (Fits(problem, v, needs)) fitting.push_back(v);
    }
  }
  return Spread(fitting, kSchedules);
}

}  // namespace

DeviceModel MutantModel(const DeviceModel& own, const Mutation& mutation) {
  if (mutation.needs != Needs::kMma) return own;
  DeviceModel model = *BuiltinModel("a100");
  model.arch = "compute_80";
  return model;
}

// Where weights stay, lanes take several row tiles. Norms are computed where there are few rows.
int64_t MutantRows(const Mutation& mutation) {
  if (mutation.dataflow == Dataflow::kResidentWeights) return 1024;
  if (OfNorms(mutation)) return 48;
  if (OfGrouped(mutation)) return 600;
  if (mutation.needs == Needs::kSplitKeys) return 32;
  return 128;
}

absl::StatusOr<Chain> MakeMutantChain(const Mutation& mutation) {
  if (mutation.needs == Needs::kWindow || mutation.needs == Needs::kHalfWindow) {
    SINTER_ASSIGN_OR_RETURN(
        Problem problem,
        ParseProblem("conv_chain b=M ic=128 h=4 w=4 oc1=256 oc2=64 k1=3 k2=1 act=relu"));
    return std::move(problem.chain);
  }
  if (OfNorms(mutation)) return MakeNormedChain();
  if (OfGrouped(mutation)) return MakeGroupedChain(mutation.needs);
  if (mutation.needs == Needs::kSplitKeys) return MakeAttentionChain();
  if (mutation.needs == Needs::kMma) return MakeMmaChain();
  return MakeFfnChain(SpecFor(mutation.dataflow));
}

absl::StatusOr<int> RowsOfMutantChain(const Chain& chain, const Mutation& mutation) {
  if (OfGrouped(mutation)) {
    for (int i = 0; i < chain.num_inputs(); ++i) {
      if (chain.InputName(chain.InputOrder()[static_cast<size_t>(i)]) == "x") return i;
    }
    return absl::NotFoundError("no input 'x'");
  }
  if (mutation.needs == Needs::kSplitKeys) return 0;  // q
  SINTER_ASSIGN_OR_RETURN(const MatchedSequence view,
                          MatchProducts(chain, MutantRows(mutation), true));
  return view.rows;
}

absl::StatusOr<std::vector<Plan>> MutantPlans(const Chain& chain, const DeviceModel& model,
                                              const Mutation& mutation) {
  if (OfGrouped(mutation)) return GroupedPlans(chain, model, mutation);
  if (mutation.needs == Needs::kSplitKeys) return AttentionPlans(chain, model, mutation);
  if (mutation.needs == Needs::kMma) return MmaPlans(chain, model, mutation);
  const int64_t rows = MutantRows(mutation);
  SINTER_ASSIGN_OR_RETURN(const MatchedSequence matched, MatchProducts(chain, rows, true));
  const ProductSequence& problem = matched.sequence;
  std::vector<Plan> plans;
  if (mutation.dataflow != Dataflow::kProduct) {
    for (const Schedule& s : SchedulesFor(problem, model, mutation.dataflow, mutation.needs)) {
      SINTER_ASSIGN_OR_RETURN(Plan plan, FusedPlanOf(chain, rows, s));
      plans.push_back(std::move(plan));
    }
  } else if (problem.size() == 1) {
    for (const Schedule& s : SchedulesFor(problem, model, Dataflow::kProduct, mutation.needs)) {
      SINTER_ASSIGN_OR_RETURN(Plan plan, UnfusedPlanOf(chain, rows, s, s));
      plans.push_back(std::move(plan));
    }
  } else {
    const auto first = SchedulesFor(FirstOf(problem), model, Dataflow::kProduct, mutation.needs);
    const auto second = SchedulesFor(SecondOf(problem), model, Dataflow::kProduct, mutation.needs);
    for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
      SINTER_ASSIGN_OR_RETURN(Plan plan, UnfusedPlanOf(chain, rows, first[i], second[i]));
      plans.push_back(std::move(plan));
    }
  }
  if (plans.empty()) return absl::NotFoundError("no schedule shows this mutation");
  return plans;
}

}  // namespace sinter::gpu_testing
