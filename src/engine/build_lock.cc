#include "src/engine/build_lock.h"

#include <chrono>

#include "src/base/status.h"

namespace sinter {
namespace {

constexpr int64_t kSliceUs = 50 * 1000;
constexpr int64_t kBudgetUs = 60 * 1000 * 1000;

}  // namespace

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
    // A null handle long before its budget passed: this store cannot lock at all.
    const bool unlockable = end - start < std::chrono::microseconds(slice / 2);
    if (lock != nullptr || unlockable || end >= give_up) return lock;
  }
}

}  // namespace sinter
