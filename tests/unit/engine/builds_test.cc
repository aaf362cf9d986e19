// Builds that callers share, weak references to what was built, and what stops a build.
#include "src/engine/control.h"
#include "src/engine/module_cache.h"
#include "tests/support/child.h"
#include "tests/support/on_threads.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

using Flight = SingleFlight<int>;

void Sleep(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

TEST(SingleFlightTest, SixteenThreadsBuildOnce) {
  Flight flights;
  std::atomic<int> arrived{0}, builds{0}, waits{0}, sum{0};
  OnThreads(16, [&](int) {
    bool waited = false;
    ++arrived;
    const auto result = flights.Do(
        "k", BuildControl(),
        [&]() -> absl::StatusOr<int> {
          ++builds;
          while (arrived < 16) Sleep(1);
          Sleep(100);
          return 7;
        },
        &waited);
    sum += result.value();
    waits += waited;
  });
  EXPECT_EQ(builds, 1);
  EXPECT_EQ(waits, 15);
  EXPECT_EQ(sum, 16 * 7);
}

TEST(SingleFlightTest, DifferentKeysDoNotWaitForOneAnother) {
  Flight flights;
  const auto inner = [&]() -> absl::StatusOr<int> {
    return flights.Do("b", BuildControl(), [] { return absl::StatusOr<int>(2); });
  };
  EXPECT_EQ(flights.Do("a", BuildControl(), inner).value(), 2);
}

TEST(SingleFlightTest, FailureIsSharedAndThenForgotten) {
  Flight flights;
  std::atomic<int> builds{0};
  std::atomic<bool> inside{false}, joined{false};
  const auto fail = [&]() -> absl::StatusOr<int> {
    ++builds;
    inside = true;
    while (!joined) Sleep(1);
    Sleep(100);
    return absl::InternalError("broken");
  };
  std::thread builder([&] { EXPECT_FALSE(flights.Do("k", BuildControl(), fail).ok()); });
  while (!inside) Sleep(1);
  joined = true;
  const auto shared = flights.Do("k", BuildControl(), fail);
  builder.join();
  EXPECT_EQ(shared.status().message(), "broken");
  EXPECT_EQ(builds, 1);
  EXPECT_EQ(flights.Do("k", BuildControl(), [] { return absl::StatusOr<int>(3); }).value(), 3);
}

TEST(SingleFlightTest, AWaiterTakesOverFromABuilderThatWasCancelled) {
  Flight flights;
  std::atomic<bool> inside{false}, cancel{false};
  const BuildControl impatient(0, &cancel, nullptr);
  std::thread builder([&] {
    const auto result = flights.Do("k", impatient, [&]() -> absl::StatusOr<int> {
      inside = true;
      while (!cancel) Sleep(1);
      return absl::CancelledError("mine");
    });
    EXPECT_TRUE(absl::IsCancelled(result.status()));
  });
  while (!inside) Sleep(1);
  std::thread canceller([&] {
    Sleep(20);
    cancel = true;
  });
  const auto result = flights.Do("k", BuildControl(), [] { return absl::StatusOr<int>(5); });
  builder.join();
  canceller.join();
  EXPECT_EQ(result.value(), 5);
}

TEST(SingleFlightTest, AWaiterObeysItsOwnDeadlineAndCancelFlag) {
  Flight flights;
  std::atomic<bool> inside{false}, release{false};
  std::thread builder([&] {
    EXPECT_TRUE(flights
                    .Do("k", BuildControl(),
                        [&]() -> absl::StatusOr<int> {
                          inside = true;
                          while (!release) Sleep(1);
                          return 1;
                        })
                    .ok());
  });
  while (!inside) Sleep(1);
  const auto never = [] { return absl::StatusOr<int>(0); };
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      flights.Do("k", BuildControl(5000, nullptr, nullptr), never).status()));
  std::atomic<bool> cancel{true};
  EXPECT_TRUE(
      absl::IsCancelled(flights.Do("k", BuildControl(0, &cancel, nullptr), never).status()));
  release = true;
  builder.join();
}

TEST(SingleFlightTest, AnExceptionLandsTheFlight) {
  Flight flights;
  EXPECT_THROW(
      (void)flights.Do("k", BuildControl(),
                       []() -> absl::StatusOr<int> { throw std::runtime_error("out of memory"); }),
      std::runtime_error);
  EXPECT_EQ(flights.Do("k", BuildControl(), [] { return absl::StatusOr<int>(3); }).value(), 3);
}

// Another may have the memory that the builder lacked.
TEST(SingleFlightTest, AWaiterTakesOverFromABuilderThatThrew) {
  Flight flights;
  std::atomic<bool> inside{false}, waiting{false};
  std::thread builder([&] {
    EXPECT_THROW((void)flights.Do("k", BuildControl(),
                                  [&]() -> absl::StatusOr<int> {
                                    inside = true;
                                    while (!waiting) Sleep(1);
                                    Sleep(20);
                                    throw std::bad_alloc();
                                  }),
                 std::bad_alloc);
  });
  while (!inside) Sleep(1);
  waiting = true;
  EXPECT_EQ(flights.Do("k", BuildControl(), [] { return absl::StatusOr<int>(5); }).value(), 5);
  builder.join();
}

// The child forks in the middle of a build of its own, and lands it: the parent's flight is not
// there.
TEST(SingleFlightTest, AChildBuildsWhatItsParentIsBuilding) {
  Flight flights;
  int end = -1;
  const auto result = flights.Do("k", BuildControl(), [&]() -> absl::StatusOr<int> {
    end = EndOfChild([&] {
      const auto own = flights.Do("k", BuildControl(), [] { return absl::StatusOr<int>(2); });
      return own.ok() ? *own : 1;
    });
    return 7;
  });
  EXPECT_EQ(result.value(), 7);
  EXPECT_EQ(end, 2);
}

TEST(WeakCacheTest, FindsWhatLivesAndKeepsNothingAlive) {
  WeakCache<int> cache;
  auto value = std::make_shared<const int>(4);
  cache.Insert("k", value);
  EXPECT_EQ(cache.Find("k"), value);
  EXPECT_EQ(cache.Find("other"), nullptr);
  value.reset();
  EXPECT_EQ(cache.Find("k"), nullptr);
}

TEST(WeakCacheTest, ErasedEntriesAreGoneThoughTheyLive) {
  WeakCache<int> cache;
  cache.Insert("k", std::make_shared<const int>(4));
  cache.Erase("k");
  EXPECT_EQ(cache.Find("k"), nullptr);
}

TEST(WeakCacheTest, SweepsTheDeadAndKeepsTheLiving) {
  WeakCache<int> cache;
  std::vector<std::shared_ptr<const int>> living;
  for (int i = 0; i < 1000; ++i) {
    auto value = std::make_shared<const int>(i);
    cache.Insert(std::to_string(i), value);
    if (i % 10 == 0) living.push_back(value);
  }
  for (const auto& value : living) EXPECT_EQ(cache.Find(std::to_string(*value)), value);
}

TEST(BuildControlTest, WithoutLimitNothingEverStops) {
  const BuildControl control;
  EXPECT_TRUE(control.Enter("search", 0.5).ok());
  EXPECT_EQ(control.RemainingUs(1234), 1234);
}

TEST(BuildControlTest, CancelFlagNamesTheNextStage) {
  std::atomic<bool> cancel{false};
  const BuildControl control(0, &cancel, nullptr);
  EXPECT_TRUE(control.Check("search").ok());
  cancel = true;
  EXPECT_TRUE(Fails(control.Check("search"), absl::StatusCode::kCancelled, "search"));
}

TEST(BuildControlTest, DeadlinePasses) {
  const BuildControl control(1000, nullptr, nullptr);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_TRUE(absl::IsDeadlineExceeded(control.Check("compile")));
  EXPECT_EQ(control.RemainingUs(1000000), 0);
}

TEST(BuildControlTest, NegativeDeadlineHasPassedAndAHugeOneIsNone) {
  EXPECT_TRUE(absl::IsDeadlineExceeded(BuildControl(-5, nullptr, nullptr).Check("x")));
  const BuildControl control(std::numeric_limits<int64_t>::max(), nullptr, nullptr);
  EXPECT_TRUE(control.Check("x").ok());
  EXPECT_EQ(control.RemainingUs(7), 7);
}

TEST(BuildControlTest, ProgressIsToldOnlyWhatGoesAhead) {
  std::atomic<bool> cancel{false};
  std::vector<std::string> stages;
  const BuildControl control(0, &cancel,
                             [&](absl::string_view stage, double) { stages.emplace_back(stage); });
  EXPECT_TRUE(control.Enter("search", 0.1).ok());
  cancel = true;
  EXPECT_FALSE(control.Enter("compile", 0.5).ok());
  EXPECT_THAT(stages, ElementsAre("search"));
}

}  // namespace
}  // namespace sinter
