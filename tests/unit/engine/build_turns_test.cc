#include "src/engine/build_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>
#include <vector>

namespace sinter {
namespace {

TEST(BuildTurnsTest, AtMostSoManyAreOutAndAllComeToTheirTurn) {
  BuildTurns turns(2);
  std::atomic<int> out{0}, most{0}, done{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      const absl::StatusOr<BuildTurns::Turn> turn = turns.Wait(BuildControl());
      ASSERT_TRUE(turn.ok());
      const int now = ++out;
      for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      --out;
      ++done;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, 8);
  EXPECT_EQ(most, 2);
}

TEST(BuildTurnsTest, WhoIsCancelledOrLateHasNoTurn) {
  BuildTurns turns(1);
  std::atomic<bool> cancel{true};
  const BuildControl cancelled(0, &cancel, nullptr), late(1000, nullptr, nullptr);
  {
    const absl::StatusOr<BuildTurns::Turn> first = turns.Wait(BuildControl());
    ASSERT_TRUE(first.ok());
    EXPECT_TRUE(absl::IsCancelled(turns.Wait(cancelled).status()));
    EXPECT_TRUE(absl::IsDeadlineExceeded(turns.Wait(late).status()));
  }
  EXPECT_TRUE(turns.Wait(BuildControl()).ok());
}

TEST(BuildTurnsTest, ATurnMovesAndEndsOnce) {
  BuildTurns turns(1);
  const BuildControl soon(1000, nullptr, nullptr);
  {
    absl::StatusOr<BuildTurns::Turn> first = turns.Wait(BuildControl());
    const BuildTurns::Turn moved = *std::move(first);
    EXPECT_FALSE(turns.Wait(soon).ok());
  }
  const absl::StatusOr<BuildTurns::Turn> again = turns.Wait(BuildControl());
  EXPECT_TRUE(again.ok());
  EXPECT_FALSE(turns.Wait(BuildControl(1000, nullptr, nullptr)).ok());
}

}  // namespace
}  // namespace sinter
