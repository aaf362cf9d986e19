#include "src/engine/bound_plan.h"
#include "tests/unit/engine/engine_tests.h"

namespace sinter {
namespace {

// Which modules stay loaded on the device, and for how long.

using testing::kK;
using testing::kL;
using testing::kN;

Config Cap(uint64_t bytes) { return Config{.module_cache_bytes = bytes}; }

TEST(ModulesTest, APlanThatIsPreparedAgainFindsItsModulesLoaded) {
  FakeWorld world;
  const auto engine = world.MakeEngine();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.loads, 1);
  EXPECT_EQ(world.loaded, 1);
  EXPECT_EQ(engine->Stats().modules_loaded, 1u);
  EXPECT_GT(engine->Stats().module_bytes, 0u);
  EXPECT_EQ(engine->Stats().kernel_hits, 0u);
}

TEST(ModulesTest, BucketsOfOneCodeShareAModule) {
  FakeWorld world;
  const auto engine = world.MakeEngine(Cap(1));
  auto small = engine->Prepare(world.chain, 16, {}).value();
  auto large = engine->Prepare(world.chain, 64, {}).value();
  EXPECT_EQ(small->plan().kernels[0].kernel_digest, large->plan().kernels[0].kernel_digest);
  EXPECT_EQ(world.compiles, 1);
  EXPECT_EQ(world.loads, 1);
  EXPECT_EQ(engine->Stats().modules_loaded, 1u);
  small.reset();
  EXPECT_EQ(world.loaded, 1) << "the other plan uses it";
  large.reset();
  EXPECT_EQ(world.loaded, 0);
}

TEST(ModulesTest, WithoutRoomAModuleGoesWithItsLastPlan) {
  FakeWorld world;
  const auto engine = world.MakeEngine(Cap(1));
  auto plan = engine->Prepare(world.chain, 16, {}).value();
  auto same = engine->Prepare(world.chain, 9, {}).value();
  plan.reset();
  EXPECT_EQ(world.loaded, 1);
  same.reset();
  EXPECT_EQ(world.loaded, 0);
  EXPECT_EQ(engine->Stats().modules_loaded, 0u);
  EXPECT_EQ(engine->Stats().modules_unloaded, 1u);
  ASSERT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.loads, 2);
  EXPECT_EQ(world.compiles, 1);
}

TEST(ModulesTest, TheLongestUnusedGoFirst) {
  FakeWorld world{.code_per_bucket = true};
  uint64_t bytes = 0;
  {
    const auto probe = world.MakeEngine();
    ASSERT_TRUE(probe->Prepare(world.chain, 64, {}).ok());
    bytes = probe->Stats().module_bytes;
  }
  const auto engine = world.MakeEngine(Cap(2 * bytes + bytes / 2));
  for (const int64_t m : {16, 64, 16, 128}) ASSERT_TRUE(engine->Prepare(world.chain, m, {}).ok());
  EXPECT_EQ(world.loaded, 2);
  const int loads = world.loads;
  ASSERT_TRUE(engine->Prepare(world.chain, 16, {}).ok());
  EXPECT_EQ(world.loads, loads);
  ASSERT_TRUE(engine->Prepare(world.chain, 64, {}).ok());
  EXPECT_EQ(world.loads, loads + 1);
  EXPECT_EQ(world.loaded, 2);
}

TEST(ModulesTest, ABindingAndAGraphKeepTheirModules) {
  FakeWorld world;
  const auto engine = world.MakeEngine(Cap(1));
  FakeBuffers buffers({16 * kK * 2, kN * kK * 2, kN * kL * 2, 16 * kL * 2, 1 << 20});
  std::vector<DevicePtr> pointers = buffers.pointers();
  const DevicePtr workspace = pointers.back();
  pointers.pop_back();
  world.compute = false;
  auto plan = engine->Prepare(world.chain, 16, {}).value();
  auto binding = plan->Bind(pointers, workspace).value();
  world.capturing = true;
  ASSERT_TRUE(plan->Launch(*binding, nullptr, 16, false).ok());
  world.capturing = false;
  plan.reset();
  EXPECT_EQ(world.loaded, 1);
  binding.reset();
  EXPECT_EQ(world.loaded, 1);
  ASSERT_TRUE(engine->Prepare(world.chain, 64, {}).ok());  // makes room, and finds none
  EXPECT_EQ(world.loaded, 1);
  world.graph.clear();
  EXPECT_EQ(world.loaded, 0);
}

TEST(ModulesTest, NothingUnusedOutlivesTheEngineAndAPlanDoes) {
  FakeWorld world{.code_per_bucket = true};
  auto engine = world.MakeEngine();
  auto held = engine->Prepare(world.chain, 16, {}).value();
  ASSERT_TRUE(engine->Prepare(world.chain, 64, {}).ok());
  EXPECT_EQ(world.loaded, 2);
  engine.reset();
  EXPECT_EQ(world.loaded, 1);
  held.reset();
  EXPECT_EQ(world.loaded, 0);
}

TEST(ModulesTest, AFoundWrongKernelIsNotKept) {
  FakeWorld world{.wrong = {"grid"}};
  const auto engine = world.MakeEngine();
  const auto plan = engine->Prepare(world.chain, 16, {.verify = true}).value();
  EXPECT_EQ(plan->plan().name(), "unfused");
  EXPECT_EQ(world.loaded, 2);
  EXPECT_EQ(engine->Stats().modules_loaded, 2u);
}

// Many models come and go: what is loaded stays under the cap.
TEST(ModulesTest, ChurnStaysUnderTheCap) {
  FakeWorld world{.code_per_bucket = true};
  const uint64_t cap = 8192;
  const auto engine = world.MakeEngine(Cap(cap));
  std::vector<std::shared_ptr<const PreparedPlan>> held(3);
  for (int i = 0; i < 300; ++i) {
    const int64_t m = int64_t{64} << (i * 7 % 6);
    held[static_cast<size_t>(i) % held.size()] = engine->Prepare(world.chain, m, {}).value();
    EXPECT_LE(engine->Stats().module_bytes, cap);
    EXPECT_EQ(engine->Stats().modules_loaded, static_cast<uint64_t>(world.loaded.load()));
  }
}

using Module = ModuleCache::Module;

TEST(ModuleCacheTest, KeepsTheLastUsedUpToTheCap) {
  ModuleCache cache(100);
  std::weak_ptr<const void> modules[4];
  for (int i = 0; i < 3; ++i) {
    Module module = std::make_shared<int>(i);
    modules[i] = module;
    cache.Add(absl::StrCat(i), std::move(module), 40);
    if (i == 1) cache.Touch("0");
  }
  EXPECT_FALSE(modules[0].expired());
  EXPECT_TRUE(modules[1].expired());
  EXPECT_FALSE(modules[2].expired());
  EXPECT_EQ(cache.Stats().loaded, 2u);
  EXPECT_EQ(cache.Stats().bytes, 80u);
  EXPECT_EQ(cache.Stats().unloaded, 1u);
}

TEST(ModuleCacheTest, WhatIsInUseStaysAboveTheCapAndGoesWhenItIsReleased) {
  ModuleCache cache(50);
  Module held[3];
  std::weak_ptr<const void> seen[3];
  for (int i = 0; i < 3; ++i) {
    held[i] = std::make_shared<int>(i);
    seen[i] = held[i];
    cache.Add(absl::StrCat(i), held[i], 40);
  }
  EXPECT_EQ(cache.Stats().loaded, 3u);
  EXPECT_EQ(cache.Stats().bytes, 120u);
  for (int i = 0; i < 3; ++i) {
    held[i].reset();
    EXPECT_FALSE(seen[i].expired());  // nobody was notified yet
    cache.Released({absl::StrCat(i)});
    EXPECT_EQ(seen[i].expired(), i < 2) << i;
  }
  EXPECT_EQ(cache.Stats().bytes, 40u);
  EXPECT_EQ(cache.Stats().unloaded, 2u);
}

TEST(ModuleCacheTest, ReleasedMakesTheLastUsed) {
  ModuleCache cache(100);
  Module first = std::make_shared<int>(1);
  const std::weak_ptr<const void> seen = first;
  cache.Add("first", first, 40);
  cache.Add("second", std::make_shared<int>(2), 40);
  first.reset();
  cache.Released({"first", "unknown"});
  cache.Add("third", std::make_shared<int>(3), 40);
  EXPECT_FALSE(seen.expired());
}

TEST(ModuleCacheTest, ReplacesForgetsAndClears) {
  ModuleCache cache(1000);
  cache.Add("a", std::make_shared<int>(1), 10);
  cache.Add("a", std::make_shared<int>(2), 20);
  EXPECT_EQ(cache.Stats().bytes, 20u);
  cache.Add("b", std::make_shared<int>(3), 30);
  cache.Forget("a");
  cache.Forget("never there");
  EXPECT_EQ(cache.Stats().bytes, 30u);
  cache.Clear();
  EXPECT_EQ(cache.Stats().loaded, 0u);
  EXPECT_EQ(cache.Stats().bytes, 0u);
  EXPECT_EQ(cache.Stats().unloaded, 3u);
}

TEST(ModuleCacheTest, ThreadsAgreeOnTheSum) {
  ModuleCache cache(500);
  OnThreads(4, [&](int t) {
    for (int i = 0; i < 2000; ++i) {
      const std::string key = absl::StrCat((i * 7 + t) % 50);
      Module module = std::make_shared<int>(i);
      cache.Add(key, module, 10);
      module.reset();
      cache.Released({key});
      cache.Touch(absl::StrCat(i % 50));
    }
  });
  const ModuleStats stats = cache.Stats();
  EXPECT_EQ(stats.bytes, stats.loaded * 10);
  EXPECT_LE(stats.bytes, 500u);
  EXPECT_EQ(stats.loaded + stats.unloaded, 8000u);
}

}  // namespace
}  // namespace sinter
