
#include "cache/tiers/tiers.h"
#include "tests/support/on_threads.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

MemoryCache::Id IdOf(int i, RecordKind kind = RecordKind::kKernel) {
  return {kind, Sha256(absl::StrCat("id ", i))};
}

TEST(MemoryCacheTest, KeepsTheNewestWithinItsCap) {
  const uint64_t cost = MemoryCache::CostOf(1000);
  MemoryCache cache(3 * cost);
  for (int i = 0; i < 3; ++i) cache.Put(IdOf(i), std::string(1000, 'a'));
  EXPECT_NE(cache.Get(IdOf(0)), nullptr);  // now the newest
  cache.Put(IdOf(3), std::string(1000, 'a'));
  EXPECT_EQ(cache.Get(IdOf(1)), nullptr);
  EXPECT_NE(cache.Get(IdOf(0)), nullptr);
  EXPECT_NE(cache.Get(IdOf(2)), nullptr);
  EXPECT_NE(cache.Get(IdOf(3)), nullptr);
  EXPECT_EQ(cache.entries(), 3u);
  EXPECT_EQ(cache.bytes(), 3 * cost);
}

TEST(MemoryCacheTest, ReplacesAndErases) {
  MemoryCache cache(1 << 20);
  cache.Put(IdOf(1), std::string("old"));
  cache.Put(IdOf(1), std::string("new one"));
  EXPECT_EQ(*cache.Get(IdOf(1)), "new one");
  EXPECT_EQ(cache.bytes(), MemoryCache::CostOf(7));
  cache.Erase(IdOf(1));
  EXPECT_EQ(cache.Get(IdOf(1)), nullptr);
  EXPECT_EQ(cache.bytes(), 0u);
}

TEST(MemoryCacheTest, TellsKindsApart) {
  MemoryCache cache(1 << 20);
  cache.Put(IdOf(1, RecordKind::kPlan), std::string("plan"));
  EXPECT_EQ(cache.Get(IdOf(1, RecordKind::kKernel)), nullptr);
}

TEST(MemoryCacheTest, DropsWhatIsLargerThanTheCap) {
  MemoryCache cache(1000);
  cache.Put(IdOf(1), std::string("small"));
  cache.Put(IdOf(1), std::string(2000, 'x'));
  EXPECT_EQ(cache.Get(IdOf(1)), nullptr);
  MemoryCache none(0);
  none.Put(IdOf(1), std::string());
  EXPECT_EQ(none.entries(), 0u);
}

TEST(MemoryCacheTest, ThreadsSeeWholePayloads) {
  MemoryCache cache(20000);  // 15 of the 20 entries, so that threads also evict
  std::atomic<int> wrong{0}, hits{0};
  OnThreads(4, [&](int t) {
    for (int i = 0; i < 2000; ++i) {
      const int id =
          (i / 4 * 7 + t) % 20;  // four times running: the second finds what the first put
      if (const auto got = cache.Get(IdOf(id))) {
        ++hits;
        if (*got != std::string(1000 + id, static_cast<char>('a' + id))) ++wrong;
      } else {
        cache.Put(IdOf(id), std::string(1000 + id, static_cast<char>('a' + id)));
      }
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(hits, 0);
  EXPECT_LE(cache.bytes(), 20000u);
}

}  // namespace
}  // namespace sinter
