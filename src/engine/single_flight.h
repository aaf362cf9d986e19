// SingleFlight: one builder per key in this process; others that want the key wait for its result.
// In the child of a fork nothing is under way, since the parent's builders are not there.
#ifndef SINTER_SRC_ENGINE_SINGLE_FLIGHT_H_
#define SINTER_SRC_ENGINE_SINGLE_FLIGHT_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "src/base/fork_local.h"
#include "src/base/status.h"
#include "src/engine/control.h"

namespace sinter {

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
    absl::StatusOr<Value> result = absl::CancelledError("an exception ended the build");
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

#endif  // SINTER_SRC_ENGINE_SINGLE_FLIGHT_H_
