#include "tests/gpu/stitch_runs.h"

#include "src/engine/bound_plan.h"
#include "src/stitch/search/stitch_search.h"
#include "tests/support/stitch_bytes.h"

namespace sinter::gpu_testing {
namespace {

constexpr uint8_t kPoison = 0xff;

// Canonical order, as BindPlan takes them, of buffers in the caller's.
std::vector<DevicePtr> InCanonicalOrder(const Chain& chain, const std::vector<DevicePtr>& caller) {
  std::vector<DevicePtr> canonical = caller;
  const std::vector<int32_t>& order = chain.InputOrder();
  for (size_t c = 0; c < order.size(); ++c) canonical[c] = caller[static_cast<size_t>(order[c])];
  return canonical;
}

// What a schedule is an example of.
std::set<std::string> KindsOf(const Chain& chain, const StitchSchedule& s) {
  std::set<std::string> kinds;
  if (s.owner < 0) {
    kinds = {absl::StrCat("flat ", s.chunks > 1)};
  } else {
    kinds.insert(s.cluster > 1            ? absl::StrCat("cluster ", s.cluster > 4)
                 : s.unit_threads == 1    ? "thread"
                 : s.unit_threads < 32    ? "lanes"
                 : s.unit_threads == 32   ? "warp"
                 : s.UnitsPerBlock() == 1 ? "block"
                                          : "warps");
    kinds.insert(s.keep_values ? "values" : s.keep_inputs ? "inputs" : "nothing kept");
    if (s.keep_alike) kinds.insert("alike");
    if (s.hold_bytes > 0) kinds.insert("hold");
    if (s.join_all) kinds.insert("join all");
  }
  const absl::StatusOr<StitchProgram> program = MakeStitchProgram(chain, s.owner, s.handed);
  if (program.ok() && program->phases.size() > 1) kinds.insert("phases");
  if (s.split > 1) kinds.insert(absl::StrCat("split ", s.owner >= 0));
  if (s.vector == 1) kinds.insert("narrow");
  return kinds;
}

absl::Status Differs(int run, size_t output) {
  return absl::DataLossError(absl::StrCat("run ", run, " differs in output ", output));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StitchRuns>> StitchRuns::Make(const Ports& ports,
                                                             const bench::GraphCase& c,
                                                             uint64_t seed, int64_t full_elements) {
  std::unique_ptr<StitchRuns> runs(new StitchRuns(ports, c));
  SINTER_ASSIGN_OR_RETURN(runs->data_,
                          bench::GraphData::Make(ports.measurer.get(), c.chain, c.m, seed, 1));
  SINTER_ASSIGN_OR_RETURN(
      runs->expected_, bench::GraphExpected::Make(c, runs->data_->inputs(), seed, full_elements));
  return runs;
}

absl::StatusOr<std::unique_ptr<StitchRuns>> StitchRuns::MakeExact(
    const Ports& ports, const bench::GraphCase& c, const std::vector<std::string>& inputs) {
  std::unique_ptr<StitchRuns> runs(new StitchRuns(ports, c));
  SINTER_ASSIGN_OR_RETURN(runs->data_,
                          bench::GraphData::Make(ports.measurer.get(), c.chain, c.m, inputs, 1));
  SINTER_ASSIGN_OR_RETURN(runs->expected_, bench::GraphExpected::MakeExact(c, inputs));
  return runs;
}

bool StitchRuns::HasAliases() const {
  for (const ChainOutput& out : case_.chain.outputs()) {
    if (out.alias_input >= 0) return true;
  }
  return false;
}

absl::StatusOr<std::vector<std::string>> StitchRuns::RunOnce(const GraphLaunch& launch,
                                                             bool in_place) {
  SINTER_RETURN_IF_ERROR(data_->Reset(HasAliases()));
  SINTER_RETURN_IF_ERROR(ports_.measurer->RunAndWait(launch));
  return data_->Download(in_place);
}

absl::Status StitchRuns::CheckBound(const Binder& bind, int repeats) {
  SINTER_ASSIGN_OR_RETURN(const GraphLaunch launch, bind(false));
  SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> first, RunOnce(launch, false));
  SINTER_RETURN_IF_ERROR(expected_.Judge(case_, first).status());
  for (int i = 1; i < repeats; ++i) {
    SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> again, RunOnce(launch, false));
    for (size_t o = 0; o < first.size(); ++o) {
      if (again[o] != first[o]) return Differs(i, o);
    }
  }
  if (!HasAliases()) return absl::OkStatus();
  SINTER_ASSIGN_OR_RETURN(const GraphLaunch shared, bind(true));
  SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> outputs, RunOnce(shared, true));
  const absl::Status status = expected_.Judge(case_, outputs).status();
  return status.ok() ? status : Annotate(status, "in place");
}

StitchRuns::Binder StitchRuns::BinderOf(const std::shared_ptr<const PreparedPlan>& plan) {
  return [this, plan](bool in_place) -> absl::StatusOr<GraphLaunch> {
    SINTER_ASSIGN_OR_RETURN(
        const bench::Runnable run,
        bench::RunnableOf(ports_.measurer.get(), plan, case_.m, {data_->CallerSet(0, in_place)}));
    return GraphLaunch([run](StreamHandle stream) { return run.enqueue(stream, 0, false); });
  };
}

StitchRuns::Binder StitchRuns::BinderOf(const LoadedPlanPtr& plan) {
  return [this, plan](bool in_place) -> absl::StatusOr<GraphLaunch> {
    SINTER_ASSIGN_OR_RETURN(const bench::Runnable run,
                            RunnableOfGraph(ports_, case_, plan, {data_->CallerSet(0, in_place)}));
    return GraphLaunch([run](StreamHandle stream) { return run.enqueue(stream, 0, false); });
  };
}

absl::Status StitchRuns::Check(const std::shared_ptr<const PreparedPlan>& plan, int repeats) {
  return CheckBound(BinderOf(plan), repeats);
}

absl::Status StitchRuns::Check(const LoadedPlanPtr& plan, int repeats) {
  return CheckBound(BinderOf(plan), repeats);
}

absl::Status StitchRuns::Trust(const std::shared_ptr<const PreparedPlan>& plan) {
  if (!expected_.NeedsOutputs()) return absl::OkStatus();
  SINTER_ASSIGN_OR_RETURN(const GraphLaunch launch, BinderOf(plan)(false));
  SINTER_ASSIGN_OR_RETURN(const std::vector<std::string> outputs, RunOnce(launch, false));
  return expected_.SetFromOutputs(case_, outputs);
}

absl::StatusOr<bench::Runnable> RunnableOfGraph(const Ports& ports, const bench::GraphCase& c,
                                                const LoadedPlanPtr& plan,
                                                const std::vector<std::vector<DevicePtr>>& sets) {
  auto arena = std::make_shared<DeviceArena>(ports.measurer.get());
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer workspace,
                          arena->Allocate(plan->plan.workspace_bytes));
  SINTER_RETURN_IF_ERROR(ports.measurer->Fill(workspace, kPoison));
  std::vector<std::shared_ptr<const BoundPlan>> bound;
  for (const std::vector<DevicePtr>& set : sets) {
    SINTER_ASSIGN_OR_RETURN(std::shared_ptr<const BoundPlan> one,
                            BindPlan(plan, InCanonicalOrder(c.chain, set), workspace.ptr));
    bound.push_back(std::move(one));
  }
  SINTER_RETURN_IF_ERROR(ports.measurer->RunAndWait([&](StreamHandle stream) {
    return ClearHeader(plan->plan, *ports.loader, workspace.ptr, stream);
  }));
  const int64_t m = c.m;
  return bench::Runnable{sets.size(), [arena, bound, m](StreamHandle stream, size_t set, bool pdl) {
                           return EnqueuePlan(*bound[set], stream, m, pdl);
                         }};
}

absl::StatusOr<Plan> OneStitchPlan(const Chain& chain, int64_t bucket,
                                   const StitchSchedule& schedule,
                                   const std::vector<StitchPart>& parts) {
  auto spec = std::make_shared<StitchSpec>();
  spec->body = chain;
  spec->schedule = schedule;
  for (int i = 0; i < chain.num_inputs() + chain.num_outputs(); ++i) {
    spec->operands.push_back({i, 0});
  }
  spec->scratch_offset = kWorkspaceFlagBytes;
  spec->parts = parts;
  uint64_t scratch = 0;
  if (parts.empty()) {
    SINTER_ASSIGN_OR_RETURN(scratch, StitchScratchBytes(chain, schedule));
  }
  Plan plan{.fused = true, .bucket = bucket, .workspace_bytes = kWorkspaceFlagBytes + scratch};
  PlannedKernel kernel;
  kernel.spec.family = &StitchFamily();
  kernel.spec.body = MakeBody(std::move(*spec));
  plan.kernels.push_back(std::move(kernel));
  return plan;
}

absl::StatusOr<std::vector<StitchSchedule>> VariedSchedules(const Chain& chain, int64_t bucket,
                                                            const DeviceModel& model,
                                                            size_t count) {
  SINTER_ASSIGN_OR_RETURN(
      const std::vector<RankedStitch> ranked,
      SearchStitch(chain, bucket, model, {.top_k = std::numeric_limits<int>::max()}));
  std::map<std::string, size_t> best_of_kind;
  for (size_t i = 0; i < ranked.size(); ++i) {
    for (const std::string& kind : KindsOf(chain, ranked[i].schedule)) {
      best_of_kind.emplace(kind, i);
    }
  }
  std::set<size_t> picked = {0};
  for (const auto& [kind, index] : best_of_kind) {
    if (picked.size() < count) picked.insert(index);
  }
  for (size_t i = 1; i <= count && picked.size() < count; ++i) {
    picked.insert((ranked.size() - 1) * i / count);
  }
  std::vector<StitchSchedule> schedules;
  for (size_t index : picked) schedules.push_back(ranked[index].schedule);
  return schedules;
}

}  // namespace sinter::gpu_testing
