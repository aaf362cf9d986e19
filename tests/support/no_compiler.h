// What a test does that finds no run-time compiler: it fails, or is skipped with
// SINTER_TEST_NO_NVRTC=1.
#pragma once

#include <string_view>

#include "tests/support/test.h"

namespace sinter {

// Whether SINTER_TEST_NO_NVRTC=1 tells the tests that this machine has no run-time compiler.
inline bool ToldNoCompiler() {
  const char* told = std::getenv("SINTER_TEST_NO_NVRTC");
  return told != nullptr && std::string_view(told) == "1";
}

constexpr char kCompilerWanted[] =
    "no run-time compiler works here: SINTER_NVRTC names a libnvrtc, SINTER_TEST_NO_NVRTC=1 skips "
    "what needs one";

// The exit status of a program whose tests all compile: 77 is skipped. `reason`: any string.
template <typename Text>
int EndWithoutCompiler(const Text& reason) {
  std::printf("%s: %s\n", ToldNoCompiler() ? "skipped" : kCompilerWanted,
              std::string(reason).c_str());
  return ToldNoCompiler() ? 77 : 1;
}

}  // namespace sinter

// Ends a test, or its SetUp(), that finds no compiler.
#define SINTER_END_WITHOUT_COMPILER(reason)                                                   \
  do {                                                                                        \
    ASSERT_TRUE(::sinter::ToldNoCompiler()) << ::sinter::kCompilerWanted << ": " << (reason); \
    GTEST_SKIP() << (reason);                                                                 \
  } while (false)
