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

constexpr std::chrono::seconds kLongestWait(ExitGate::kLongestWaitSeconds);
constexpr std::chrono::seconds kExitBegins(1);

struct Passes {
  int inside = 0;
  int first_uses = 0;
  bool main_thread_ended = false;
  Clock::time_point last_wait;  // when the waits of an exit end
  std::condition_variable changed;
};

std::atomic<bool> exiting{false};
// The calling thread's own. A thread that calls exit() inside must not wait for itself.
thread_local int own_passes = 0;
thread_local int own_first_uses = 0;

// Never destroyed: threads come by until the process is gone.
ForkLocal<Passes, /*kKeep=*/false>& Everybody() {
  static auto* const everybody = new ForkLocal<Passes, /*kKeep=*/false>;
  return *everybody;
}

void Shut() {
  auto passes = Everybody().Lock();
  if (!exiting.exchange(true)) {
    passes->last_wait = Clock::now() + kLongestWait;
  }
  passes->changed.notify_all();
  passes->changed.wait_until(passes.lock(), passes->last_wait,
                             [&] { return passes->inside <= own_passes; });
}

// exit() first destroys the thread-local objects of its thread. The end of a thread does so too.
struct EndOfThread {
  ~EndOfThread() {
    if (gettid() != getpid()) return;
    auto passes = Everybody().Lock();
    passes->changed.wait_for(passes.lock(), kLongestWait,
                             [&] { return passes->first_uses <= own_first_uses; });
    passes->main_thread_ended = true;
  }
};

void WatchThisThread() { thread_local const EndOfThread end; }

// The thread that loads the library is watched: the main thread, unless another one calls dlopen.
[[maybe_unused]] const bool watched = (WatchThisThread(), true);

bool Enter() {
  WatchThisThread();
  static const bool waits = [] {
    const ExitGate::FirstUse use;
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

bool BeginFirstUse() {
  auto passes = Everybody().Lock();
  // Perhaps only the main thread has ended. Or it is in exit(), which is about to shut the gate.
  if (passes->main_thread_ended) {
    passes->changed.wait_for(passes.lock(), kExitBegins, [] { return exiting.load(); });
  }
  if (exiting) return false;
  ++passes->first_uses;
  ++own_first_uses;
  return true;
}

}  // namespace

ExitGate::Pass::Pass() : owner_(getpid()), inside_(Enter()) {}

ExitGate::Pass::~Pass() {
  if (!inside_) return;
  --own_passes;
  if (owner_ != getpid()) return;  // a child that was forked inside: its gate starts from zero
  auto passes = Everybody().Lock();
  --passes->inside;
  passes->changed.notify_all();
}

ExitGate::FirstUse::FirstUse() : owner_(getpid()), inside_(BeginFirstUse()) {}

ExitGate::FirstUse::~FirstUse() {
  if (!inside_) return;
  --own_first_uses;
  if (owner_ != getpid()) return;
  auto passes = Everybody().Lock();
  --passes->first_uses;
  passes->changed.notify_all();
}

bool ExitGate::Exiting() { return exiting.load(std::memory_order_relaxed); }

void ExitGate::WaitAtExit() { (void)std::atexit(Shut); }

}  // namespace sinter
