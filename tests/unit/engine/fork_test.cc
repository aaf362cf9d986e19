// Children of a process whose threads plan, compile and write in the background. They find what is
// cached, build what they may, and never wait for a thread that they do not have.
#include "runtime/nvrtc/nvrtc_compiler.h"
#include "src/chain/problem.h"
#include "src/engine/core.h"
#include "src/fusion/assembly.h"
#include "src/fusion/fusion.h"
#include "src/plan/kernel_code.h"
#include "tests/fakes/fake_nvrtc.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

constexpr int kChildren = 16;
constexpr unsigned kAlarmS = 20;  // a child that takes longer hangs

// What a child ends with; a signal otherwise.
enum ChildExit { kFine = 0, kMissedHeld, kMissedStored, kBadShared, kBadCold, kBadRefusal };

// A compiler with a lock of its own, as NVRTC has, that is held while it compiles.
std::mutex& CompilerLock() {
  static std::mutex* const lock = new std::mutex;
  return *lock;
}

nvrtcResult CompileUnderLock(nvrtcProgram program, int count, const char* const* options) {
  static const std::shared_ptr<const NvrtcLibrary>* const fake =
      new std::shared_ptr<const NvrtcLibrary>(FakeNvrtc());
  std::lock_guard<std::mutex> lock(CompilerLock());
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return (**fake)->CompileProgram(program, count, options);
}

absl::StatusOr<std::shared_ptr<const NvrtcLibrary>> OpenFake() {
  NvrtcTable table = *FakeNvrtc()->operator->();
  table.CompileProgram = &CompileUnderLock;
  return NvrtcLibrary::FromTable(table, "nvrtc-13.0-fake");
}

Chain ChainOf(int number) {
  return ParseProblem(absl::StrCat("softmax rows=16 cols=", 64 + 8 * number, " dtype=bf16"))->chain;
}

std::shared_ptr<Engine> MakeForkedEngine(const Config& config) {
  Ports ports = MakePorts(config, -1, "h200", LogSink()).value();
  ports.compiler = MakeNvrtcCompiler(OpenFake);
  PlanningHooks hooks{.plan = PlanChain};
  hooks.generate = [](const KernelSpec& spec,
                      const DeviceModel& model) -> absl::StatusOr<GeneratedKernel> {
    SINTER_ASSIGN_OR_RETURN(GeneratedKernel kernel, Generate(spec, model));
    absl::StrAppend(&kernel.request.source, "\n//kernel ", kernel.request.entry, "\n");
    return kernel;
  };
  hooks.assembly = MakePlanAssembly;
  hooks.device_headers = DeviceHeadersDigest();
  return CreateEngine(std::move(ports), config, LogSink(), std::move(hooks));
}

class ForkTest : public ::testing::Test {
 protected:
  ForkTest() {
    const std::filesystem::path dir = std::filesystem::path(::testing::TempDir()) / "engine_fork";
    std::filesystem::remove_all(dir);
    config.cache_dir = dir.string();
    engine = MakeForkedEngine(config);
  }

  absl::Status Prepare(int number, bool must_hit = false) {
    return engine->Prepare(ChainOf(number), 1, {.must_hit = must_hit}).status();
  }

  // Built, or refused because of the fork.
  static bool IsFair(const absl::Status& status) {
    return status.ok() ||
           (absl::IsUnavailable(status) && absl::StrContains(status.message(), "forked"));
  }

  Config config;
  std::shared_ptr<Engine> engine;
};

constexpr int kHeld = 0, kStored = 1, kFirstOther = 2;

TEST_F(ForkTest, ChildrenOfABusyParentNeverHang) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer allows no threads behind a fork of a process with threads";
#endif
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "a fork may find the locks of AddressSanitizer's allocator held";
#endif
  const auto held = Got(engine->Prepare(ChainOf(kHeld), 1, {}));
  ASSERT_TRUE(Prepare(kStored).ok());  // and dropped: the store has it
  std::atomic<bool> stop{false};
  std::atomic<int> next{kFirstOther};
  std::vector<std::thread> busy;
  for (int i = 0; i < 2; ++i) {
    busy.emplace_back([&] {
      while (!stop) EXPECT_TRUE(Prepare(next++).ok());
    });
  }
  const auto child = [&](int number) -> int {
    alarm(kAlarmS);
    if (!Prepare(kHeld, true).ok()) return kMissedHeld;
    if (!Prepare(kStored, true).ok()) return kMissedStored;
    const int shared = next - 1;  // a thread of the parent is at it
    if (!IsFair(Prepare(shared))) return kBadShared;
    if (!IsFair(Prepare(100000 + number))) return kBadCold;
    engine.reset();
    return kFine;
  };
  int ends[kChildren] = {};
  for (int i = 0; i < kChildren; ++i) {
    const pid_t pid = fork();
    if (pid == 0) _exit(child(i));
    ASSERT_GT(pid, 0);
    ASSERT_EQ(waitpid(pid, &ends[i], 0), pid);
    if (WIFSIGNALED(ends[i])) break;  // one is enough, and it took long
  }
  stop = true;
  for (std::thread& thread : busy) thread.join();
  for (const int end : ends) {
    ASSERT_FALSE(WIFSIGNALED(end)) << "a child hung or crashed: signal " << WTERMSIG(end);
    EXPECT_EQ(WEXITSTATUS(end), kFine);
  }
  EXPECT_TRUE(Prepare(200000).ok());  // the parent goes on
}

// Forked while a thread is inside the compiler for certain.
TEST_F(ForkTest, AChildIsToldThatItCannotCompile) {
  std::unique_lock<std::mutex> inside(CompilerLock());
  ASSERT_TRUE(engine->ports().compiler->ToolchainId().ok());
  std::thread builder([&] { EXPECT_TRUE(Prepare(7).ok()); });
  while (engine->ports().compiler->Compiles() == 0) std::this_thread::yield();
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(kAlarmS);
    const absl::Status status = Prepare(8);
    _exit(absl::IsUnavailable(status) && absl::StrContains(status.message(), "forked")
              ? kFine
              : kBadRefusal);
  }
  int end = 0;
  ASSERT_EQ(waitpid(pid, &end, 0), pid);
  inside.unlock();
  builder.join();
  ASSERT_TRUE(WIFEXITED(end));
  EXPECT_EQ(WEXITSTATUS(end), kFine);
}

}  // namespace
}  // namespace sinter
