#include "runtime/measure/probes.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "src/base/status.h"

namespace sinter {
namespace {

constexpr int kSource = ProbeLaunch::kSource, kTarget = ProbeLaunch::kTarget;
constexpr int64_t kSmBytes = 24 << 20;          // of HBM, an SM: fifty times what L2 holds
constexpr int64_t kOwnBytes = 6 * kProbeChunk;  // of L2, a block
constexpr int64_t kAlikeBytes = 1 << 20;        // of L2, for all blocks
constexpr int kManyCalls = 200;                 // of kernels that take a microsecond
constexpr double kStreamShares[] = {0.9, 0.8, 0.7, 0.5, 0.3};  // of the SMs

class Prober {
 public:
  Prober(const DeviceModel& model, const ArchFeatures& chip, ProbeRunner* runner)
      : sms_(model.sm_count), l2_bytes_(model.l2_bytes), wgmma_(chip.products), runner_(runner) {}

  absl::StatusOr<ProbeTimings> Run() {
    SINTER_RETURN_IF_ERROR(runner_->Allocate(static_cast<uint64_t>(kSmBytes * sms_),
                                             kProbeReduceBuffer + uint64_t{kProbeReduceChunk}));
    SINTER_RETURN_IF_ERROR(Launches());
    SINTER_RETURN_IF_ERROR(Streams());
    SINTER_RETURN_IF_ERROR(OfEveryChip());
    SINTER_RETURN_IF_ERROR(wgmma_ ? OfHopper() : OfOthers());
    return std::move(timings_);
  }

 private:
  // Times `launch` with its last integer at `less` and twice that; a unit of it is `amount` of the
  // counted quantity.
  absl::Status Slope(ProbeLaunch launch, int64_t less, double amount, ProbeSlope* out) {
    launch.integers.push_back(less);
    SINTER_ASSIGN_OR_RETURN(out->less_us, runner_->TimeUs(launch));
    launch.integers.back() = 2 * less;
    SINTER_ASSIGN_OR_RETURN(out->more_us, runner_->TimeUs(launch));
    out->less = amount * static_cast<double>(less);
    out->more = 2 * out->less;
    return absl::OkStatus();
  }

  absl::Status Launches() {
    ProbeLaunch empty;
    empty.entry = "probe_empty";
    empty.grid = sms_, empty.threads = 256, empty.calls = kManyCalls;
    SINTER_ASSIGN_OR_RETURN(timings_.empty_us, runner_->TimeUs(empty));
    return absl::OkStatus();
  }

  // `bytes` of each block, its own or those of all, read `passes` times and twice as often.
  absl::Status Stream(int blocks, int64_t bytes, bool apart, int64_t passes, ProbeSlope* out) {
    ProbeLaunch stream;
    stream.entry = wgmma_ ? "probe_stream" : "probe_copies";
    stream.pointers = {kSource};
    stream.integers = {bytes, apart ? 1 : 0};
    stream.grid = blocks, stream.threads = wgmma_ ? 32 : kProbeCopyThreads;
    stream.shared_bytes = wgmma_ ? kProbeRing : kProbeCopyRing;
    return Slope(stream, passes, static_cast<double>(blocks * bytes), out);
  }

  // A pass over memory is cold, also by few blocks, which read as much. Only Hopper's kernels ask
  // what few blocks reach.
  absl::Status Streams() {
    std::vector<int> blocks = {sms_};
    for (const double share : kStreamShares) {
      if (wgmma_) blocks.push_back(std::max(1, static_cast<int>(share * sms_)));
    }
    for (const int some : blocks) {
      timings_.hbm.push_back({some, {}});
      const int64_t bytes = kSmBytes * sms_ / some / kProbeChunk * kProbeChunk;
      SINTER_RETURN_IF_ERROR(Stream(some, bytes, true, 1, &timings_.hbm.back().bytes));
    }
    const int64_t held = l2_bytes_ / 2 / sms_ / kProbeChunk * kProbeChunk;
    const int64_t own = std::clamp(held, int64_t{kProbeChunk}, kOwnBytes);
    SINTER_RETURN_IF_ERROR(Stream(sms_, own, true, 32, &timings_.l2_bytes));
    SINTER_RETURN_IF_ERROR(Stream(sms_, kAlikeBytes, false, 8, &timings_.l2_alike_bytes));
    return Stream(1, kAlikeBytes, false, 8, &timings_.intake_bytes);
  }

  absl::Status Clusters() {
    for (size_t i = 0; i < kClusterSizes.size(); ++i) {
      ProbeLaunch push;
      push.entry = "probe_push";
      push.integers = {1};
      push.threads = 128, push.shared_bytes = kProbeBlock;
      push.cluster = push.grid = kClusterSizes[i];
      SINTER_ASSIGN_OR_RETURN(timings_.resident_clusters[i], runner_->ResidentClusters(push));
      const int clusters = timings_.resident_clusters[i];
      if (clusters == 0 || kClusterSizes[i] == 1) continue;  // no other block
      push.integers.clear();
      push.grid = clusters * kClusterSizes[i];
      const double bytes = static_cast<double>(push.grid) * kProbeExchange;
      SINTER_RETURN_IF_ERROR(Slope(push, 50, bytes, &timings_.dsm_bytes[i]));
    }
    return absl::OkStatus();
  }

  absl::Status OfEveryChip() {
    ProbeLaunch grid;
    grid.entry = "probe_grid_barrier";
    grid.pointers = {kTarget};
    grid.grid = sms_, grid.threads = 256, grid.waits_for_grid = true;
    SINTER_RETURN_IF_ERROR(Slope(grid, 100, 1, &timings_.grid_barriers));
    ProbeLaunch shared;
    shared.entry = "probe_shared";
    shared.pointers = {kTarget};
    shared.grid = sms_, shared.threads = 1024, shared.shared_bytes = kProbeSharedBytes;
    const double read = 16.0 * kProbeSharedReads * shared.threads;
    return Slope(shared, 100, read, &timings_.shared_bytes);
  }

  absl::Status OfHopper() {
    SINTER_RETURN_IF_ERROR(Clusters());
    ProbeLaunch reduce;
    reduce.entry = "probe_reduce";
    reduce.pointers = {kTarget};
    reduce.grid = sms_, reduce.threads = 128;
    const double sms = sms_;
    SINTER_RETURN_IF_ERROR(Slope(reduce, 256, sms * kProbeReduceChunk, &timings_.reduce_bytes));
    ProbeLaunch tensor;
    tensor.entry = "probe_tensor";
    tensor.pointers = {kTarget};
    tensor.grid = sms_, tensor.threads = kProbeTensorThreads;
    tensor.shared_bytes = kProbeTensorShared;
    return Slope(tensor, 64, sms * kProbeTensorFlop, &timings_.tensor_flop);
  }

  absl::Status OfOthers() {
    ProbeLaunch mma;
    mma.entry = "probe_mma";
    mma.pointers = {kTarget};
    mma.grid = sms_, mma.threads = kProbeMmaThreads;
    const double flop = sms_ * kProbeMmaFlop;
    SINTER_RETURN_IF_ERROR(Slope(mma, 64, flop, &timings_.tensor_flop));
    mma.entry = "probe_mma_codes";
    return Slope(mma, 64, 2 * flop, &timings_.tensor_code_flop);
  }

  const int sms_;
  const int64_t l2_bytes_;
  const bool wgmma_;
  ProbeRunner* const runner_;
  ProbeTimings timings_;
};

constexpr int kReplays = 15;
constexpr uint64_t kCounterBytes = 4;

LaunchRecipe RecipeOf(const ProbeLaunch& launch) {
  LaunchRecipe recipe;
  recipe.entry = launch.entry;
  recipe.grid[0] = static_cast<uint32_t>(launch.grid);
  recipe.block[0] = static_cast<uint32_t>(launch.threads);
  recipe.cluster[0] = static_cast<uint32_t>(launch.cluster);
  recipe.shared_bytes = launch.shared_bytes;
  recipe.cooperative = launch.waits_for_grid;
  for (const int pointer : launch.pointers) {
    ArgSlot slot;
    slot.kind = ArgKind::kPointer;
    slot.index = pointer;
    recipe.args.push_back(slot);
  }
  for (const int64_t integer : launch.integers) {
    ArgSlot slot;
    slot.kind = ArgKind::kInt32;
    slot.int_value = integer;
    recipe.args.push_back(slot);
  }
  return recipe;
}

}  // namespace

absl::StatusOr<ProbeTimings> RunProbes(const DeviceModel& model, ProbeRunner* runner) {
  SINTER_ASSIGN_OR_RETURN(const ArchFeatures chip, FeaturesOf(model.arch));
  return Prober(model, chip, runner).Run();
}

absl::StatusOr<ProbeSlope> TimeLink(PeerMemory* from, PeerMemory* to) {
  constexpr uint64_t kLess = 64 << 20, kMore = 2 * kLess;
  constexpr int kTurns = 7;
  SINTER_ASSIGN_OR_RETURN(const DevicePtr source, from->Allocate(kMore, RoomSharing::kNone));
  const absl::StatusOr<DevicePtr> target = to->Allocate(kMore, RoomSharing::kNone);
  absl::Status status = target.status();
  // The shortest of some copies, each of which ends before the clock is read.
  const auto time = [&](uint64_t bytes) {
    double least = 0;
    for (int turn = 0; status.ok() && turn < kTurns; ++turn) {
      const auto start = std::chrono::steady_clock::now();
      status = from->Push(*target, source, bytes);
      const std::chrono::duration<double, std::micro> us = std::chrono::steady_clock::now() - start;
      least = turn == 0 ? us.count() : std::min(least, us.count());
    }
    return least;
  };
  ProbeSlope slope{static_cast<double>(kLess), 0, static_cast<double>(kMore), 0};
  slope.less_us = time(kLess);
  slope.more_us = time(kMore);
  if (target.ok()) to->Free(*target);
  from->Free(source);
  if (!status.ok()) return Annotate(status, "measuring link_bytes_per_us");
  return slope;
}

ProbeRunner::~ProbeRunner() {
  measurer_->Free(source_);
  measurer_->Free(target_);
}

absl::Status ProbeRunner::Allocate(uint64_t source_bytes, uint64_t target_bytes) {
  SINTER_ASSIGN_OR_RETURN(source_, measurer_->Allocate(source_bytes));
  SINTER_ASSIGN_OR_RETURN(target_, measurer_->Allocate(target_bytes));
  SINTER_RETURN_IF_ERROR(measurer_->Fill(source_, 1));
  return measurer_->Fill(target_, 0);
}

absl::StatusOr<std::shared_ptr<LoadedKernel>> ProbeRunner::Load(const LaunchRecipe& recipe) {
  std::string& cubin = cubins_[recipe.entry];
  if (cubin.empty()) {
    SINTER_ASSIGN_OR_RETURN(const CompileRequest request, ProbeRequest(recipe.entry, arch_));
    SINTER_ASSIGN_OR_RETURN(CompiledKernel kernel, compiler_->Compile(request));
    cubin = std::move(kernel.cubin);
  }
  return loader_->Load(cubin, recipe);
}

absl::StatusOr<double> ProbeRunner::TimeUs(const ProbeLaunch& launch) {
  const LaunchRecipe recipe = RecipeOf(launch);
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<LoadedKernel> kernel, Load(recipe));
  const DevicePtr pointers[] = {source_.ptr, target_.ptr};
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<BoundKernel> bound,
                          kernel->Bind(recipe, {pointers, 2, 0}));
  const auto enqueue = [&](StreamHandle stream, int) -> absl::Status {
    if (launch.waits_for_grid) {
      SINTER_RETURN_IF_ERROR(loader_->MemsetAsync(target_.ptr, 0, kCounterBytes, stream));
    }
    return kernel->Launch(*bound, stream, 1, 0, false);
  };
  absl::StatusOr<double> us = measurer_->TimeGraph({enqueue}, launch.calls, kReplays);
  return us.ok() ? us : Annotate(us.status(), launch.entry);
}

absl::StatusOr<int> ProbeRunner::ResidentClusters(const ProbeLaunch& launch) {
  const LaunchRecipe recipe = RecipeOf(launch);
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<LoadedKernel> kernel, Load(recipe));
  return kernel->MaxActiveClusters(recipe);
}

}  // namespace sinter
