// The probes of a device through the real NVRTC for sm_90a. The compiler port refuses a kernel that
// spills or draws a C75xx remark.
#include "runtime/measure/probes.h"
#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/base/compile_request.h"
#include "tests/support/no_compiler.h"

namespace sinter {
namespace {

TEST(ProbeCompile, EveryProbeCompilesWithoutSpillsAndRemarks) {
  const char* path = std::getenv("SINTER_NVRTC");
  const std::unique_ptr<Compiler> compiler = MakeNvrtcCompiler(path == nullptr ? "" : path);
  ASSERT_EQ(ProbeEntries().size(), 7u);
  for (const std::string& entry : ProbeEntries()) {
    const CompiledKernel kernel = Got(compiler->Compile(ProbeRequest(entry)), entry);
    EXPECT_EQ(kernel.spill_bytes, 0) << entry;
    EXPECT_TRUE(CheckCubin(kernel.cubin).ok()) << entry << ": what the loader takes";
    EXPECT_EQ(kernel.log.find("warning"), std::string::npos) << entry << "\n" << kernel.log;
  }
}

}  // namespace
}  // namespace sinter

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (::testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  const char* path = std::getenv("SINTER_NVRTC");
  const auto toolchain = sinter::MakeNvrtcCompiler(path == nullptr ? "" : path)->ToolchainId();
  if (absl::IsUnavailable(toolchain.status())) {
    return sinter::EndWithoutCompiler(toolchain.status().message());
  }
  return RUN_ALL_TESTS();
}
