// KeepGoing: long work asks its caller whether it is still wanted.
#ifndef SINTER_SRC_BASE_KEEP_GOING_H_
#define SINTER_SRC_BASE_KEEP_GOING_H_

#include <cstdint>
#include <exception>
#include <utility>

#include "absl/status/status.h"

namespace sinter {

// The port for a deadline and a cancel flag. Thread-safe.
class KeepGoing {
 public:
  virtual ~KeepGoing() = default;
  // OK, or why the work is to end: CANCELLED, DEADLINE_EXCEEDED. May read a clock.
  virtual absl::Status Check() const = 0;
};

// Unwinds work that is no longer wanted, from any depth, as bad_alloc unwinds work that has no
// memory: everything begun is dropped. It leaves no folder's public functions, which return a
// status instead: see Stoppable.
class WorkStopped : public std::exception {
 public:
  explicit WorkStopped(absl::Status why) : why_(std::move(why)) {}
  const absl::Status& why() const { return why_; }
  const char* what() const noexcept override { return "work that is no longer wanted"; }

 private:
  absl::Status why_;
};

// Counts the steps of one piece of work and asks the port once in kStride of them. Used by one
// thread. Without a port it never asks.
class Pace {
 public:
  // A step is what takes a microsecond or less, such as visiting an op: between two asks less than
  // about a millisecond passes.
  static constexpr int64_t kStride = 1000;

  explicit Pace(const KeepGoing* port) : port_(port) {}
  Pace(const Pace&) = delete;
  Pace& operator=(const Pace&) = delete;

  // `steps` more are about to be taken. Throws WorkStopped.
  void Step(int64_t steps = 1) {
    left_ -= steps;
    if (left_ < 0) Ask();
  }
  // Before what takes about as long as kStride steps.
  void Ask() {
    left_ = kStride;
    if (port_ == nullptr) return;
    absl::Status status = port_->Check();
    if (!status.ok()) throw WorkStopped(std::move(status));
  }

 private:
  const KeepGoing* const port_;
  int64_t left_ = kStride;
};

// Does nothing without a pace, which callers without a limit of time leave out.
inline void Step(Pace* pace, int64_t steps = 1) {
  if (pace != nullptr) pace->Step(steps);
}

inline void Ask(Pace* pace) {
  if (pace != nullptr) pace->Ask();
}

// Runs `work(Pace*)`, which returns a StatusOr; what stopped it is its status.
template <typename Work>
auto Stoppable(const KeepGoing* port, Work&& work) -> decltype(work(nullptr)) {
  Pace pace(port);
  try {
    return work(&pace);
  } catch (const WorkStopped& stopped) {
    return stopped.why();
  }
}

}  // namespace sinter

#endif  // SINTER_SRC_BASE_KEEP_GOING_H_
