#include "src/engine/control.h"

#include <algorithm>

#include "src/base/exit_gate.h"

namespace sinter {
namespace {

// A cancel flag cannot wake a sleeper, so waits look at it this often.
constexpr std::chrono::milliseconds kPollPause(5);
constexpr std::chrono::seconds kLongestSleep(1);

constexpr int64_t kSliceUs = 50 * 1000;
constexpr int64_t kBudgetUs = 60 * 1000 * 1000;

}  // namespace

std::string FlightOf(OnMiss on_miss, const std::string& key) {
  return static_cast<char>(on_miss) + key;
}

BuildControl::BuildControl(int64_t deadline_us, const std::atomic<bool>* cancel,
                           ProgressCallback progress, int threads)
    : cancel_(cancel), progress_(std::move(progress)), threads_(threads) {
  // A deadline more than a century away counts as none: adding it to the clock could overflow.
  constexpr int64_t kCenturyUs = int64_t{100} * 365 * 24 * 3600 * 1000000;
  if (deadline_us != 0 && deadline_us < kCenturyUs) {
    deadline_ = Clock::now() + std::chrono::microseconds(std::max<int64_t>(deadline_us, 0));
  }
}

void BuildControl::Tell(EngineEvent event) const {
  if (events_ == nullptr) return;
  event.chain = chain_;
  event.bucket = bucket_;
  events_->Tell(event);
}

absl::Status BuildControl::Check(absl::string_view stage) const {
  if (ExitGate::Exiting()) return Cancelled("the process exits, before ", stage);
  if (cancel_ != nullptr && cancel_->load(std::memory_order_relaxed)) {
    return Cancelled("cancelled before ", stage);
  }
  if (deadline_ != Clock::time_point::max() && Clock::now() >= deadline_) {
    return DeadlineExceeded("deadline passed before ", stage);
  }
  return absl::OkStatus();
}

absl::Status BuildControl::Check() const { return Check("it was done"); }

absl::Status BuildControl::Enter(absl::string_view stage, double fraction) const {
  SINTER_RETURN_IF_ERROR(Check(stage));
  if (progress_) progress_(stage, fraction);
  return absl::OkStatus();
}

int64_t BuildControl::RemainingUs(int64_t cap) const {
  if (deadline_ == Clock::time_point::max()) return cap;
  const int64_t left =
      std::chrono::duration_cast<std::chrono::microseconds>(deadline_ - Clock::now()).count();
  return std::min(cap, std::max<int64_t>(left, 0));
}

BuildControl BuildControl::Within(int64_t us) const {
  BuildControl result = *this;
  result.deadline_ = std::min(deadline_, Clock::now() + std::chrono::microseconds(us));
  return result;
}

BuildControl BuildControl::Quiet() const {
  BuildControl result = *this;
  result.progress_ = nullptr;
  return result;
}

BuildControl::Clock::time_point BuildControl::NextPoll() const {
  const Clock::time_point now = Clock::now();
  if (cancel_ != nullptr) return std::min(deadline_, now + kPollPause);
  return std::min(deadline_, now + kLongestSleep);
}

absl::StatusOr<std::shared_ptr<void>> AwaitBuildLock(Store& store, RecordKind kind,
                                                     const std::string& key,
                                                     const BuildControl& control, Trace* trace) {
  const TraceSpan span(trace, "wait for lock");
  using Clock = std::chrono::steady_clock;
  const Clock::time_point give_up = Clock::now() + std::chrono::microseconds(kBudgetUs);
  for (;;) {
    SINTER_RETURN_IF_ERROR(control.Check("the build lock was free"));
    const int64_t slice = control.RemainingUs(kSliceUs);
    const Clock::time_point start = Clock::now();
    std::shared_ptr<void> lock = store.LockForBuild(kind, key, slice);
    const Clock::time_point end = Clock::now();
    // A null handle that comes long before its budget ends: this store cannot lock at all.
    const bool unlockable = end - start < std::chrono::microseconds(slice / 2);
    if (lock != nullptr || unlockable || end >= give_up) return lock;
  }
}

}  // namespace sinter
