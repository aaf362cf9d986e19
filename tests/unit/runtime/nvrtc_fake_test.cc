#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/base/arch.h"
#include "tests/fakes/fake_nvrtc.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

CompileRequest Request(const std::string& source) {
  return CompileRequest{.name = "chain_s8.cu",
                        .source = source,
                        .options = {"-DX=1"},
                        .arch = "sm_90a",
                        .entry = "k"};
}

std::unique_ptr<Compiler> FakeCompiler() {
  return MakeNvrtcCompiler(NvrtcOpener(
      []() -> absl::StatusOr<std::shared_ptr<const NvrtcLibrary>> { return FakeNvrtc(); }));
}

TEST(NvrtcCompiler, OpensNothingBeforeItIsAsked) {
  int opened = 0;
  const auto compiler =
      MakeNvrtcCompiler(NvrtcOpener([&]() -> absl::StatusOr<std::shared_ptr<const NvrtcLibrary>> {
        ++opened;
        return FakeNvrtc();
      }));
  EXPECT_FALSE(compiler->Loaded());
  EXPECT_EQ(opened, 0);
  EXPECT_EQ(compiler->ToolchainId().value(), "nvrtc-13.0-fake");
  EXPECT_TRUE(compiler->Loaded());
  ASSERT_TRUE(compiler->Compile(Request("//kernel k")).ok());
  EXPECT_EQ(opened, 1);
  EXPECT_EQ(compiler->Compiles(), 1u);
}

TEST(NvrtcCompiler, WithoutALibraryEveryAnswerIsUnavailable) {
  const auto compiler = MakeNvrtcCompiler(std::string("/dev/null/libnvrtc.so"));
  const auto kernel = compiler->Compile(Request("//kernel k"));
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(kernel.status().ToString(), HasSubstr("/dev/null/libnvrtc.so"));
  EXPECT_THAT(kernel.status().ToString(), HasSubstr("SINTER_NVRTC"));
  EXPECT_EQ(compiler->ToolchainId().status().code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(compiler->Loaded());
  EXPECT_EQ(compiler->Compiles(), 0u);
  EXPECT_EQ(compiler->PeekBuildId(), "");
}

TEST(NvrtcCompiler, PassesTheOptions) {
  const auto kernel = Got(FakeCompiler()->Compile(Request("//kernel k")));
  EXPECT_EQ(kernel.log,
            "option --gpu-architecture=sm_90a\noption -default-device\noption --std=c++17\n"
            "option --ptxas-options=-v\noption -DX=1\n");
}

TEST(NvrtcCompiler, RefusesWhatMustNotRun) {
  const struct {
    const char* source;
    const char* message;
  } rows[] = {
      {"//log a.cu(3): error: no\n//fail", "NVRTC_ERROR_COMPILATION: a.cu(3): error: no"},
      {"//fail", "NVRTC_ERROR_COMPILATION"},
      {"//kernel k\n//log 16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads",
       "8 bytes of stores, 12 bytes of loads"},
      {"//kernel k\n//log (C7510) wgmma serialized", "(C7510) wgmma serialized"},
      {"//kernel kk", "no extern \"C\" kernel 'k'"},
  };
  for (const auto& row : rows) {
    const auto kernel = FakeCompiler()->Compile(Request(row.source));
    EXPECT_EQ(StatusNumber(kernel.status()), static_cast<int32_t>(ErrorCode::kCompileFailed));
    EXPECT_THAT(kernel.status().ToString(), HasSubstr(row.message));
    EXPECT_THAT(kernel.status().ToString(), HasSubstr("chain_s8.cu"));
    std::string storage;
    EXPECT_THAT(std::string(CompileLogOf(kernel.status(), &storage)), HasSubstr("option"));
  }
}

using Clock = std::chrono::steady_clock;

// Refuses once `left` has passed.
class Limit : public KeepGoing {
 public:
  explicit Limit(std::chrono::milliseconds left) : end_(Clock::now() + left) {}
  absl::Status Check() const override {
    return Clock::now() < end_ ? absl::OkStatus() : absl::DeadlineExceededError("too late");
  }

 private:
  const Clock::time_point end_;
};

TEST(NvrtcCompiler, ADeadlineEndsACompile) {
  for (const bool flow : {true, false}) {
    const auto compiler =
        MakeNvrtcCompiler(NvrtcOpener([&]() -> absl::StatusOr<std::shared_ptr<const NvrtcLibrary>> {
          return flow ? FakeNvrtc() : FakeNvrtcWithoutFlow();
        }));
    const Clock::time_point start = Clock::now();
    const Limit soon(std::chrono::milliseconds(50));
    const auto kernel = compiler->Compile(Request("//kernel k\n//hang"), &soon);
    EXPECT_TRUE(absl::IsDeadlineExceeded(kernel.status())) << kernel.status();
    EXPECT_THAT(kernel.status().ToString(), HasSubstr("compiling 'chain_s8.cu'"));
    EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(550));
    const Limit late(std::chrono::seconds(60));
    EXPECT_TRUE(compiler->Compile(Request("//kernel k"), &late).ok());
  }
}

// Nobody waits for them, and the next one does not add to them for ever.
TEST(NvrtcCompiler, LeftOverCompilesAreFew) {
  const auto compiler =
      MakeNvrtcCompiler(NvrtcOpener([]() -> absl::StatusOr<std::shared_ptr<const NvrtcLibrary>> {
        return FakeNvrtcWithoutFlow();
      }));
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto before = threads();
  const int processors = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  for (int i = 0; i < 2 * processors + 2; ++i) {
    const Limit soon(std::chrono::milliseconds(5));
    EXPECT_TRUE(
        absl::IsDeadlineExceeded(compiler->Compile(Request("//kernel k\n//hang"), &soon).status()));
  }
  EXPECT_LE(threads(), before + processors);
}

TEST(NvrtcCompiler, GivesPtxForAnArchThatTheDriverTranslates) {
  CompileRequest request = Request("//kernel k");
  request.entry = "k";
  request.arch = "compute_80";
  const CompiledKernel kernel = Got(FakeCompiler()->Compile(request));
  EXPECT_TRUE(IsPtx(kernel.cubin));
  EXPECT_TRUE(CheckCode(kernel.cubin).ok());
  request.arch = "sm_80";
  EXPECT_FALSE(IsPtx(Got(FakeCompiler()->Compile(request)).cubin));
  request.arch = "compute_80";
  request.entry = "another";
  EXPECT_TRUE(Says(FakeCompiler()->Compile(request), "defines no extern \"C\" kernel 'another'"));
}

TEST(NvrtcCompiler, RefusesARequestThatNamesNoKnownTarget) {
  CompileRequest no_arch = Request("//kernel k");
  no_arch.arch = "compute_90a";
  CompileRequest no_entry = Request("//kernel k");
  no_entry.entry.clear();
  for (const CompileRequest& request : {no_arch, no_entry}) {
    EXPECT_EQ(FakeCompiler()->Compile(request).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace sinter
