// The probes of a device through the real NVRTC for Hopper, other chips and PTX. The compiler port
// refuses a kernel that spills or draws a C75xx remark.
#include "runtime/measure/probes.h"
#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/base/arch.h"
#include "src/base/compile_request.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(ProbeCompile, EveryProbeCompilesWithoutSpillsAndRemarks) {
  const char* path = std::getenv("SINTER_NVRTC");
  const std::unique_ptr<Compiler> compiler = MakeNvrtcCompiler(path == nullptr ? "" : path);
  for (const char* arch :
       {"sm_90a", "sm_80", "sm_86", "sm_89", "sm_100", "sm_120", "compute_80", "compute_89"}) {
    const ArchFeatures chip = Got(FeaturesOf(arch));
    const std::vector<std::string> entries = ProbeEntries(chip);
    ASSERT_EQ(entries.size(), chip.products ? 7u : 6u);
    for (const std::string& entry : entries) {
      SCOPED_TRACE(absl::StrCat(arch, " ", entry));
      const CompiledKernel kernel = Got(compiler->Compile(Got(ProbeRequest(entry, arch))));
      EXPECT_EQ(kernel.spill_bytes, 0);
      EXPECT_EQ(IsPtx(kernel.cubin), chip.translated);
      EXPECT_OK(CheckCode(kernel.cubin)) << "what the loader takes";
      EXPECT_EQ(kernel.log.find("warning"), std::string::npos) << kernel.log;
    }
  }
}

}  // namespace
}  // namespace sinter
