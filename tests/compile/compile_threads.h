// On how many threads the tests of this folder compile, and how much.
#ifndef SINTER_TESTS_COMPILE_COMPILE_THREADS_H_
#define SINTER_TESTS_COMPILE_COMPILE_THREADS_H_

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tests/support/test_day.h"

namespace sinter {

// The jobs whose numbers are of today.
template <class Job>
std::vector<Job> JobsOfToday(std::vector<Job> jobs, size_t parts) {
  if (IsLongSweep()) return jobs;
  std::printf("each %zu of %zu\n", parts, jobs.size());
  std::vector<Job> taken;
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (IsOfToday(i, parts)) taken.push_back(std::move(jobs[i]));
  }
  return taken;
}

// SINTER_TEST_THREADS, or two: other tests run beside it.
inline int CompileThreads() {
  const char* text = std::getenv("SINTER_TEST_THREADS");
  return text == nullptr || *text == 0 ? 2 : std::max(1, std::atoi(text));
}

}  // namespace sinter

#endif  // SINTER_TESTS_COMPILE_COMPILE_THREADS_H_
