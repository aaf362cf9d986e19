// Energy: what the board takes for one computation, by NVML's counter.
#pragma once

#include "src/base/config.h"
#include "tests/bench/runnable.h"

namespace sinter::bench {

// One thread. NVML is opened at run time and never closed.
class EnergyMeter {
 public:
  virtual ~EnergyMeter() = default;
  // Opens the meter of the GPU with the driver's ordinal `ordinal`, found by its PCI address: NVML
  // numbers GPUs its own way. UNAVAILABLE naming the missing part.
  static absl::StatusOr<std::unique_ptr<EnergyMeter>> Open(const Config& config, int ordinal);
  // Millijoules since the driver was loaded; renewed several times a second.
  virtual absl::StatusOr<uint64_t> MilliJoules() const = 0;
};

// The energy of one computation, the board's idle power included: the counter's advance over graph
// replays of at least 1.2 s, by their number. `us`: what one takes.
absl::StatusOr<double> MilliJoulesPerCall(Measurer* measurer, const EnergyMeter& meter,
                                          const Runnable& runnable, TimingOptions timing,
                                          double us);

// Replays of `calls` computations of `us` microseconds that last `seconds` at least.
int ReplaysFor(double seconds, int calls, double us);

}  // namespace sinter::bench
