// A process may exit while a prepare of its own is under way on a thread of the library.
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <thread>

#include "gmock/gmock.h"
#include "tests/capi/abi.h"
#include "tests/support/no_compiler.h"

namespace sinter_test {
namespace {

constexpr int kUnderWay = 0, kEnded = 1, kRefused = 2, kNoCompiler = 3;

int EndOf(const sinter_pending* pending) {
  if (sinter_pending_poll(pending) == 0) return kUnderWay;
  sinter_plan* plan = nullptr;
  const Result result = Try([&](auto e) { return sinter_pending_get(pending, 0, &plan, e); });
  return result.status == SINTER_UNAVAILABLE ? kNoCompiler : kEnded;
}

// A child of its own: what exit() destroys is loaded there alone. It exits a while into a prepare,
// with another before it where `warm`.
int ExitAfter(std::chrono::milliseconds pause, bool warm) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    const ContextPtr context = MakeTarget();
    if (warm) {
      const ChainPtr first = FromText("matmul m=M n=64 k=64");
      sinter_plan* plan = nullptr;
      const Result result = Try(
          [&](auto e) { return sinter_prepare(context.get(), first.get(), 1, nullptr, &plan, e); });
      if (result.status != SINTER_OK)
        _exit(result.status == SINTER_UNAVAILABLE ? kNoCompiler : kRefused);
    }
    const ChainPtr chain = FromText("gated_ffn m=M n=3072 k=1024 l=1024 act=silu");
    sinter_pending* pending = nullptr;
    const Result result = Try([&](auto e) {
      return sinter_prepare_async(context.get(), chain.get(), 20, nullptr, &pending, e);
    });
    if (result.status != SINTER_OK) std::exit(kRefused);
    std::this_thread::sleep_for(pause);
    std::exit(EndOf(pending));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

void ExpectGoodEnds(bool warm) {
  int under_way = 0;
  for (const int pause : {0, 3, 5, 7, 20, 57, 80, 250, 600}) {
    const int code = ExitAfter(std::chrono::milliseconds(pause), warm);
    if (code == kNoCompiler) SINTER_END_WITHOUT_COMPILER("no compiler here");
    EXPECT_THAT(code, testing::AnyOf(kUnderWay, kEnded)) << "after " << pause << " ms";
    under_way += code == kUnderWay;
  }
  EXPECT_GT(under_way, 1) << "the prepares were too short to show anything";
}

TEST(ExitAbi, AProcessEndsWellWhileAPrepareIsUnderWay) { ExpectGoodEnds(true); }

TEST(ExitAbi, AProcessEndsWellWhileItsFirstPrepareIsUnderWay) { ExpectGoodEnds(false); }

}  // namespace
}  // namespace sinter_test
