#include "src/engine/measured_choice.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "src/base/status.h"
#include "src/engine/control.h"

namespace sinter {
namespace {

constexpr double kFirstMargin = 0.01;  // that the predicted choice must be slower by
constexpr double kOfDeadline = 0.8;    // share of a call's remaining time, for measuring
constexpr std::chrono::milliseconds kTurnPoll(5);
constexpr TuneProtocol kWhileServing{2, 5, false, true};

class SerialMeasurer : public Measurer {
 public:
  explicit SerialMeasurer(std::unique_ptr<Measurer> inner) : inner_(std::move(inner)) {}

  absl::StatusOr<DeviceBuffer> Allocate(uint64_t bytes) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return inner_->Allocate(bytes);
  }
  void Free(DeviceBuffer buffer) override {
    std::lock_guard<std::mutex> lock(mutex_);
    inner_->Free(buffer);
  }
  absl::Status Upload(DeviceBuffer to, const void* from, uint64_t bytes) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return inner_->Upload(to, from, bytes);
  }
  absl::Status Download(void* to, DeviceBuffer from, uint64_t bytes) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return inner_->Download(to, from, bytes);
  }
  absl::Status Fill(DeviceBuffer buffer, uint8_t byte) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return inner_->Fill(buffer, byte);
  }
  absl::StatusOr<double> TimeGraph(const GraphCalls& calls, int count, int replays) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return inner_->TimeGraph(calls, count, replays);
  }
  absl::Status RunAndWait(const std::function<absl::Status(StreamHandle)>& enqueue) override {
    std::lock_guard<std::mutex> lock(mutex_);
    return inner_->RunAndWait(enqueue);
  }
  absl::StatusOr<std::unique_ptr<Measurer>> MakeBackground() override {
    std::lock_guard<std::mutex> lock(mutex_);
    return inner_->MakeBackground();
  }

 private:
  std::mutex mutex_;
  const std::unique_ptr<Measurer> inner_;
};

constexpr uint64_t kCopyBytes = uint64_t{1} << 20;  // that one piece copies
constexpr uint64_t kFillBytes = uint64_t{64} << 20;
constexpr double kMostCopyUs = 200, kMostRunUs = 1000;  // a longer piece waited for others
constexpr int kLeastGraphs = 3, kMostGraphs = 16;
constexpr double kMostGraphsUs = 20e3;  // of GPU time, unless these are fewer than the least
constexpr double kPollUs = 5000;        // at most between two checks of `keep_going`

// The part of `buffer` from `at` on.
DeviceBuffer Part(DeviceBuffer buffer, uint64_t at, uint64_t bytes) {
  return {buffer.ptr + at, std::min(buffer.bytes - at, bytes)};
}

}  // namespace

bool MeasuredChoices::IsKept(const PlanRequest& measured, const BuildControl& control) {
  return plans_->Get(measured, OnMiss::kGoOn, control).ok();
}

// The right to measure at full speed, which one thread of a process has at a time.
class MeasuredChoices::Turn {
 public:
  explicit Turn(ForkLocal<bool, false>* busy) : busy_(busy) {}
  ~Turn() {
    if (mine_) *busy_->Lock() = false;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // CANCELLED, DEADLINE_EXCEEDED.
  absl::Status Await(const BuildControl& control) {
    for (;;) {
      SINTER_RETURN_IF_ERROR(control.Check("measuring"));
      {
        const auto busy = busy_->Lock();
        mine_ = !*busy;
        *busy = true;
      }
      if (mine_) return absl::OkStatus();
      std::this_thread::sleep_for(kTurnPoll);
    }
  }

 private:
  ForkLocal<bool, false>* const busy_;
  bool mine_ = false;
};

absl::Status MeasuredChoices::Measure(const PlanRequest& request, const Measuring& how,
                                      const BuildControl& control) {
  PlanRequest measured = request;
  measured.measured = true;
  SINTER_ASSIGN_OR_RETURN(
      const std::shared_ptr<void> lock,
      AwaitBuildLock(*core_->ports.store, RecordKind::kPlan, PlanKeyBytes(measured, *core_),
                     control, core_->trace.get()));
  if (IsKept(measured, control)) return absl::OkStatus();
  const bool slot = how.mode == Measuring::Mode::kWhileServing;
  Counters& counters = core_->counters;
  if (slot) counters.slot_measurements_begun.fetch_add(1, std::memory_order_relaxed);
  const absl::Status status = MeasureNow(request, measured, how, control);
  if (status.ok()) return status;
  auto& given_up = slot ? counters.slot_measurements_given_up : counters.measurements_given_up;
  given_up.fetch_add(1, std::memory_order_relaxed);
  core_->log.Log(slot ? LogLevel::kInfo : LogLevel::kWarn,
                 absl::StrCat(slot ? "slot" : "prepare", ": the plan for chain ",
                              request.chain().CanonicalDigest().Hex().substr(0, 16), " at m <= ",
                              request.bucket, " stays as predicted: ", status.message()));
  return status;
}

absl::Status MeasuredChoices::MeasureNow(const PlanRequest& request, const PlanRequest& measured,
                                         const Measuring& how, const BuildControl& control) {
  const bool slot = how.mode == Measuring::Mode::kWhileServing;
  SINTER_ASSIGN_OR_RETURN(const TuneResult result, slot ? TuneWhileServing(request, how, control)
                                                        : TuneFirst(request, how, control));
  SINTER_RETURN_IF_ERROR(control.Check("the choice was kept"));
  if (result.entry == nullptr) return FailedPrecondition("no candidate could be measured");
  SINTER_RETURN_IF_ERROR(plans_->KeepMeasured(measured, *result.entry, control.Quiet()));
  Counters& counters = core_->counters;
  auto& done = slot ? counters.slot_measurements : counters.measurements;
  auto& wins = slot ? counters.slot_measured_wins : counters.measured_wins;
  done.fetch_add(1, std::memory_order_relaxed);
  wins.fetch_add(result.predicted ? 0 : 1, std::memory_order_relaxed);
  return absl::OkStatus();
}

absl::StatusOr<TuneResult> MeasuredChoices::TuneFirst(const PlanRequest& request,
                                                      const Measuring& how,
                                                      const BuildControl& control) {
  Turn turn(&busy_);
  SINTER_RETURN_IF_ERROR(turn.Await(control));
  TuneOptions options;
  options.top_k = how.top_k;
  options.switch_margin = kFirstMargin;
  options.batch_invariant = request.batch_invariant;
  constexpr int64_t kForever = int64_t{1} << 50;
  const double left_us = kOfDeadline * static_cast<double>(control.RemainingUs(kForever));
  const int64_t budget_us = std::min(how.budget_us, static_cast<int64_t>(left_us));
  const BuildControl within = control.Within(budget_us);
  absl::StatusOr<TuneResult> result =
      tuner_->Tune(request, options, within, core_->ports.measurer.get());
  if (!absl::IsDeadlineExceeded(result.status()) || !control.Check("measuring").ok()) return result;
  return FailedPrecondition(
      absl::StrFormat("no plan was measured in %.3f s: give measuring more time",
                      static_cast<double>(budget_us) / 1e6));
}

absl::StatusOr<TuneResult> MeasuredChoices::TuneWhileServing(const PlanRequest& request,
                                                             const Measuring& how,
                                                             const BuildControl& control) {
  SINTER_ASSIGN_OR_RETURN(std::unique_ptr<Measurer> background,
                          core_->ports.measurer->MakeBackground());
  GpuShare share;
  share.sleep = core_->hooks.pause;
  PacedMeasurer paced(std::move(background), std::move(share), &control);
  TuneOptions options;
  options.top_k = how.top_k;
  options.protocol = kWhileServing;
  options.batch_invariant = request.batch_invariant;
  return tuner_->Tune(request, options, control, &paced);
}

std::unique_ptr<Measurer> MakeSerialMeasurer(std::unique_ptr<Measurer> inner) {
  if (inner == nullptr) return nullptr;
  return std::make_unique<SerialMeasurer>(std::move(inner));
}

PacedMeasurer::PacedMeasurer(std::unique_ptr<Measurer> inner, GpuShare share,
                             const KeepGoing* keep_going)
    : inner_(std::move(inner)), share_(std::move(share)), keep_going_(keep_going) {}

PacedMeasurer::~PacedMeasurer() {
  for (const DeviceBuffer& buffer : kept_) inner_->Free(buffer);
}

absl::Status PacedMeasurer::Rest(double busy_us) {
  for (double left = busy_us * (1 / share_.share - 1); left > 0; left -= kPollUs) {
    SINTER_RETURN_IF_ERROR(keep_going_->Check());
    const double us = std::min(left, kPollUs);
    if (share_.sleep) {
      share_.sleep(us);
    } else {
      std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us));
    }
  }
  return keep_going_->Check();
}

absl::Status PacedMeasurer::Run(double most_us, const std::function<absl::Status()>& piece) {
  SINTER_RETURN_IF_ERROR(keep_going_->Check());
  const auto begin = std::chrono::steady_clock::now();
  SINTER_RETURN_IF_ERROR(piece());
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - begin;
  return Rest(std::min(spent.count(), most_us));
}

absl::StatusOr<DeviceBuffer> PacedMeasurer::Allocate(uint64_t bytes) {
  SINTER_RETURN_IF_ERROR(keep_going_->Check());
  const auto fits = std::find_if(kept_.begin(), kept_.end(), [&](const DeviceBuffer& buffer) {
    return buffer.bytes >= bytes && buffer.bytes / 2 <= bytes;
  });
  if (fits == kept_.end()) return inner_->Allocate(bytes);
  const DeviceBuffer buffer = *fits;
  kept_.erase(fits);
  return buffer;
}

void PacedMeasurer::Free(DeviceBuffer buffer) { kept_.push_back(buffer); }

absl::Status PacedMeasurer::Upload(DeviceBuffer to, const void* from, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kCopyBytes) {
    const DeviceBuffer part = Part(to, at, kCopyBytes);
    SINTER_RETURN_IF_ERROR(Run(kMostCopyUs, [&] {
      return inner_->Upload(part, static_cast<const char*>(from) + at,
                            std::min(kCopyBytes, bytes - at));
    }));
  }
  return absl::OkStatus();
}

absl::Status PacedMeasurer::Download(void* to, DeviceBuffer from, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += kCopyBytes) {
    const DeviceBuffer part = Part(from, at, kCopyBytes);
    SINTER_RETURN_IF_ERROR(Run(kMostCopyUs, [&] {
      return inner_->Download(static_cast<char*>(to) + at, part, std::min(kCopyBytes, bytes - at));
    }));
  }
  return absl::OkStatus();
}

absl::Status PacedMeasurer::Fill(DeviceBuffer buffer, uint8_t byte) {
  for (uint64_t at = 0; at < buffer.bytes; at += kFillBytes) {
    SINTER_RETURN_IF_ERROR(
        Run(kMostCopyUs, [&] { return inner_->Fill(Part(buffer, at, kFillBytes), byte); }));
  }
  return absl::OkStatus();
}

absl::Status PacedMeasurer::RunAndWait(const std::function<absl::Status(StreamHandle)>& enqueue) {
  return Run(kMostRunUs, [&] { return inner_->RunAndWait(enqueue); });
}

absl::StatusOr<double> PacedMeasurer::Replay(TimedGraph& graph) {
  SINTER_RETURN_IF_ERROR(keep_going_->Check());
  SINTER_ASSIGN_OR_RETURN(const double us, graph.Replay());
  SINTER_RETURN_IF_ERROR(Rest(us));
  return us;
}

absl::StatusOr<double> PacedMeasurer::TimeGraph(const GraphCalls& calls, int count, int replays) {
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<TimedGraph> one, inner_->MakeGraph(calls, 1));
  SINTER_RETURN_IF_ERROR(Replay(*one).status());
  SINTER_ASSIGN_OR_RETURN(const double one_us, Replay(*one));
  const double most = share_.slice_us / std::max(one_us, 1e-3);
  const int slice = static_cast<int>(std::clamp<double>(most, 1, count));
  const double affordable = kMostGraphsUs / (std::max(one_us, 1e-3) * slice);
  const auto most_graphs =
      static_cast<size_t>(std::clamp<double>(affordable, kLeastGraphs, kMostGraphs));
  std::vector<std::unique_ptr<TimedGraph>> graphs;
  for (int at = 0; at + slice <= count && graphs.size() < most_graphs; at += slice) {
    const GraphCalls from{nullptr, [&](GraphHandle graph, const NodeEdges& edges, int i) {
                            return calls.add(graph, edges, at + i);
                          }};
    SINTER_ASSIGN_OR_RETURN(std::unique_ptr<TimedGraph> graph, inner_->MakeGraph(from, slice));
    graphs.push_back(std::move(graph));
  }
  std::vector<double> times;
  for (int i = 0; i < replays; ++i) {
    for (const std::unique_ptr<TimedGraph>& graph : graphs) {
      SINTER_ASSIGN_OR_RETURN(const double us, Replay(*graph));
      times.push_back(us / slice);
    }
  }
  const auto quartile = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 4);
  std::nth_element(times.begin(), quartile, times.end());
  return *quartile;
}

}  // namespace sinter
