// ForEachIndex: a few independent slow steps at once.
#ifndef SINTER_SRC_ENGINE_PARALLEL_H_
#define SINTER_SRC_ENGINE_PARALLEL_H_

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

namespace sinter {

// Calls `step(0) .. step(count - 1)` on at most `most` threads, the caller's included (0: one per
// hardware thread), and returns when all are done. If a step throws, steps under way are finished,
// no other begins, and the first exception is thrown here. If no thread can be started, the calling
// thread does all the work.
inline void ForEachIndex(int count, const std::function<void(int)>& step, int most = 0) {
  std::atomic<int> next{0};
  std::atomic<bool> failed{false};
  std::exception_ptr thrown;  // set by the thread that set `failed`
  const auto work = [&]() noexcept {
    try {
      for (int i = next.fetch_add(1); i < count; i = next.fetch_add(1)) step(i);
    } catch (...) {
      next = count;
      if (!failed.exchange(true)) thrown = std::current_exception();
    }
  };
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  const int limit = std::min(count, most > 0 ? most : cores);
  std::vector<std::thread> threads;
  try {
    while (static_cast<int>(threads.size()) + 1 < limit) threads.emplace_back(work);
  } catch (const std::exception&) {
    // Too few threads: slower, not wrong.
  }
  work();
  for (std::thread& thread : threads) thread.join();
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

}  // namespace sinter

#endif  // SINTER_SRC_ENGINE_PARALLEL_H_
