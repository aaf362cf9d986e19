// On how many threads the tests of this folder compile.
#ifndef SINTER_TESTS_COMPILE_COMPILE_THREADS_H_
#define SINTER_TESTS_COMPILE_COMPILE_THREADS_H_

#include "tests/support/common.h"

namespace sinter {

// SINTER_TEST_THREADS, or two: other tests run at the same time.
inline int CompileThreads() {
  const char* text = std::getenv("SINTER_TEST_THREADS");
  return text == nullptr || *text == 0 ? 2 : std::max(1, std::atoi(text));
}

}  // namespace sinter

#endif  // SINTER_TESTS_COMPILE_COMPILE_THREADS_H_
