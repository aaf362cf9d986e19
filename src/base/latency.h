// Latency: how long calls of one kind took, counted as a Prometheus histogram is.
#ifndef SINTER_SRC_BASE_LATENCY_H_
#define SINTER_SRC_BASE_LATENCY_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iterator>

namespace sinter {

// Upper bounds in microseconds, ascending. Calls that took longer are counted after the last one.
constexpr int64_t kLatencyBoundsUs[] = {10,    50,    100,    500,     1000,    5000,
                                        10000, 50000, 100000, 1000000, 10000000};

struct LatencyCounts {
  // Calls up to each bound and above the one before; the last element counts the longer ones.
  std::array<uint64_t, std::size(kLatencyBoundsUs) + 1> calls = {};
  uint64_t ns = 0;  // summed over all calls
};

// Thread-safe. Accesses are relaxed, so a snapshot is not of one instant.
class Latency {
 public:
  void Add(std::chrono::steady_clock::duration took) {
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(took).count();
    const auto* const bound = std::lower_bound(std::begin(kLatencyBoundsUs),
                                               std::end(kLatencyBoundsUs), (ns + 999) / 1000);
    calls_[static_cast<size_t>(bound - kLatencyBoundsUs)].fetch_add(1, std::memory_order_relaxed);
    ns_.fetch_add(static_cast<uint64_t>(std::max<int64_t>(ns, 0)), std::memory_order_relaxed);
  }
  LatencyCounts Counts() const {
    LatencyCounts counts;
    for (size_t i = 0; i < calls_.size(); ++i)
      counts.calls[i] = calls_[i].load(std::memory_order_relaxed);
    counts.ns = ns_.load(std::memory_order_relaxed);
    return counts;
  }

 private:
  std::array<std::atomic<uint64_t>, std::size(kLatencyBoundsUs) + 1> calls_{};
  std::atomic<uint64_t> ns_{0};
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_LATENCY_H_
