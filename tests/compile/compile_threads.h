// On how many threads the tests of this folder compile, and how much.
#ifndef SINTER_TESTS_COMPILE_COMPILE_THREADS_H_
#define SINTER_TESTS_COMPILE_COMPILE_THREADS_H_

#include <algorithm>
#include <cstdlib>

namespace sinter {

// Whether everything is compiled, of which an everyday run takes a part.
inline bool IsLongSweep() {
  const char* value = std::getenv("SINTER_TEST_LONG");
  return value != nullptr && value[0] == '1';
}

// SINTER_TEST_THREADS, or two: other tests run beside it.
inline int CompileThreads() {
  const char* text = std::getenv("SINTER_TEST_THREADS");
  return text == nullptr || *text == 0 ? 2 : std::max(1, std::atoi(text));
}

}  // namespace sinter

#endif  // SINTER_TESTS_COMPILE_COMPILE_THREADS_H_
