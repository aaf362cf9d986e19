// Many threads, several engines on one store, keys that come and go, failures, cancels, damage:
// counts stay exact where they must, and a thread sanitizer finds nothing.
#include "tests/support/test.h"
#include "tests/unit/engine/fakes.h"

namespace sinter {
namespace {

using testing::FakeBuffers;
using testing::FakeWorld;
using Choice = PrepareOptions::Choice;

constexpr int kThreads = 16;

void InThreads(const std::function<void(int)>& work) {
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(work, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(EngineStressTest, ManyKeysByManyThreadsAreEachBuiltOnce) {
  FakeWorld world{.code_per_bucket = true, .compile_ms = 1, .compute = false};
  const auto engine = world.MakeEngine();
  const std::vector<int64_t> buckets = {1, 8, 16, 32, 64, 128, 256, 512};
  // Held, so that no plan dies between two uses.
  std::vector<std::vector<std::shared_ptr<const PreparedPlan>>> held(kThreads);
  InThreads([&](int thread) {
    for (size_t i = 0; i < buckets.size(); ++i) {
      const int64_t m = buckets[(i + static_cast<size_t>(thread)) % buckets.size()];
      held[static_cast<size_t>(thread)].push_back(engine->Prepare(world.chain, m, {}).value());
    }
  });
  EXPECT_EQ(world.plans, static_cast<int>(buckets.size()));
  EXPECT_EQ(world.compiles, static_cast<int>(buckets.size()));
  EXPECT_EQ(engine->Stats().kernels_loaded, buckets.size());
  EXPECT_EQ(engine->Stats().prepares, kThreads * buckets.size());
}

TEST(EngineStressTest, LaunchesFromManyThreadsShareOnePlan) {
  FakeWorld world{.compute = false};
  const auto engine = world.MakeEngine();
  const auto plan = engine->Prepare(world.chain, 16, {}).value();
  const auto bound = plan->Bind(testing::FarApart(4), 128).value();
  InThreads([&](int thread) {
    for (int i = 0; i < 200; ++i) {
      EXPECT_TRUE(plan->Launch(*bound, nullptr, thread, i % 2 == 0).ok());
    }
  });
  EXPECT_EQ(engine->Stats().launches, 200u * (kThreads - 1));  // without rows nothing is launched
}

// How the prepares of all threads ended.
struct Endings {
  std::atomic<int> ready{0}, cancelled{0}, late{0}, missed{0}, failed{0}, unexpected{0};
};

// One thread's random day.
void Churn(FakeWorld& world, const std::vector<std::shared_ptr<Engine>>& engines, int thread,
           Endings& endings) {
  std::mt19937 random(static_cast<unsigned>(thread));
  const auto below = [&](unsigned n) { return random() % n; };
  for (int i = 0; i < 60; ++i) {
    Engine& engine = *engines[below(static_cast<unsigned>(engines.size()))];
    std::atomic<bool> cancel{below(8) == 0};
    PrepareOptions options;
    options.choice = static_cast<Choice>(below(3));
    options.verify = below(16) == 0;
    options.deadline_us = below(6) == 0 ? 500 : 0;
    options.cancel = &cancel;
    options.must_hit = below(8) == 0;
    if (below(10) == 0) ++world.compile_failures;
    if (below(10) == 0) ++world.plan_failures;
    const int64_t m = int64_t{1} << below(5);
    const auto plan = engine.Prepare(world.chain, m, options);
    (void)engine.Stats();
    if (plan.ok()) {
      (void)(*plan)->Explain();
      const auto bound = (*plan)->Bind(testing::FarApart(4), 128).value();
      EXPECT_EQ((*plan)->plan().bucket, BucketOf(m));
      EXPECT_TRUE((*plan)->Launch(*bound, nullptr, 0, false).ok());
      ++endings.ready;
      continue;
    }
    const int32_t number = StatusNumber(plan.status());
    if (absl::IsCancelled(plan.status())) {
      EXPECT_TRUE(cancel);
      ++endings.cancelled;
    } else if (absl::IsDeadlineExceeded(plan.status())) {
      EXPECT_GT(options.deadline_us, 0);
      ++endings.late;
    } else if (number == static_cast<int32_t>(ErrorCode::kCacheMiss)) {
      EXPECT_TRUE(options.must_hit);
      ++endings.missed;
    } else if (number == static_cast<int32_t>(ErrorCode::kCompileFailed) ||
               number == static_cast<int32_t>(ErrorCode::kNoLegalPlan)) {
      ++endings.failed;
    } else {
      ADD_FAILURE() << plan.status();
      ++endings.unexpected;
    }
  }
}

TEST(EngineStressTest, ChurnOfFailuresCancelsAndDeadlinesEndsInKnownErrorsOnly) {
  FakeWorld world{.compile_ms = 1};
  std::vector<std::shared_ptr<Engine>> engines;
  for (int i = 0; i < 3; ++i) engines.push_back(world.MakeEngine());
  Endings endings;
  std::atomic<bool> stop{false};
  std::thread vandal([&] {
    std::mt19937 random(99);
    while (!stop) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      std::lock_guard<std::mutex> lock(world.disk->mutex);
      if (world.disk->records.empty()) continue;
      auto record = world.disk->records.begin();
      std::advance(record, random() % world.disk->records.size());
      if (random() % 2 == 0) {
        world.disk->records.erase(record);
      } else {
        record->second.resize(record->second.size() / 2);
      }
    }
  });
  InThreads([&](int thread) { Churn(world, engines, thread, endings); });
  stop = true;
  vandal.join();
  EXPECT_EQ(endings.unexpected, 0);
  EXPECT_EQ(endings.ready + endings.cancelled + endings.late + endings.missed + endings.failed,
            kThreads * 60);
  EXPECT_GT(endings.ready, kThreads);  // it is not that everything fails
  for (const auto* seen : {&endings.cancelled, &endings.missed, &endings.failed}) {
    EXPECT_GT(*seen, 0);
  }
  world.compile_failures = 0;
  world.plan_failures = 0;
  EXPECT_TRUE(engines[0]->Prepare(world.chain, 16, {}).ok());
}

TEST(EngineStressTest, AnEngineMayDieWhileItsPlansAreUsed) {
  constexpr int kLaunches = 500;
  FakeWorld world{.compute = false};
  auto engine = world.MakeEngine();
  const auto plan = engine->Prepare(world.chain, 16, {}).value();
  std::atomic<bool> started{false};
  std::thread user([&] {
    const auto bound = plan->Bind(testing::FarApart(4), 128).value();
    for (int i = 0; i < kLaunches; ++i) {
      EXPECT_TRUE(plan->Launch(*bound, nullptr, 1 + i % 16, false).ok());
      started = true;
    }
  });
  while (!started) std::this_thread::yield();
  engine.reset();
  user.join();
  ASSERT_EQ(world.launches.size(), size_t{kLaunches});  // none was lost
  for (int i = 0; i < kLaunches; ++i) {
    EXPECT_EQ(world.launches[static_cast<size_t>(i)].m, 1 + i % 16);
  }
  EXPECT_GT(world.loaded, 0);
}

}  // namespace
}  // namespace sinter
