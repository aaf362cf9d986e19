#include "src/base/exit_gate.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>

#include "src/base/digest.h"
#include "src/base/fork_local.h"

namespace sinter {
namespace {

using Clock = std::chrono::steady_clock;

struct Passes {
  int inside = 0;
  Clock::time_point last_wait;  // when the waits of an exit end
  std::condition_variable fewer;
};

std::atomic<bool> exiting{false};
thread_local int own_passes = 0;  // who calls exit() inside must not wait for itself

// Never destroyed: threads come by until the process is gone.
ForkLocal<Passes, /*kKeep=*/false>& Everybody() {
  static auto* const everybody = new ForkLocal<Passes, /*kKeep=*/false>;
  return *everybody;
}

void Shut() {
  auto passes = Everybody().Lock();
  if (!exiting.exchange(true)) {
    passes->last_wait = Clock::now() + std::chrono::seconds(ExitGate::kLongestWaitSeconds);
  }
  passes->fewer.wait_until(passes.lock(), passes->last_wait,
                           [&] { return passes->inside <= own_passes; });
}

bool Enter() {
  static const bool waits = [] {
    (void)Sha256("");  // OpenSSL's destructors are registered by its first use
    ExitGate::WaitAtExit();
    return true;
  }();
  (void)waits;
  auto passes = Everybody().Lock();
  if (exiting) return false;
  ++passes->inside;
  ++own_passes;
  return true;
}

}  // namespace

ExitGate::Pass::Pass() : owner_(getpid()), inside_(Enter()) {}

ExitGate::Pass::~Pass() {
  if (!inside_) return;
  --own_passes;
  if (owner_ != getpid()) return;  // a child that was forked inside: its gate counts anew
  auto passes = Everybody().Lock();
  --passes->inside;
  passes->fewer.notify_all();
}

bool ExitGate::Exiting() { return exiting.load(std::memory_order_relaxed); }

void ExitGate::WaitAtExit() { (void)std::atexit(Shut); }

}  // namespace sinter
