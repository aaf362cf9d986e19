// CircuitBreaker: stops asking a remote store that does not answer, and tries again later.
#ifndef SINTER_CACHE_REMOTE_BREAKER_H_
#define SINTER_CACHE_REMOTE_BREAKER_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>

namespace sinter {

// closed: calls pass; it opens at half or more failures of at least ten calls within ten seconds,
// or after three late answers in a row. open: no call passes for a pause of 1 s, which doubles up
// to 60 s; each pause is shortened by up to a quarter at random. half-open: one call passes as a
// probe; if it succeeds the breaker closes, if it fails the next pause begins. Absent values are
// successes.
//
// Thread-safe. The caller gives the time. The rule needs a least number of calls beside a failure
// rate, since counts of failures alone open it for healthy stores.
class CircuitBreaker {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class State { kClosed, kOpen, kHalfOpen };

  explicit CircuitBreaker(uint64_t seed) : random_(seed | 1) {}

  // Whether a call may be made now. If so, the caller makes exactly one report about it.
  bool Allow(Time now);
  void Succeeded(Time now);
  void Failed(Time now, bool late);

  State state() const;
  uint64_t times_opened() const;
  // Called after each change, outside the lock.
  void OnChange(std::function<void(State, State)> callback) { on_change_ = std::move(callback); }

 private:
  struct Call {
    Time at;
    bool failed;
  };
  void Note(Time now, bool failed);
  void Open(Time now);
  void Tell(State before, State after) const {
    if (before != after && on_change_) on_change_(before, after);
  }

  mutable std::mutex mutex_;
  State state_ = State::kClosed;
  std::deque<Call> calls_;  // of the last ten seconds, oldest first
  int late_in_a_row_ = 0;
  std::chrono::milliseconds pause_{1000};  // of the next opening
  Time until_{};                           // end of the pause
  uint64_t random_;
  uint64_t opened_ = 0;
  std::function<void(State, State)> on_change_;
};

const char* NameOf(CircuitBreaker::State state);

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_BREAKER_H_
