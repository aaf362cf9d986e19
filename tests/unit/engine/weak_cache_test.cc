
#include "src/engine/module_cache.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

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
  const auto value = std::make_shared<const int>(4);
  cache.Insert("k", value);
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

}  // namespace
}  // namespace sinter
