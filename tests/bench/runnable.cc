#include "tests/bench/runnable.h"

#include "src/engine/bound_plan.h"

namespace sinter::bench {
namespace {

constexpr int kHostBatches = 15;
constexpr int kHostCalls = 200, kHostLaunches = 400;  // well within the driver's queue of launches
constexpr uint8_t kPoisoned = 0xff;

double ProcessorUs() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

// Allocated, poisoned; null for 0 bytes.
absl::StatusOr<DevicePtr> MakeWorkspace(Measurer* measurer, DeviceArena* arena, uint64_t bytes) {
  if (bytes == 0) return DevicePtr{0};
  SINTER_ASSIGN_OR_RETURN(const DeviceBuffer buffer, arena->Allocate(bytes));
  SINTER_RETURN_IF_ERROR(measurer->Fill(buffer, kPoisoned));
  return buffer.ptr;
}

}  // namespace

absl::StatusOr<Runnable> RunnableOf(Measurer* measurer, std::shared_ptr<const PreparedPlan> plan,
                                    int64_t m, const GraphData& data) {
  std::vector<std::vector<DevicePtr>> sets;
  for (size_t i = 0; i < data.sets(); ++i) sets.push_back(data.CallerSet(i));
  return RunnableOf(measurer, std::move(plan), m, sets);
}

absl::StatusOr<Runnable> RunnableOf(Measurer* measurer, std::shared_ptr<const PreparedPlan> plan,
                                    int64_t m, const std::vector<std::vector<DevicePtr>>& sets) {
  auto arena = std::make_shared<DeviceArena>(measurer);
  const uint64_t bytes = plan->WorkspaceBytes();
  SINTER_ASSIGN_OR_RETURN(const DevicePtr workspace, MakeWorkspace(measurer, arena.get(), bytes));
  SINTER_RETURN_IF_ERROR(measurer->RunAndWait(
      [&](StreamHandle stream) { return plan->InitWorkspace(workspace, bytes, stream); }));
  std::vector<std::shared_ptr<const PlanBinding>> bound;
  for (const std::vector<DevicePtr>& set : sets) {
    SINTER_ASSIGN_OR_RETURN(std::shared_ptr<const PlanBinding> one, plan->Bind(set, workspace));
    bound.push_back(std::move(one));
  }
  return Runnable{sets.size(), [arena, plan, m, bound](StreamHandle stream, size_t set, bool pdl) {
                    return plan->Launch(*bound[set], stream, m, pdl);
                  }};
}

absl::StatusOr<Runnable> RunnableOf(Measurer* measurer, Loader* loader, LoadedPlanPtr plan,
                                    int64_t m, const GraphData& data, int only) {
  if (only >= 0 && m > kLargestBucket) {  // a plan launches more rows in pieces, a kernel cannot
    return absl::InvalidArgumentError(
        absl::StrCat("a kernel alone takes m=", kLargestBucket, " at most, not m=", m));
  }
  auto arena = std::make_shared<DeviceArena>(measurer);
  SINTER_ASSIGN_OR_RETURN(const DevicePtr workspace,
                          MakeWorkspace(measurer, arena.get(), plan->plan.workspace_bytes));
  std::vector<std::shared_ptr<const BoundPlan>> bound;
  for (size_t i = 0; i < data.sets(); ++i) {
    SINTER_ASSIGN_OR_RETURN(auto one, BindPlan(plan, data.CanonicalSet(i), workspace));
    bound.push_back(std::move(one));
  }
  SINTER_RETURN_IF_ERROR(measurer->RunAndWait([&](StreamHandle stream) -> absl::Status {
    SINTER_RETURN_IF_ERROR(ClearHeader(plan->plan, *loader, workspace, stream));
    return only < 0 ? absl::OkStatus() : EnqueuePlan(*bound[0], stream, m, false);
  }));
  const size_t sets = bound.size();
  return Runnable{sets, [arena, m, bound, only](StreamHandle stream, size_t set, bool pdl) {
                    const BoundPlan& b = *bound[set];
                    if (only < 0) return EnqueuePlan(b, stream, m, pdl);
                    return b.plan->kernels[only]->loaded->Launch(*b.kernels[only], stream, m, 0,
                                                                 pdl);
                  }};
}

int CallsOf(const Runnable& runnable, const TimingOptions& options) {
  const size_t sets = options.cold ? runnable.sets : 1;
  const size_t least = std::max(static_cast<size_t>(options.calls), sets);
  return static_cast<int>((least + sets - 1) / sets * sets);
}

absl::StatusOr<double> TimeInGraph(Measurer* measurer, const Runnable& runnable,
                                   const TimingOptions& options) {
  const size_t sets = options.cold ? runnable.sets : 1;
  return measurer->TimeGraph({[&](StreamHandle stream, int call) {
                               return runnable.enqueue(stream, static_cast<size_t>(call) % sets,
                                                       options.pdl);
                             }},
                             CallsOf(runnable, options), options.replays);
}

absl::StatusOr<double> HostUs(Measurer* measurer, const Runnable& runnable, int kernels) {
  const int calls = std::clamp(kHostLaunches / std::max(1, kernels), 1, kHostCalls);
  std::vector<double> batches;
  for (int batch = 0; batch < kHostBatches; ++batch) {
    double us = 0;
    SINTER_RETURN_IF_ERROR(measurer->RunAndWait([&](StreamHandle stream) -> absl::Status {
      const double start = ProcessorUs();
      for (int i = 0; i < calls; ++i) {
        SINTER_RETURN_IF_ERROR(
            runnable.enqueue(stream, static_cast<size_t>(i) % runnable.sets, false));
      }
      us = (ProcessorUs() - start) / calls;
      return absl::OkStatus();
    }));
    batches.push_back(us);
  }
  return Median(std::move(batches));
}

absl::StatusOr<std::string> RunOnce(Measurer* measurer, const Runnable& runnable, GraphData* data) {
  SINTER_RETURN_IF_ERROR(data->Reset(false));
  SINTER_RETURN_IF_ERROR(measurer->RunAndWait(
      [&](StreamHandle stream) { return runnable.enqueue(stream, 0, false); }));
  return data->DownloadOutput();
}

}  // namespace sinter::bench
