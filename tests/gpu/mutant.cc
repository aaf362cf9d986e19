#include "tests/gpu/mutant.h"

#include "tests/gpu/device_chain.h"
#include "tests/gpu/late_kernel.h"
#include "tests/gpu/mutant_plans.h"
#include "tests/gpu/plan_build.h"

namespace sinter::gpu_testing {
namespace {

constexpr int kRuns = 25;
constexpr double kCompileSeconds = 60, kRunSeconds = 10;

class MutantRun {
 public:
  MutantRun(const Ports& ports, const Mutation& mutation, Watchdog* watchdog)
      : ports_(ports), mutation_(mutation), rows_(MutantRows(mutation)), watchdog_(watchdog) {}

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
    SINTER_ASSIGN_OR_RETURN(Chain chain, MakeMutantChain(mutation_));
    chain_ = std::make_shared<const Chain>(std::move(chain));
    SINTER_ASSIGN_OR_RETURN(plans_, MutantPlans(*chain_, ports_.model, mutation_));
    SINTER_ASSIGN_OR_RETURN(data_, DeviceChain::Make(ports_, *chain_, rows_, 5));
    SINTER_ASSIGN_OR_RETURN(const int rows, RowsOfMutantChain(*chain_, mutation_));
    input_ = data_->input_buffer(rows);
    const std::string& bytes = data_->inputs()[static_cast<size_t>(rows)];
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
      broken_ = true;  // what does not run shows nothing
      return Annotate(built.status(), "the mutant does not compile");
    }
    watchdog_->Begin(absl::StrCat("running '", mutation_.name, "'"), kRunSeconds);
    ++ran_;
    SINTER_ASSIGN_OR_RETURN(const BoundRun run, data_->Bind(*built));
    const int64_t few = rows_ > 77 ? 77 : rows_ - 7;
    for (int i = 0; i < kRuns; ++i) {
      const int64_t m = i % 5 == 4 ? few : rows_;
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
