#include "src/reference/parallel.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

namespace sinter::reference {

int HardwareThreads() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

void ParallelFor(int threads, int64_t items, int64_t grain,
                 const std::function<void(int64_t, int64_t)>& body) {
  if (items <= 0) return;
  grain = std::max<int64_t>(1, grain);
  const int64_t pieces = (items + grain - 1) / grain;
  if (threads <= 1 || pieces == 1) return body(0, items);
  std::atomic<int64_t> next{0};
  const auto work = [&] {
    for (int64_t piece = next++; piece < pieces; piece = next++) {
      body(piece * grain, std::min(items, (piece + 1) * grain));
    }
  };
  std::vector<std::thread> helpers;
  for (int64_t i = 1; i < std::min<int64_t>(threads, pieces); ++i) {
    try {
      helpers.emplace_back(work);
    } catch (const std::system_error&) {
      break;
    }
  }
  work();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace sinter::reference
