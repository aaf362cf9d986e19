// On how many threads the tests of this folder compile.
#pragma once

#include "tests/support/common.h"

namespace sinter {

// SINTER_TEST_THREADS, or two: other tests run at the same time.
inline int CompileThreads() {
  const char* text = std::getenv("SINTER_TEST_THREADS");
  return text == nullptr || *text == 0 ? 2 : std::max(1, std::atoi(text));
}

}  // namespace sinter
