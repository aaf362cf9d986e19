// What ends, forks or deepens a process: gates at its exit and its forks, stacks, progress.
#include "src/base/enough_stack.h"
#include "src/base/exit_gate.h"
#include "src/base/fork_local.h"
#include "src/base/keep_going.h"
#include "tests/support/child.h"
#include "tests/support/stack_of.h"

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
  return EndOf(child);
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

TEST(ForkGateTest, AChildPassesWhenNobodyWasInside) {
  ForkGate gate;
  { EXPECT_TRUE(gate.Enter()); }
  EXPECT_EQ(EndOfChild([&] { return gate.Enter() && gate.Enter() ? 0 : 1; }), 0);
  EXPECT_TRUE(gate.Enter());
}

TEST(ForkGateTest, AChildOfAParentWithSomebodyInsideNeverPasses) {
  ForkGate gate;
  pid_t child = -1;
  {
    const ForkGate::Pass inside = gate.Enter();
    child = fork();
    if (child == 0) {
      if (gate.Enter()) _exit(1);
      const pid_t grandchild = fork();
      if (grandchild == 0) _exit(gate.Enter() ? 1 : 0);
      _exit(EndOf(grandchild));
    }
  }
  EXPECT_EQ(EndOf(child), 0);
  EXPECT_TRUE(gate.Enter());  // the parent's own
}

TEST(ForkGateTest, WhoForkedInsideDoesNotOpenTheGateByLeaving) {
  ForkGate gate;
  pid_t child = -1;
  {
    const ForkGate::Pass inside = gate.Enter();
    child = fork();
  }
  if (child == 0) _exit(gate.Enter() ? 1 : 0);
  EXPECT_EQ(EndOf(child), 0);
}

// Takes `bytes` of stack.
void Touch(size_t bytes) {
  volatile char piece[4096];
  piece[0] = 1;
  if (bytes > sizeof(piece)) Touch(bytes - sizeof(piece));
  piece[sizeof(piece) - 1] = piece[0];
}

TEST(EnoughStack, LargeStacksAreUsedAndSmallOnesAreNot) {
  for (const size_t bytes :
       {size_t{128} << 10, size_t{1} << 20, size_t{2} << 20, size_t{8} << 20}) {
    RunOnStackOf(bytes, [&] {
      const std::thread::id caller = std::this_thread::get_id();
      EXPECT_GT(StackLeft(), bytes / 2);  // glibc may give a larger one, of a thread that ended
      bool here = false;
      EXPECT_TRUE(OnEnoughStack([&] {
                    here = std::this_thread::get_id() == caller;
                    Touch(kEnoughStack - (64 << 10));
                    return absl::OkStatus();
                  }).ok());
      EXPECT_EQ(here, StackLeft() >= kEnoughStack);
      EXPECT_TRUE(here || bytes < kEnoughStack);
    });
  }
}

TEST(EnoughStack, WhatIsReturnedOrThrownComesBack) {
  RunOnStackOf(128 << 10, [] {
    EXPECT_EQ(OnEnoughStack([] { return NotFound("it"); }).message(), "it");
    EXPECT_THROW((void)OnEnoughStack([]() -> absl::Status { throw std::length_error("it"); }),
                 std::length_error);
  });
}

// Says no from its `refusal`-th ask on.
class Counting : public KeepGoing {
 public:
  explicit Counting(int refusal) : refusal_(refusal) {}
  absl::Status Check() const override {
    return ++asks < refusal_ ? absl::OkStatus() : absl::CancelledError("enough");
  }
  mutable int asks = 0;

 private:
  const int refusal_;
};

TEST(KeepGoingTest, APaceAsksOnceInSoManySteps) {
  const Counting port(1000000);
  Pace pace(&port);
  for (int i = 0; i < 10 * Pace::kStride; ++i) pace.Step();
  EXPECT_GE(port.asks, 9);
  EXPECT_LE(port.asks, 10);
}

TEST(KeepGoingTest, ManyStepsAtOnceAreAskedForAtOnce) {
  const Counting port(1000000);
  Pace pace(&port);
  pace.Step(Pace::kStride + 1);
  EXPECT_EQ(port.asks, 1);
  pace.Ask();
  EXPECT_EQ(port.asks, 2);
}

TEST(KeepGoingTest, WorkThatIsNotWantedEndsWithThePortsStatus) {
  const Counting port(3);
  int64_t done = 0;
  const absl::StatusOr<int> result = Stoppable(&port, [&](Pace* pace) -> absl::StatusOr<int> {
    for (;; ++done) Step(pace);
  });
  EXPECT_EQ(result.status(), absl::CancelledError("enough"));
  EXPECT_EQ(port.asks, 3);
  EXPECT_LE(done, 3 * (Pace::kStride + 1));
}

TEST(KeepGoingTest, WithoutAPortOrAPaceNobodyIsAsked) {
  const absl::StatusOr<int> result = Stoppable(nullptr, [](Pace* pace) -> absl::StatusOr<int> {
    Step(pace, 10 * Pace::kStride);
    Ask(pace);
    return 7;
  });
  EXPECT_EQ(result.value(), 7);
  Step(nullptr);
  Ask(nullptr);
}

}  // namespace
}  // namespace sinter
