// The exchanges of src/device/dsm through the real NVRTC for sm_90a, in every shape that the GPU
// test forces, with and without test hooks. The compiler port refuses a kernel that spills or draws
// a C75xx remark. Exits 77 without NVRTC.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/nvrtc/nvrtc_compiler.h"
#include "tests/bench/dsm/cases.h"
#include "tests/gpu/dsm_kernels.h"

namespace sinter::gpu_testing {
namespace {

constexpr int kThreads = 2;

std::unique_ptr<Compiler> MakeCompiler() {
  const char* path = std::getenv("SINTER_NVRTC");
  return MakeNvrtcCompiler(path == nullptr ? "" : path);
}

void CompileAll(const std::vector<CompileRequest>& requests) {
  const std::unique_ptr<Compiler> compiler = MakeCompiler();
  std::vector<absl::StatusOr<CompiledKernel>> compiled(requests.size(),
                                                       absl::UnknownError("not run"));
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < requests.size(); i = next++)
        compiled[i] = compiler->Compile(requests[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
  int registers = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_TRUE(compiled[i].ok()) << requests[i].name << ": " << compiled[i].status();
    if (!compiled[i].ok()) continue;
    registers = std::max(registers, compiled[i]->registers);
    EXPECT_EQ(compiled[i]->log.find("warning"), std::string::npos) << requests[i].name << "\n"
                                                                   << compiled[i]->log;
  }
  std::cout << requests.size() << " kernels, registers at most " << registers << "\n";
}

// Every third of them in an everyday run; SINTER_TEST_LONG=1 takes all, as dsm_gpu_test does.
TEST(DsmCompile, EveryExchangeAtEveryGroupAsItShips) {
  const char* variable = getenv("SINTER_TEST_LONG");
  const size_t step = variable != nullptr && std::string(variable) == "1" ? 1 : 3;
  const std::vector<DsmCase> cases = AllDsmCases();
  std::vector<CompileRequest> requests;
  for (size_t i = 0; i < cases.size(); i += step) requests.push_back(DsmRequest(cases[i], false));
  CompileAll(requests);
}

TEST(DsmCompile, TestBuildsOfEveryExchange) {
  std::vector<CompileRequest> requests;
  for (const DsmCase& c : AllDsmCases()) {
    if (c.cluster == c.ranks) requests.push_back(DsmRequest(c, true));
  }
  CompileAll(requests);
}

TEST(DsmCompile, TimedKernelsOfTheSmallestAndTheLargestPayload) {
  std::vector<CompileRequest> requests;
  for (const bench::DsmTimedCase& c : bench::AllDsmTimedCases()) {
    if (c.payload_bytes == 1024 || c.payload_bytes == 65536)
      requests.push_back(bench::DsmTimedRequest(c));
  }
  CompileAll(requests);
}

}  // namespace
}  // namespace sinter::gpu_testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (::testing::GTEST_FLAG(list_tests)) return RUN_ALL_TESTS();
  const auto toolchain = sinter::gpu_testing::MakeCompiler()->ToolchainId();
  if (absl::IsUnavailable(toolchain.status())) {
    std::cout << "skipped: " << toolchain.status().message() << "\n";
    return 77;
  }
  return RUN_ALL_TESTS();
}
