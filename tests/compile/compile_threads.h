// On how many threads the tests of this folder compile, and how much.
#ifndef SINTER_TESTS_COMPILE_COMPILE_THREADS_H_
#define SINTER_TESTS_COMPILE_COMPILE_THREADS_H_

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>
#include <vector>

namespace sinter {

// Whether everything is compiled, of which an everyday run takes a part.
inline bool IsLongSweep() {
  const char* value = std::getenv("SINTER_TEST_LONG");
  return value != nullptr && value[0] == '1';
}

// Every `parts`-th of `jobs` in an everyday run, others each day; all in a long one.
// SINTER_TEST_DAY, a number, takes the day's place.
template <class Job>
std::vector<Job> JobsOfToday(std::vector<Job> jobs, size_t parts) {
  if (IsLongSweep()) return jobs;
  const char* text = std::getenv("SINTER_TEST_DAY");
  const auto day = static_cast<size_t>(text == nullptr || *text == 0 ? std::time(nullptr) / 86400
                                                                     : std::atoll(text));
  std::printf("each %zu of %zu, SINTER_TEST_DAY=%zu\n", parts, jobs.size(), day % parts);
  std::vector<Job> taken;
  for (size_t i = day % parts; i < jobs.size(); i += parts) taken.push_back(std::move(jobs[i]));
  return taken;
}

// SINTER_TEST_THREADS, or two: other tests run beside it.
inline int CompileThreads() {
  const char* text = std::getenv("SINTER_TEST_THREADS");
  return text == nullptr || *text == 0 ? 2 : std::max(1, std::atoi(text));
}

}  // namespace sinter

#endif  // SINTER_TESTS_COMPILE_COMPILE_THREADS_H_
