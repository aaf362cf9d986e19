// A process may exit while a prepare of its own is under way on a thread of the library.
#include "tests/capi/abi.h"
#include "tests/support/no_compiler.h"

namespace sinter_test {
namespace {

constexpr int kUnderWay = 0, kEnded = 1, kRefused = 2, kNoCompiler = 3;

int EndOf(const sinter_pending* pending) {
  if (sinter_pending_poll(pending) == 0) return kUnderWay;
  sinter_plan* plan = nullptr;
  const Result result = Try(sinter_pending_get, pending, 0, &plan);
  return result.status == SINTER_UNAVAILABLE ? kNoCompiler : kEnded;
}

// The child prepares, after another prepare if `warm`; it calls `at_start` when it has begun.
// Returns what it has come to once `at_start` returns.
int PrepareAnd(bool warm, const std::function<void(const sinter_pending*)>& at_start) {
  const ContextPtr context = MakeTarget();
  if (warm) {
    const ChainPtr first = FromText("matmul m=M n=64 k=64");
    sinter_plan* plan = nullptr;
    const Result result = Try(sinter_prepare, context.get(), first.get(), 1, nullptr, &plan);
    if (result.status != SINTER_OK) {
      _exit(result.status == SINTER_UNAVAILABLE ? kNoCompiler : kRefused);
    }
  }
  const ChainPtr chain = FromText("gated_ffn m=M n=3072 k=1024 l=1024 act=silu");
  sinter_pending* pending = nullptr;
  const Result result =
      Try(sinter_prepare_async, context.get(), chain.get(), 20, nullptr, &pending);
  if (result.status != SINTER_OK) std::exit(kRefused);
  at_start(pending);
  std::exit(EndOf(pending));
}

// Runs a child: only it loads what exit() destroys.
int ExitOf(bool warm, const std::function<void(const sinter_pending*)>& at_start) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(100);
    PrepareAnd(warm, at_start);
  }
  return sinter::EndOf(child);
}

// How long such a prepare takes here and now.
std::chrono::duration<double> Whole(bool warm) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  ExitOf(warm, [&](const sinter_pending* pending) {
    const auto start = std::chrono::steady_clock::now();
    while (sinter_pending_poll(pending) == 0) std::this_thread::yield();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    if (write(ends[1], &took, sizeof(took)) != sizeof(took)) _exit(kRefused);
  });
  close(ends[1]);
  std::chrono::duration<double> took{0};
  if (read(ends[0], &took, sizeof(took)) != sizeof(took)) took *= 0;  // there was no compiler
  close(ends[0]);
  return took;
}

// The exits are at parts of the time of a whole prepare, so that a slow machine exits as early in
// it.
void ExpectGoodEnds(bool warm) {
  const std::chrono::duration<double> whole = Whole(warm);
  int under_way = 0;
  for (const double part : {0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.2}) {
    const int code =
        ExitOf(warm, [&](const sinter_pending*) { std::this_thread::sleep_for(part * whole); });
    if (code == kNoCompiler) SINTER_END_WITHOUT_COMPILER("no compiler here");
    EXPECT_THAT(code, testing::AnyOf(kUnderWay, kEnded)) << "after " << part << " of a prepare";
    under_way += code == kUnderWay;
  }
  EXPECT_GT(under_way, 1) << "the prepares were too short to show anything";
}

TEST(ExitAbi, AProcessEndsWellWhileAPrepareIsUnderWay) { ExpectGoodEnds(true); }

TEST(ExitAbi, AProcessEndsWellWhileItsFirstPrepareIsUnderWay) { ExpectGoodEnds(false); }

}  // namespace
}  // namespace sinter_test
