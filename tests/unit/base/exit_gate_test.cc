#include "src/base/exit_gate.h"

#include "tests/support/test.h"

namespace sinter {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kGood = 0, kBad = 3;
constexpr std::chrono::seconds kSoon(ExitGate::kLongestWaitSeconds / 2);

// A library's destructor judges what it finds, and ends the child before LeakSanitizer looks:
// LeakSanitizer would report what threads of the parent own.
std::function<bool()> good_in_the_end;
void EndOfALibrary() { _exit(good_in_the_end() ? kGood : kBad); }

// The exit code of a child that loads a library, runs `body`, and exits; -1 if it dies otherwise.
int ExitOf(const std::function<bool()>& good, const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    good_in_the_end = good;
    std::atexit(EndOfALibrary);
    ExitGate::WaitAtExit();
    body();
    std::exit(kGood);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::atomic<bool> working{false};
bool NobodyWorks() { return !working; }

// A thread works until the process exits, and a little longer.
void StartWork(bool behind_the_gate) {
  std::atomic<bool> started{false};
  std::thread([behind_the_gate, &started] {
    const auto work = [&started] {
      working = true;
      started = true;
      for (int i = 0; i < 100 && !ExitGate::Exiting(); ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      working = false;
    };
    if (!behind_the_gate) return work();
    const ExitGate::Pass inside;
    work();
  }).detach();
  while (!started) std::this_thread::yield();
}

TEST(ExitGateTest, ExitWaitsForWhoIsInside) {
  EXPECT_EQ(ExitOf(NobodyWorks, [] { StartWork(true); }), kGood);
  EXPECT_EQ(ExitOf(NobodyWorks, [] { StartWork(false); }), kBad) << "the test sees nothing";
}

// A thread uses a library for the first time, which constructs something within that.
void StartFirstUse(bool says_so) {
  std::atomic<bool> constructed{false};
  std::thread([says_so, &constructed] {
    const ExitGate::Pass inside;
    std::optional<ExitGate::FirstUse> use;
    if (says_so) use.emplace();
    working = true;
    std::atexit(EndOfALibrary);
    constructed = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    working = false;
    ExitGate::WaitAtExit();
  }).detach();
  while (!constructed) std::this_thread::yield();
}

TEST(ExitGateTest, ExitOfTheMainThreadWaitsForFirstUses) {
  EXPECT_EQ(ExitOf(NobodyWorks, [] { StartFirstUse(true); }), kGood);
  EXPECT_EQ(ExitOf(NobodyWorks, [] { StartFirstUse(false); }), kBad) << "the test sees nothing";
}

TEST(ExitGateTest, NoFirstUseBeginsOnceTheMainThreadExits) {
  EXPECT_EQ(ExitOf(
                [] {
                  const auto begin = Clock::now();
                  return !ExitGate::FirstUse() && Clock::now() - begin < kSoon;
                },
                [] {}),
            kGood);
}

TEST(ExitGateTest, WhoExitsInsideDoesNotWaitForItself) {
  const auto begin = Clock::now();
  EXPECT_EQ(ExitOf([&] { return Clock::now() - begin < kSoon; },
                   [] {
                     const ExitGate::Pass outer, inner;
                     const ExitGate::FirstUse use;
                     std::exit(kGood);
                   }),
            kGood);
}

TEST(ExitGateTest, NothingBeginsOnceTheProcessExits) {
  EXPECT_EQ(ExitOf([] { return ExitGate::Exiting() && !ExitGate::Pass(); },
                   [] {
                     const ExitGate::Pass inside;
                     if (!inside || ExitGate::Exiting()) std::exit(kBad);
                   }),
            kGood);
}

TEST(ExitGateTest, AChildDoesNotWaitForItsParentsThreads) {
  const ExitGate::Pass inside;
  std::atomic<bool> end{false}, begun{false};
  std::thread other([&] {
    const ExitGate::Pass pass;
    begun = true;
    while (!end) std::this_thread::yield();
  });
  while (!begun) std::this_thread::yield();
  const auto begin = Clock::now();
  EXPECT_EQ(ExitOf([&] { return Clock::now() - begin < kSoon; }, [] { const ExitGate::Pass own; }),
            kGood);
  end = true;
  other.join();
}

}  // namespace
}  // namespace sinter
