// The installed NVRTC. Skipped where there is none.
#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/base/compile_request.h"
#include "src/base/config.h"
#include "tests/support/child.h"
#include "tests/support/no_compiler.h"

namespace sinter {
namespace {

CompileRequest RealRequest(const std::string& source) {
  return CompileRequest{.name = "real_test.cu", .source = source, .arch = "sm_90a", .entry = "k"};
}

constexpr char kTrivial[] = "extern \"C\" __global__ void k(float* p) { p[threadIdx.x] = 1; }";

// 200 live values in 1024 threads of at most 64 registers each.
constexpr char kSpilling[] = R"(
extern "C" __global__ void __launch_bounds__(1024) k(float* p) {
  float a[200];
#pragma unroll
  for (int i = 0; i < 200; i++) a[i] = p[i * 32 + threadIdx.x];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 200; i++) p[i] += a[199 - i] * a[(i * 7) % 200] * a[i];
})";

constexpr char kRemark[] = R"(
extern "C" __global__ void k(float* p) {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
  p[threadIdx.x] = 1;
})";

class RealNvrtc : public ::testing::Test {
 protected:
  void SetUp() override {
    compiler = MakeNvrtcCompiler(Got(ConfigFromEnvironment()).nvrtc_path);
    const auto id = compiler->ToolchainId();
    if (!id.ok()) SINTER_END_WITHOUT_COMPILER(id.status());
  }
  std::unique_ptr<Compiler> compiler;
};

constexpr double kQuickUs = 0.5e6;

TEST_F(RealNvrtc, CompilesATrivialKernelQuickly) {
  const auto kernel = Got(compiler->Compile(RealRequest(kTrivial)));
  EXPECT_TRUE(CheckCubin(kernel.cubin).ok());
  EXPECT_GT(kernel.registers, 0);
  EXPECT_EQ(kernel.spill_bytes, 0);
  EXPECT_GT(kernel.compile_us, 0);
  // The first reads NVRTC's pages, and a busy machine may hold one up.
  double best_us = kernel.compile_us;
  for (int i = 0; i < 4 && best_us >= kQuickUs; ++i) {
    best_us = std::min(best_us, Got(compiler->Compile(RealRequest(kTrivial))).compile_us);
  }
  EXPECT_LT(best_us, kQuickUs);
}

TEST_F(RealNvrtc, EqualRequestsGiveEqualBinaries) {
  const auto one = compiler->Compile(RealRequest(kTrivial));
  const auto two = compiler->Compile(RealRequest(kTrivial));
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(one->cubin, two->cubin);
}

TEST_F(RealNvrtc, AttachesTheLogOfARefusedSource) {
  const auto kernel = compiler->Compile(
      RealRequest("extern \"C\" __global__ void k(float* p) { p[0] = no_such_name; }"));
  EXPECT_EQ(StatusNumber(kernel.status()), static_cast<int32_t>(ErrorCode::kCompileFailed));
  EXPECT_THAT(kernel.status().ToString(), HasSubstr("no_such_name"));
  std::string storage;
  EXPECT_THAT(std::string(CompileLogOf(kernel.status(), &storage)), HasSubstr("real_test.cu(1)"));
}

TEST_F(RealNvrtc, RefusesAKernelThatSpills) {
  const auto kernel = compiler->Compile(RealRequest(kSpilling));
  EXPECT_EQ(StatusNumber(kernel.status()), static_cast<int32_t>(ErrorCode::kCompileFailed));
  EXPECT_THAT(kernel.status().ToString(), HasSubstr("registers spill"));
}

TEST_F(RealNvrtc, SaysHowMuchOfAnAllowedSpillThereIs) {
  CompileRequest request = RealRequest(kSpilling);
  request.most_spill_bytes = 1 << 20;
  EXPECT_GT(Got(compiler->Compile(request)).spill_bytes, 0);
}

TEST_F(RealNvrtc, RefusesAKernelWithAPerformanceRemark) {
  const auto kernel = compiler->Compile(RealRequest(kRemark));
  EXPECT_EQ(StatusNumber(kernel.status()), static_cast<int32_t>(ErrorCode::kCompileFailed));
  EXPECT_THAT(kernel.status().ToString(), HasSubstr("C7508"));
}

TEST_F(RealNvrtc, FindsHeadersInMemoryByName) {
  CompileRequest request = RealRequest(
      "#include \"tile/a.cuh\"\n"
      "extern \"C\" __global__ void k(float* p) { p[0] = kValue; }");
  request.headers = {{"tile/a.cuh", "#include \"b.cuh\"\n"},
                     {"b.cuh", "constexpr float kValue = VALUE;\n"}};
  request.options = {"-DVALUE=2.5f"};
  const auto kernel = Got(compiler->Compile(request));
  request.headers[1].second = "constexpr float kValue = VALUE + 1;\n";
  const auto other = Got(compiler->Compile(request));
  EXPECT_NE(other.cubin, kernel.cubin);  // the header's bytes are what is compiled
}

TEST_F(RealNvrtc, ToolchainIdHoldsVersionAndBuildId) {
  const std::string id = compiler->ToolchainId().value();
  EXPECT_THAT(id, MatchesRegex("nvrtc-[0-9]+\\.[0-9]+-(sha256:)?[0-9a-f]+"));
}

TEST_F(RealNvrtc, TheBuildIdCanBePeekedWithoutOpeningTheLibrary) {
  const auto fresh = MakeNvrtcCompiler(Got(ConfigFromEnvironment()).nvrtc_path);
  const std::string peeked = fresh->PeekBuildId();
  EXPECT_FALSE(fresh->Loaded());
  if (peeked.empty()) GTEST_SKIP() << "the library's file cannot be told beforehand here";
  EXPECT_THAT(compiler->ToolchainId().value(), EndsWith("-" + peeked));
}

// Takes a second or more.
std::string SlowSource() {
  std::string source = "extern \"C\" __global__ void k(float* p) {\n  float x = p[threadIdx.x];\n";
  for (int i = 0; i < 500; ++i) {
    source +=
        "  if (x < " + std::to_string(i) + ".5f) x = sinf(x) + p[" + std::to_string(i) + "];\n";
  }
  return source + "  p[threadIdx.x] = x;\n}\n";
}

using Clock = std::chrono::steady_clock;

class Flag : public KeepGoing {
 public:
  absl::Status Check() const override {
    return set ? absl::CancelledError("it was cancelled") : absl::OkStatus();
  }
  std::atomic<bool> set{false};
};

TEST_F(RealNvrtc, ACancelEndsACompile) {
  Flag cancel;
  Clock::time_point cancelled;
  std::thread canceller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    cancelled = Clock::now();
    cancel.set = true;
  });
  const auto kernel = compiler->Compile(RealRequest(SlowSource()), &cancel);
  const Clock::time_point end = Clock::now();
  canceller.join();
  ASSERT_FALSE(kernel.ok()) << "compiled in " << kernel->compile_us << " us: not slow enough";
  EXPECT_TRUE(absl::IsCancelled(kernel.status())) << kernel.status();
  EXPECT_LT(end - cancelled, std::chrono::milliseconds(500));
}

// What a child of a fork ends with, whose parent has a thread in NVRTC: it makes a compiler of its
// own, as a new context does.
int CompileInChild(const std::string& nvrtc) {
  alarm(10);
  const Clock::time_point start = Clock::now();
  const auto own = MakeNvrtcCompiler(nvrtc);
  const absl::Status id = own->ToolchainId().status(),
                     kernel = own->Compile(RealRequest(kTrivial)).status();
  for (const absl::Status& status : {id, kernel}) {
    if (!absl::IsUnavailable(status)) return 2;
    if (std::string(status.message()).find("spawn") == std::string::npos) return 3;
  }
  return Clock::now() - start < std::chrono::seconds(1) ? 0 : 4;
}

TEST_F(RealNvrtc, ChildrenForkedInACompileAreToldSoAndNeverHang) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer allows no threads behind a fork of a process with threads";
#endif
  const std::string nvrtc = ConfigFromEnvironment()->nvrtc_path;
  Flag stop;
  std::thread busy([&] {
    while (!stop.set) (void)compiler->Compile(RealRequest(SlowSource()), &stop);
  });
  while (compiler->Compiles() == 0) std::this_thread::yield();
  int wrong = 0;
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // somewhere else in the compile
    const int end = EndOfChild([&] { return CompileInChild(nvrtc); });
    EXPECT_GE(end, 0) << "a signal";
    // Between two compiles a child may compile.
    wrong += end != 0;
  }
  stop.set = true;
  busy.join();
  EXPECT_LE(wrong, 1);
}

TEST_F(RealNvrtc, CompilesOnTwoThreadsAtOnce) {
  absl::Status statuses[2];
  std::thread threads[2];
  for (int i = 0; i < 2; ++i) {
    threads[i] = std::thread([&, i] {
      for (int repeat = 0; repeat < 3; ++repeat) {
        const auto kernel = compiler->Compile(RealRequest(kTrivial));
        if (!kernel.ok()) statuses[i] = kernel.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(statuses[0].ok()) << statuses[0];
  EXPECT_TRUE(statuses[1].ok()) << statuses[1];
  EXPECT_EQ(compiler->Compiles(), 6u);
}

}  // namespace
}  // namespace sinter
