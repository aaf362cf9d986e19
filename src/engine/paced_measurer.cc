#include "src/engine/paced_measurer.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kCopyBytes = uint64_t{1} << 20;  // that a piece copies
constexpr uint64_t kFillBytes = uint64_t{64} << 20;
constexpr double kMostCopyUs = 200, kMostRunUs = 1000;  // what a piece takes more, it waited
constexpr int kMostGraphs = 16;
constexpr double kPollUs = 5000;  // at most between two questions

// The part of `buffer` from `at` on.
DeviceBuffer Part(DeviceBuffer buffer, uint64_t at, uint64_t bytes) {
  return {buffer.ptr + at, std::min(buffer.bytes - at, bytes)};
}

}  // namespace

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

absl::StatusOr<double> PacedMeasurer::TimeGraph(
    const std::function<absl::Status(StreamHandle, int)>& enqueue, int calls, int replays) {
  SINTER_ASSIGN_OR_RETURN(const std::unique_ptr<TimedGraph> one, inner_->MakeGraph(enqueue, 1));
  SINTER_RETURN_IF_ERROR(Replay(*one).status());
  SINTER_ASSIGN_OR_RETURN(const double one_us, Replay(*one));
  const double most = share_.slice_us / std::max(one_us, 1e-3);
  const int slice = static_cast<int>(std::clamp<double>(most, 1, calls));
  std::vector<std::unique_ptr<TimedGraph>> graphs;
  for (int at = 0; at + slice <= calls && static_cast<int>(graphs.size()) < kMostGraphs;
       at += slice) {
    const auto from = [&](StreamHandle stream, int i) { return enqueue(stream, at + i); };
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
