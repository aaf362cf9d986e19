#include "src/engine/module_cache.h"

#include "tests/support/on_threads.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

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
