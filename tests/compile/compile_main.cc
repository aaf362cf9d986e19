// The main function of programs that compile kernels: without a run-time compiler no test runs.
#include "runtime/nvrtc/nvrtc_compiler.h"
#include "tests/support/no_compiler.h"

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  ::testing::InitGoogleTest(&argc, argv);
  if (::testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  const char* path = std::getenv("SINTER_NVRTC");
  const auto toolchain = sinter::MakeNvrtcCompiler(path == nullptr ? "" : path)->ToolchainId();
  if (absl::IsUnavailable(toolchain.status())) {
    return sinter::EndWithoutCompiler(toolchain.status().message());
  }
  return RUN_ALL_TESTS();
}
