// SingleFlight: one builder per key in this process; whoever else wants the key waits for its
// result.
#ifndef SINTER_SRC_ENGINE_SINGLE_FLIGHT_H_
#define SINTER_SRC_ENGINE_SINGLE_FLIGHT_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "src/base/status.h"
#include "src/engine/control.h"

namespace sinter {

// `result` with an error that shares nothing with the original. Threads that share one absl::Status
// count its references inside Debian's uninstrumented Abseil library, where a thread sanitizer
// cannot see them.
template <typename Value>
absl::StatusOr<Value> OwnCopy(const absl::StatusOr<Value>& result) {
  if (result.ok()) return *result;
  absl::Status copy(result.status().code(), result.status().message());
  result.status().ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    copy.SetPayload(url, absl::Cord(std::string(payload)));
  });
  return copy;
}

// Thread-safe. The mutex is never held while a build runs.
// Invariant: a key is in flights_ exactly while one thread builds it.
template <typename Value>
class SingleFlight {
 public:
  using Build = std::function<absl::StatusOr<Value>()>;

  // Runs `build` unless another thread is building `key`; then waits for that thread's result,
  // failure included. A failure is forgotten with its flight, so a later call tries again. A
  // builder that gave up by its own deadline or cancel flag says nothing about the key: one of the
  // waiters takes over. `waited` (may be null) becomes true if this call waited for another.
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
    bool done = false;  // guarded by mutex_; result is constant once it is set
    absl::StatusOr<Value> result = absl::InternalError("the builder of this key vanished");
  };

  static bool GaveUp(const absl::StatusOr<Value>& result) {
    return absl::IsCancelled(result.status()) || absl::IsDeadlineExceeded(result.status());
  }

  // True: the caller is the builder.
  bool Board(const std::string& key, std::shared_ptr<Flight>* flight) {
    std::lock_guard<std::mutex> lock(mutex_);
    auto [entry, inserted] = flights_.try_emplace(key);
    if (inserted) entry->second = std::make_shared<Flight>();
    *flight = entry->second;
    return inserted;
  }

  // Lands the flight on every path out of the build, an exception included.
  struct Landing {
    SingleFlight* self;
    const std::string& key;
    Flight& flight;
    ~Landing() {
      std::lock_guard<std::mutex> lock(self->mutex_);
      flight.done = true;
      self->flights_.erase(key);
      flight.landed.notify_all();
    }
  };

  absl::StatusOr<Value> Fly(const std::string& key, const std::shared_ptr<Flight>& flight,
                            const Build& build) {
    Landing landing{this, key, *flight};
    absl::StatusOr<Value> result = build();
    flight->result = OwnCopy(result);
    return result;
  }

  absl::Status Wait(Flight& flight, const BuildControl& control) {
    std::unique_lock<std::mutex> lock(mutex_);
    while (!flight.done) {
      SINTER_RETURN_IF_ERROR(control.Check("another thread finished building"));
      flight.landed.wait_until(lock, control.NextPoll());
    }
    return absl::OkStatus();
  }

  std::mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<Flight>> flights_;
};

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_SINGLE_FLIGHT_H_
