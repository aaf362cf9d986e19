// Watchdog: ends the process when a wait for the GPU takes too long, so that a hung kernel costs
// seconds.
#pragma once

#include "tests/support/common.h"

namespace sinter::gpu_testing {

constexpr int kWatchdogExit = 86;

// One deadline at a time: Begin sets it, a later Begin moves it, End takes it away. When it passes,
// a line on stderr names what was going on and the process exits with kWatchdogExit at once,
// without destructors: those would wait for the GPU too. Thread-safe.
class Watchdog {
 public:
  Watchdog();
  ~Watchdog();
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void Begin(std::string what, double seconds);
  void End();

 private:
  void Watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string what_;
  bool armed_ = false, stop_ = false;
  std::chrono::steady_clock::time_point deadline_;
  double seconds_ = 0;
  std::thread thread_;
};

}  // namespace sinter::gpu_testing
