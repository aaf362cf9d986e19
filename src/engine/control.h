// BuildControl: how long a slow call may go on. It is asked between stages, every millisecond or so
// inside planning, and while a compile is awaited. A driver call that has begun is finished.
#ifndef SINTER_SRC_ENGINE_CONTROL_H_
#define SINTER_SRC_ENGINE_CONTROL_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/digest.h"
#include "src/base/keep_going.h"
#include "src/base/ports.h"
#include "src/base/trace.h"
#include "src/engine/events.h"

namespace sinter {

// What a call does about a plan or kernel that is not in the cache.
enum class OnMiss : uint8_t {
  kBuild,
  kRefuse,  // kCacheMiss that names the nearest entry
  kGoOn,    // kCacheMiss at once
};

// The name of a flight for `key`. Callers that must hit and callers that may build have flights of
// their own: neither may get the other's result.
std::string FlightOf(OnMiss on_miss, const std::string& key);

// One slow call's deadline, cancel flag, progress callback and number of threads. Immutable, so any
// thread of the call may ask it. The cancel flag and whatever the callback refers to outlive the
// call.
class BuildControl : public KeepGoing {
 public:
  using Clock = std::chrono::steady_clock;
  using ProgressCallback = std::function<void(absl::string_view stage, double fraction)>;

  BuildControl() = default;  // no limit
  // `deadline_us` counts from now; 0: none.
  // `threads`: how many build kernels at once; 0: one per hardware thread.
  BuildControl(int64_t deadline_us, const std::atomic<bool>* cancel, ProgressCallback progress,
               int threads = 0);

  // What the call is about, for its events; `sink` outlives the call.
  void TellTo(const EventSink* sink, const Digest& chain, int64_t bucket) {
    events_ = sink;
    chain_ = chain;
    bucket_ = bucket;
  }
  bool Tells() const { return events_ != nullptr; }
  // Adds the call's chain and bucket to the event.
  void Tell(EngineEvent event) const;

  // For work inside a stage: "deadline passed before it was done".
  absl::Status Check() const override;
  // CANCELLED or DEADLINE_EXCEEDED naming the stage that would have come next.
  absl::Status Check(absl::string_view stage) const;
  // Check, then the callback.
  absl::Status Enter(absl::string_view stage, double fraction) const;
  // Microseconds to the deadline, at most `cap`, at least 0.
  int64_t RemainingUs(int64_t cap) const;
  // When a sleeping wait must wake to ask Check again.
  Clock::time_point NextPoll() const;
  int threads() const { return threads_; }
  // For the compiler to ask; null where nothing can end the call.
  const KeepGoing* Limits() const {
    return cancel_ != nullptr || deadline_ != Clock::time_point::max() ? this : nullptr;
  }

 private:
  Clock::time_point deadline_ = Clock::time_point::max();
  const std::atomic<bool>* cancel_ = nullptr;
  ProgressCallback progress_;
  int threads_ = 0;
  const EventSink* events_ = nullptr;
  Digest chain_;
  int64_t bucket_ = 0;
};

// Single flight across processes: waits for the store's lock and still reacts to cancel and
// deadline.

// Waits until this process may build `key`, for a minute at most. After that, or where nothing can
// be locked, the handle is null and the build goes ahead: a lost lock costs one duplicate build.
// CANCELLED or DEADLINE_EXCEEDED.
absl::StatusOr<std::shared_ptr<void>> AwaitBuildLock(Store& store, RecordKind kind,
                                                     const std::string& key,
                                                     const BuildControl& control, Trace* trace);

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_CONTROL_H_
