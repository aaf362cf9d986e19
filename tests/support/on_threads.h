// Threads of a test that start together and are all joined.
#pragma once

#include "tests/support/common.h"

namespace sinter {

// Calls `run(0)` to `run(count - 1)`, each on a thread of its own, and waits for all.
inline void OnThreads(size_t count, const std::function<void(int)>& run) {
  std::vector<std::thread> threads;
  for (size_t i = 0; i < count; ++i) threads.emplace_back(run, static_cast<int>(i));
  for (std::thread& thread : threads) thread.join();
}

}  // namespace sinter
