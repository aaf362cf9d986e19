#include "tests/gpu/mutant.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/chain/composites.h"
#include "src/fusion/ffn_plans.h"
#include "tests/gpu/device_chain.h"
#include "tests/gpu/late_kernel.h"
#include "tests/gpu/plan_build.h"

namespace sinter::gpu_testing {
namespace {

constexpr int kRuns = 25;
constexpr size_t kSchedules = 2;
constexpr double kCompileSeconds = 60, kRunSeconds = 10;

// A task list has two M tiles at least.
int64_t RowsFor(Dataflow dataflow) { return dataflow == Dataflow::kTaskList ? 256 : 128; }

FfnSpec SpecFor(Dataflow dataflow) {
  FfnSpec spec;
  spec.n = dataflow == Dataflow::kClusterExchange ? 512 : 2048;
  spec.k = 512;
  spec.l = dataflow == Dataflow::kClusterExchange ? 256 : 512;
  spec.act = Activation::kRelu;
  return spec;
}

bool Fits(const FfnProblem& problem, const Schedule& s, Needs needs) {
  switch (needs) {
    case Needs::kAny:
      return true;
    case Needs::kSplit:
      return s.first.split_k > 1 || (problem.products == 2 && s.second.split_k > 1);
    case Needs::kBothSplit:
      return s.first.split_k > 1 && s.second.split_k > 1;
    case Needs::kManyTiles:
      return s.first.split_k > 1 && SizesOf(problem, s).first_tiles > s.grid / s.first.split_k;
    case Needs::kPairs:
      return TilesOf(s.share) * TilesOf(s.second_share) > 1;
    case Needs::kSlab:
      return s.slab_columns > 0;
    case Needs::kShortRing:
      return s.stages < 4;
    case Needs::kLongRing:
      return s.stages >= 4;
  }
  return false;
}

// What the space does not hold: rings cut short, slabs cut down, grids cut down so that groups take
// several tiles.
std::vector<Schedule> Varied(const FfnProblem& problem, const DeviceModel& model, const Schedule& s,
                             Needs needs) {
  std::vector<Schedule> list = {s};
  if (needs == Needs::kShortRing || needs == Needs::kSlab)
    list.back().stages = std::min(s.stages, 3);
  if (needs == Needs::kSlab)
    list.back().slab_columns = static_cast<int>(problem.n) / 2 / s.block_k * s.block_k;
  if (needs == Needs::kManyTiles && s.dataflow == Dataflow::kGridExchange) {
    const int groups = static_cast<int>(SizesOf(problem, s).first_tiles) / 3;
    list.back().grid = std::max(1, groups * s.first.split_k / s.cluster) * s.cluster;
  }
  if (!CheckSchedule(problem, list.back(), model).ok()) list.clear();
  return list;
}

std::vector<Schedule> SchedulesFor(const FfnProblem& problem, const DeviceModel& model,
                                   Dataflow dataflow, Needs needs) {
  std::vector<Schedule> fitting;
  for (const Schedule& s : LegalSchedules(problem, model, dataflow)) {
    for (const Schedule& v : Varied(problem, model, s, needs)) {
      if (Fits(problem, v, needs)) fitting.push_back(v);
    }
  }
  return Spread(fitting, kSchedules);
}

absl::StatusOr<std::vector<Plan>> PlansFor(const Chain& chain, const DeviceModel& model,
                                           const Mutation& mutation) {
  SINTER_ASSIGN_OR_RETURN(const FfnView view, ViewAsFfn(chain));
  const int64_t rows = RowsFor(mutation.dataflow);
  const FfnProblem problem = ProblemOf(view, rows);
  std::vector<Plan> plans;
  if (mutation.dataflow != Dataflow::kProduct) {
    for (const Schedule& s : SchedulesFor(problem, model, mutation.dataflow, mutation.needs)) {
      SINTER_ASSIGN_OR_RETURN(Plan plan, FusedPlanOf(chain, rows, s));
      plans.push_back(std::move(plan));
    }
  } else {
    const auto first =
        SchedulesFor(FirstProductOf(problem), model, Dataflow::kProduct, mutation.needs);
    const auto second =
        SchedulesFor(SecondProductOf(problem), model, Dataflow::kProduct, mutation.needs);
    for (size_t i = 0; i < std::min(first.size(), second.size()); ++i) {
      SINTER_ASSIGN_OR_RETURN(Plan plan, UnfusedPlanOf(chain, rows, first[i], second[i]));
      plans.push_back(std::move(plan));
    }
  }
  if (plans.empty()) return absl::NotFoundError("no schedule shows this mutation");
  return plans;
}

class MutantRun {
 public:
  MutantRun(const Ports& ports, const Mutation& mutation, Watchdog* watchdog)
      : ports_(ports),
        mutation_(mutation),
        rows_(RowsFor(mutation.dataflow)),
        watchdog_(watchdog) {}

  Outcome Run() {
    const absl::Status prepared = Prepare();
    if (!prepared.ok()) return {Fate::kBroken, std::string(prepared.message())};
    for (const Plan& plan : plans_) {
      for (const bool jitter : {false, true}) {
        const absl::Status status = RunPlan(plan, jitter);
        if (broken_) return {Fate::kBroken, std::string(status.message())};
        if (!status.ok()) return {Fate::kKilled, std::string(status.message())};
      }
    }
    if (ran_ == 0) return {Fate::kBroken, "every schedule was refused"};
    return {Fate::kSurvived, absl::StrCat(ran_, " kernels ran")};
  }

 private:
  absl::Status Prepare() {
    SINTER_ASSIGN_OR_RETURN(Chain chain, MakeFfnChain(SpecFor(mutation_.dataflow)));
    chain_ = std::make_shared<const Chain>(std::move(chain));
    SINTER_ASSIGN_OR_RETURN(plans_, PlansFor(*chain_, ports_.model, mutation_));
    SINTER_ASSIGN_OR_RETURN(data_, DeviceChain::Make(ports_, *chain_, rows_, 5));
    SINTER_ASSIGN_OR_RETURN(const FfnView view, ViewAsFfn(*chain_));
    input_ = data_->input_buffer(view.a);
    const std::string& bytes = data_->inputs()[static_cast<size_t>(view.a)];
    SINTER_ASSIGN_OR_RETURN(kept_, data_->MakeWorkspace(bytes.size()));
    SINTER_RETURN_IF_ERROR(ports_.measurer->Upload(kept_, bytes.data(), bytes.size()));
    SINTER_ASSIGN_OR_RETURN(
        late_, LateKernel::Make(ports_.compiler.get(), ports_.loader.get(), kept_, input_));
    return data_->Reference().status();
  }

  absl::StatusOr<LoadedPlanPtr> Build(const Plan& plan, bool jitter, bool trap, bool mutate) {
    BuildOptions options;
    options.codegen.trap_spins = trap;
    options.codegen.jitter = jitter;
    options.edit = [&](CompileRequest* request) {
      if (mutate) broken_ = broken_ || !Apply(mutation_, request).ok();
    };
    return BuildPlan(ports_, chain_, plan, options);
  }

  // With spin traps where the compiler takes them: between products in flight it may not. Then a
  // hang is for the watchdog.
  absl::StatusOr<LoadedPlanPtr> BuildMutant(const Plan& plan, bool jitter) {
    watchdog_->Begin(absl::StrCat("compiling '", mutation_.name, "'"), kCompileSeconds);
    absl::StatusOr<LoadedPlanPtr> built = Build(plan, jitter, true, true);
    if (!built.ok() && !broken_) built = Build(plan, jitter, false, true);
    return built;
  }

  // An error is a sign of the mutation, unless broken_.
  absl::Status RunPlan(const Plan& plan, bool jitter) {
    absl::StatusOr<LoadedPlanPtr> built = BuildMutant(plan, jitter);
    if (broken_) return absl::NotFoundError("the mutation does not apply");
    if (!built.ok()) {
      // The test build itself may be refused (registers): that says nothing about the mutation.
      if (!Build(plan, jitter, false, false).ok()) return absl::OkStatus();
      return Annotate(built.status(), "does not compile");
    }
    watchdog_->Begin(absl::StrCat("running '", mutation_.name, "'"), kRunSeconds);
    ++ran_;
    SINTER_ASSIGN_OR_RETURN(const BoundRun run, data_->Bind(*built));
    for (int i = 0; i < kRuns; ++i) {
      const int64_t m = i % 5 == 4 ? 77 : rows_;
      SINTER_ASSIGN_OR_RETURN(const std::string output, data_->Run(run, m));
      SINTER_RETURN_IF_ERROR(Annotate(data_->Check(output, m), absl::StrCat("run ", i)));
    }
    SINTER_RETURN_IF_ERROR(RunBackToBack(run));
    return RunBehindLatePredecessor(run);
  }

  absl::Status RunBackToBack(const BoundRun& run) {
    for (int i = 0; i < 4; ++i) {
      SINTER_RETURN_IF_ERROR(data_->Poison(run));
      SINTER_RETURN_IF_ERROR(ports_.measurer->RunAndWait([&](StreamHandle s) -> absl::Status {
        for (int j = 0; j < 20; ++j) SINTER_RETURN_IF_ERROR(run.launch(s, rows_, true));
        return absl::OkStatus();
      }));
      SINTER_ASSIGN_OR_RETURN(const std::string output, data_->DownloadOutput());
      SINTER_RETURN_IF_ERROR(Annotate(data_->Check(output, rows_), "back to back"));
    }
    return absl::OkStatus();
  }

  absl::Status RunBehindLatePredecessor(const BoundRun& run) {
    for (int i = 0; i < 4; ++i) {
      SINTER_RETURN_IF_ERROR(data_->Poison(run));
      SINTER_RETURN_IF_ERROR(ports_.measurer->Fill(input_, 0xff));
      SINTER_RETURN_IF_ERROR(ports_.measurer->RunAndWait([&](StreamHandle s) -> absl::Status {
        SINTER_RETURN_IF_ERROR(late_->Enqueue(s));
        return run.launch(s, rows_, true);
      }));
      SINTER_ASSIGN_OR_RETURN(const std::string output, data_->DownloadOutput());
      SINTER_RETURN_IF_ERROR(Annotate(data_->Check(output, rows_), "behind a late predecessor"));
    }
    return absl::OkStatus();
  }

  const Ports& ports_;
  const Mutation& mutation_;
  const int64_t rows_;
  Watchdog* const watchdog_;
  std::shared_ptr<const Chain> chain_;
  std::vector<Plan> plans_;
  std::unique_ptr<DeviceChain> data_;
  DeviceBuffer input_, kept_;
  std::shared_ptr<const LateKernel> late_;
  bool broken_ = false;
  int ran_ = 0;
};

}  // namespace

Outcome RunMutant(const Ports& ports, const Mutation& mutation, Watchdog* watchdog) {
  return MutantRun(ports, mutation, watchdog).Run();
}

}  // namespace sinter::gpu_testing
