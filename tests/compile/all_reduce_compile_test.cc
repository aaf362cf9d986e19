// Sums over ranks through the real NVRTC for sm_90a: every type, form and number of ranks. The
// compiler port refuses a kernel that spills; here none may. Exits 77 without NVRTC.
#include <cstdio>
#include <cstdlib>

#include "gtest/gtest.h"
#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/collective/all_reduce.h"
#include "src/collective/all_reduce_source.h"
#include "src/device/device_library.h"

namespace sinter {
namespace {

std::unique_ptr<Compiler> Nvrtc() {
  const char* path = std::getenv("SINTER_NVRTC");
  return MakeNvrtcCompiler(path == nullptr ? "" : path);
}

TEST(AllReduceCompile, NoKernelSpills) {
  const auto compiler = Nvrtc();
  int number = 0;
  for (const int ranks : {2, 3, 8}) {
    for (const DType element : {DType::kBF16, DType::kF16, DType::kF32}) {
      for (const DType result : {DType::kBF16, DType::kF32}) {
        AllReduceProblem problem;
        problem.ranks = ranks;
        problem.element = element;
        problem.result = result;
        problem.columns = 5120;
        ++number;
        problem.residual = number % 3 != 0;
        problem.rounded = number % 2 != 0;
        problem.squares = number % 4 < 2;
        const AllReduceSchedule schedule{number % 5 < 3, number % 2 == 0 ? 256 : 512, 1};
        ASSERT_TRUE(CheckAllReduce(problem, schedule).ok());
        CompileRequest request;
        request.name = "all_reduce.cu";
        request.source = AllReduceSource(problem, schedule);
        request.headers = CopyDeviceHeaders();
        request.arch = "sm_90a";
        request.options = {"--std=c++17"};
        request.entry = kAllReduceEntry;
        const auto compiled = compiler->Compile(request);
        EXPECT_TRUE(compiled.ok())
            << problem.ToString() << ", " << schedule.ToString() << ": " << compiled.status();
      }
    }
  }
}

}  // namespace
}  // namespace sinter

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (!sinter::Nvrtc()->ToolchainId().ok()) {
    std::printf("skipped: no NVRTC\n");
    return 77;
  }
  return RUN_ALL_TESTS();
}
