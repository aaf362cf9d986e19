// BuildControl: how long a slow call may go on. It is asked between stages, every millisecond or so
// inside planning, and while a compile is awaited. A driver call that has begun is finished.
#ifndef SINTER_SRC_ENGINE_CONTROL_H_
#define SINTER_SRC_ENGINE_CONTROL_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "src/base/digest.h"
#include "src/base/fork_local.h"
#include "src/base/keep_going.h"
#include "src/base/log.h"
#include "src/base/ports.h"
#include "src/base/status.h"

namespace sinter {

// Events: what an engine did off the launch path, for programs that watch it.

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
  EngineEvent(EventKind of, std::string what) : kind(of), subject(std::move(what)) {}

  EventKind kind;
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
  // The same call with a deadline `us` from now at the latest.
  BuildControl Within(int64_t us) const;
  // The same call without its progress callback.
  BuildControl Quiet() const;
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

// SingleFlight: one builder per key in this process; others that want the key wait for its result.
// In the child of a fork nothing is under way, since the parent's builders are not there.

// A copy of `result` whose error shares nothing with the original. Threads that share an
// absl::Status count its references inside Debian's Abseil library, which is not instrumented, so
// that a thread sanitizer cannot see them.
template <typename Value>
absl::StatusOr<Value> OwnCopy(const absl::StatusOr<Value>& result) {
  if (result.ok()) return *result;
  absl::Status copy(result.status().code(), result.status().message());
  result.status().ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    copy.SetPayload(url, absl::Cord(std::string(payload)));
  });
  return copy;
}

// Thread-safe. The table is never locked while a build runs.
// Invariant: a key is in the table exactly while one thread of this process builds it.
template <typename Value>
class SingleFlight {
 public:
  using Build = std::function<absl::StatusOr<Value>()>;

  // Runs `build`, or, if another thread is building `key`, waits for that thread's result, failure
  // included. A failure is not remembered, so a later call tries again. If a builder gave up by its
  // own deadline or cancel flag, or an exception ended it, one of the waiters takes over. `waited`
  // (may be null) becomes true if this call waited for another.
  absl::StatusOr<Value> Do(const std::string& key, const BuildControl& control, const Build& build,
                           bool* waited = nullptr) {
    for (;;) {
      std::shared_ptr<Flight> flight;
      if (Board(key, &flight)) return Fly(key, flight, build);
      if (waited != nullptr) *waited = true;
      SINTER_RETURN_IF_ERROR(Wait(*flight, control));
      if (!GaveUp(flight->result)) return OwnCopy(flight->result);
    }
  }

 private:
  struct Flight {
    std::condition_variable landed;
    bool done = false;  // guarded by the table's lock; result is constant once it is set
    absl::StatusOr<Value> result = Cancelled("an exception ended the build");
  };
  using Table = std::unordered_map<std::string, std::shared_ptr<Flight>>;

  static bool GaveUp(const absl::StatusOr<Value>& result) {
    return absl::IsCancelled(result.status()) || absl::IsDeadlineExceeded(result.status());
  }

  // True: the caller becomes the builder.
  bool Board(const std::string& key, std::shared_ptr<Flight>* flight) {
    const auto table = flights_.Lock();
    const auto known = table->find(key);
    if (known != table->end()) {
      *flight = known->second;
      return false;
    }
    *flight = std::make_shared<Flight>();
    table->emplace(key, *flight);
    return true;
  }

  // Ends the flight on every path out of the build, an exception included. A thread that forked in
  // the middle of its build also ends it in the child. Nobody waits for it there: the key may
  // belong to another flight, and the waiters that the condition variable remembers do not exist.
  struct Landing {
    SingleFlight* self;
    const std::string& key;
    const std::shared_ptr<Flight>& flight;
    ~Landing() {
      const auto table = self->flights_.Lock();
      const auto entry = table->find(key);
      if (entry == table->end() || entry->second != flight) return;
      flight->done = true;
      table->erase(entry);
      flight->landed.notify_all();
    }
  };

  absl::StatusOr<Value> Fly(const std::string& key, const std::shared_ptr<Flight>& flight,
                            const Build& build) {
    Landing landing{this, key, flight};
    absl::StatusOr<Value> result = build();
    flight->result = OwnCopy(result);
    return result;
  }

  absl::Status Wait(Flight& flight, const BuildControl& control) {
    auto table = flights_.Lock();
    while (!flight.done) {
      SINTER_RETURN_IF_ERROR(control.Check("another thread finished building"));
      flight.landed.wait_until(table.lock(), control.NextPoll());
    }
    return absl::OkStatus();
  }

  ForkLocal<Table, /*kKeep=*/false> flights_;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_CONTROL_H_
