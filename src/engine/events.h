// Events: what an engine did off the launch path, for programs that watch it.
#ifndef SINTER_SRC_ENGINE_EVENTS_H_
#define SINTER_SRC_ENGINE_EVENTS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "src/base/digest.h"

namespace sinter {

enum class EventKind : int32_t {
  kLookUp = 1,  // of a plan or a kernel in the tiers of the cache
  kSearch = 2,
  kCompile = 3,
  kLoad = 4,
  kUnload = 5,
  kTune = 6,
  kFallback = 7,  // another plan than the chosen one runs
  kUpgrade = 8    // a slot got its plan after it was made
};

// Fields that are unknown or do not apply keep these defaults.
struct EngineEvent {
  EventKind kind = EventKind::kLookUp;
  std::string subject;  // "plan", or the kernel
  Digest chain, plan;
  int64_t bucket = 0;
  std::string tier;    // that had the record
  std::string reason;  // of a miss, a failure, a fallback
  double us = 0;
  uint64_t bytes = 0;  // of code
};

// Hands events to one callback, which is set once and then stays. Thread-safe; takes no lock.
class EventSink {
 public:
  using Callback = std::function<void(const EngineEvent&)>;

  EventSink() = default;
  ~EventSink() { delete callback_.load(); }
  EventSink(const EventSink&) = delete;
  EventSink& operator=(const EventSink&) = delete;

  // ALREADY_EXISTS after the first.
  absl::Status Set(Callback callback) {
    auto own = std::make_unique<const Callback>(std::move(callback));
    const Callback* none = nullptr;
    if (!callback_.compare_exchange_strong(none, own.get())) {
      return absl::AlreadyExistsError("the context has an event callback");
    }
    (void)own.release();
    return absl::OkStatus();
  }
  bool Wanted() const { return callback_.load(std::memory_order_acquire) != nullptr; }
  void Tell(const EngineEvent& event) const {
    const Callback* const callback = callback_.load(std::memory_order_acquire);
    if (callback != nullptr) (*callback)(event);
  }

 private:
  std::atomic<const Callback*> callback_{nullptr};
};

// Microseconds since its construction.
class EventClock {
 public:
  double us() const {
    const std::chrono::duration<double, std::micro> spent = Clock::now() - begin_;
    return spent.count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_EVENTS_H_
