#include "tests/gpu/watchdog.h"

namespace sinter::gpu_testing {

Watchdog::Watchdog() : thread_([this] { Watch(); }) {}

Watchdog::~Watchdog() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Watchdog::Begin(std::string what, double seconds) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    what_ = std::move(what);
    seconds_ = seconds;
    deadline_ = std::chrono::steady_clock::now() +
                std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3));
    armed_ = true;
  }
  changed_.notify_all();
}

void Watchdog::End() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    armed_ = false;
  }
  changed_.notify_all();
}

void Watchdog::Watch() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    if (!armed_) {
      changed_.wait(lock);
      continue;
    }
    changed_.wait_until(lock, deadline_);
    if (stop_ || !armed_ || std::chrono::steady_clock::now() < deadline_) continue;
    std::fprintf(stderr, "watchdog: %s did not end within %.0f s\n", what_.c_str(), seconds_);
    std::fflush(stdout);
    _exit(kWatchdogExit);
  }
}

}  // namespace sinter::gpu_testing
