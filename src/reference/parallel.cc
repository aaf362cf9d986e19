#include "src/reference/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
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
  std::atomic<bool> failed{false};
  std::exception_ptr thrown;  // set by the one that set `failed`
  const auto work = [&]() noexcept {
    try {
      for (int64_t piece = next++; piece < pieces; piece = next++) {
        body(piece * grain, std::min(items, (piece + 1) * grain));
      }
    } catch (...) {
      next = pieces;
      if (!failed.exchange(true)) thrown = std::current_exception();
    }
  };
  std::vector<std::thread> helpers;
  try {
    for (int64_t i = 1; i < std::min<int64_t>(threads, pieces); ++i) helpers.emplace_back(work);
  } catch (const std::exception&) {
    // Too few threads: slower, not wrong.
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

}  // namespace sinter::reference
