#include "cache/tiers/tiers.h"

#include "tests/unit/cache/cache_tests.h"

namespace sinter {
namespace {

class TieredStoreTest : public testing::Test {
 protected:
  std::unique_ptr<TieredStore> Make(const std::string& root, uint64_t memory_bytes = 1 << 20) {
    TierOptions options{.local_root = root,
                        .memory_bytes = memory_bytes,
                        .producer = "sinter 0.1.0",
                        .sync = false};
    options.log = LogSink(LogLevel::kWarn, [this](LogLevel, absl::string_view message) {
      warnings_.push_back(std::string(message));
    });
    return std::make_unique<TieredStore>(options);
  }
  static uint64_t Misses(const Store& store, MissReason reason) {
    return store.Stats().misses[static_cast<int>(reason)];
  }

  TempDir temp_;
  std::vector<std::string> warnings_;
};

TEST_F(TieredStoreTest, MemoryAnswersBeforeTheLocalFolder) {
  const auto store = Make(temp_.path());
  EXPECT_EQ(store->Get(kPlan, "k").reason, MissReason::kAbsent);
  store->Put(kPlan, "k", "v");
  const Lookup memory = store->Get(kPlan, "k");
  EXPECT_TRUE(memory.hit);
  EXPECT_STREQ(memory.tier, "memory");
  store->Flush();
  const auto second = Make(temp_.path());
  const Lookup local = second->Get(kPlan, "k");
  EXPECT_STREQ(local.tier, "local");
  EXPECT_EQ(local.payload, "v");
  EXPECT_STREQ(second->Get(kPlan, "k").tier, "memory");
  const StoreStats stats = second->Stats();
  EXPECT_EQ(stats.local_hits, 1u);
  EXPECT_EQ(stats.memory_hits, 1u);
  EXPECT_EQ(store->Stats().puts, 1u);
  EXPECT_EQ(Misses(*store, MissReason::kAbsent), 1u);
  EXPECT_THAT(warnings_, IsEmpty());
}

// A record that is marked as checked, and that the engine refuses all the same.
TEST_F(TieredStoreTest, WhatWasRefusedIsServedNoMoreAndGivesWayToTheNextPut) {
  KernelRecord record = cache_testing::SampleKernelRecord();
  const std::string good = EncodeKernelRecord(record);
  record.entry = "of another kernel";
  record.verification.device = "NVIDIA H200";
  const std::string bad = EncodeKernelRecord(record);
  Make(temp_.path())->Put(kKernel, "k", bad);
  const auto store = Make(temp_.path());
  EXPECT_EQ(store->Get(kKernel, "k").payload, bad);
  EXPECT_TRUE(store->Refuse(kKernel, "k", bad));
  EXPECT_FALSE(store->Refuse(kKernel, "k", bad)) << "no news";
  const Lookup miss = store->Get(kKernel, "k");
  EXPECT_FALSE(miss.hit);
  EXPECT_THAT(miss.detail, HasSubstr("refused"));
  EXPECT_EQ(Make(temp_.path())->Get(kKernel, "k").payload, bad) << "nothing better is there";
  store->Put(kKernel, "k", good);
  EXPECT_EQ(store->Get(kKernel, "k").payload, good);
  store->Flush();
  EXPECT_EQ(Make(temp_.path())->Get(kKernel, "k").payload, good);
}

TEST_F(TieredStoreTest, WithoutMemoryTheLocalFolderAnswers) {
  const auto store = Make(temp_.path(), 0);
  store->Put(kPlan, "k", "v");
  EXPECT_STREQ(store->Get(kPlan, "k").tier, "local");
  EXPECT_STREQ(store->Get(kPlan, "k").tier, "local");
}

TEST_F(TieredStoreTest, WithoutAFolderItWorksInMemoryAndSaysSoOnce) {
  for (const std::string& root : {std::string(), std::string("/proc/none/cache")}) {
    warnings_.clear();
    const auto store = Make(root);
    EXPECT_EQ(store->Get(kPlan, "k").reason, MissReason::kDisabled);
    store->Put(kPlan, "k", "v");
    EXPECT_TRUE(store->Get(kPlan, "k").hit);
    EXPECT_EQ(store->LockForBuild(kPlan, "k", 1000000), nullptr);
    store->Get(kPlan, "other");
    EXPECT_EQ(store->Stats().put_failures, 0u);
    EXPECT_EQ(Misses(*store, MissReason::kDisabled), 2u);
    EXPECT_EQ(warnings_.size(), 1u);
    store->Quarantine(kPlan, "k", "seed 5");
    EXPECT_EQ(store->Get(kPlan, "k").reason, MissReason::kQuarantined);
    store->Put(kPlan, "k", "v");
    EXPECT_FALSE(store->Get(kPlan, "k").hit);
  }
}

TEST_F(TieredStoreTest, ARefusedFolderHasItsOwnReason) {
  ASSERT_EQ(chmod(temp_.path().c_str(), 0777), 0);
  const auto store = Make(temp_.path());
  EXPECT_EQ(store->Get(kPlan, "k").reason, MissReason::kRefusedOwner);
  store->Put(kPlan, "k", "v");
  EXPECT_TRUE(store->Get(kPlan, "k").hit);
  EXPECT_EQ(Misses(*store, MissReason::kRefusedOwner), 1u);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("writable by group or others")));
}

TEST_F(TieredStoreTest, DamageIsACountedMissWithAReason) {
  const auto writer = Make(temp_.path());
  writer->Put(kKernel, "k", "v");
  writer->Flush();
  WriteFile(PathIn(temp_.path(), kKernel, "k"), "damage");
  EXPECT_TRUE(writer->Get(kKernel, "k").hit);  // its own memory
  const auto reader = Make(temp_.path());
  const Lookup miss = reader->Get(kKernel, "k");
  EXPECT_FALSE(miss.hit);
  EXPECT_EQ(miss.reason, MissReason::kDamaged);
  EXPECT_EQ(Misses(*reader, MissReason::kDamaged), 1u);
  EXPECT_EQ(reader->Stats().quarantined, 1u);
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("cache: miss, ")));
  reader->Put(kKernel, "k", "v");
  reader->Flush();
  EXPECT_EQ(Make(temp_.path())->Get(kKernel, "k").payload, "v");
}

TEST_F(TieredStoreTest, QuarantineReachesTheMemoryOfOtherProcesses) {
  const auto a = Make(temp_.path()), b = Make(temp_.path());
  a->Put(kKernel, "k", "wrong");
  a->Flush();
  EXPECT_TRUE(b->Get(kKernel, "k").hit);
  a->Quarantine(kKernel, "k", "seed 17");
  for (Store* store : {a.get(), b.get()}) {
    const Lookup miss = store->Get(kKernel, "k");
    EXPECT_EQ(miss.reason, MissReason::kQuarantined);
    EXPECT_THAT(miss.detail, HasSubstr("seed 17"));
    store->Put(kKernel, "k", "wrong");
    EXPECT_FALSE(store->Get(kKernel, "k").hit);
    EXPECT_EQ(Misses(*store, MissReason::kQuarantined), 2u);
  }
  EXPECT_EQ(a->Stats().quarantined, 1u);
  EXPECT_EQ(b->Stats().put_failures, 1u);
}

TEST_F(TieredStoreTest, LosingTheFolderLosesNothingInMemory) {
  const std::string root = temp_ / "root";
  const auto store = Make(root);
  store->Put(kPlan, "k", "v");
  store->Flush();
  std::filesystem::remove_all(root);
  EXPECT_TRUE(store->Get(kPlan, "k").hit);
  EXPECT_EQ(store->Get(kPlan, "other").reason, MissReason::kAbsent);
  store->Put(kPlan, "new", "w");
  store->Flush();
  EXPECT_EQ(Make(root)->Get(kPlan, "new").payload, "w");
}

TEST_F(TieredStoreTest, LocksExcludeAndRelease) {
  const auto a = Make(temp_.path()), b = Make(temp_.path());
  auto held = a->LockForBuild(kPlan, "k", 0);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(b->LockForBuild(kPlan, "k", 2000), nullptr);
  held.reset();
  EXPECT_NE(b->LockForBuild(kPlan, "k", 2000), nullptr);
}

TEST_F(TieredStoreTest, ManyThreadsShareOneStore) {
  const auto store = Make(temp_.path(), 20000);
  std::atomic<int> wrong{0};
  OnThreads(4, [&](int t) {
    for (int i = 0; i < 200; ++i) {
      const std::string key = absl::StrCat("k", (i * 3 + t) % 30);
      const Lookup lookup = store->Get(kKernel, key);
      if (!lookup.hit) store->Put(kKernel, key, key + std::string(1000, 'x'));
      if (lookup.hit && lookup.payload != key + std::string(1000, 'x')) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
  const StoreStats stats = store->Stats();
  EXPECT_EQ(stats.put_failures, 0u);
  EXPECT_EQ(stats.memory_hits + stats.local_hits + Misses(*store, MissReason::kAbsent), 800u);
}

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

TEST(ForkLocalTest, AChildGoesOnWithAValueThatNobodyWasChanging) {
  ForkLocal<int> value;
  *value.Lock() = 7;
  EXPECT_EQ(EndOfChild([&] {
              const bool kept = *value.Lock() == 7;
              *value.Lock() = 8;
              return kept && *value.Lock() == 8 ? 0 : 1;
            }),
            0);
  EXPECT_EQ(*value.Lock(), 7);
}

TEST(ForkLocalTest, AChildStartsAnewWhenTheParentForkedInTheMiddleOfAChange) {
  ForkLocal<int> value;
  pid_t child = -1;
  {
    const auto locked = value.Lock();
    *locked = 7;
    child = fork();
    if (child == 0) {
      std::vector<std::thread> threads;
      for (int i = 0; i < 4; ++i) threads.emplace_back([&] { ++*value.Lock(); });
      for (std::thread& thread : threads) thread.join();
      _exit(*value.Lock() == 4 ? 0 : 1);
    }
  }
  EXPECT_EQ(EndOf(child), 0);
  EXPECT_EQ(*value.Lock(), 7);
}

TEST(ForkLocalTest, WithoutKeepingAChildAlwaysStartsAnew) {
  ForkLocal<int, false> value;
  *value.Lock() = 7;
  EXPECT_EQ(EndOfChild([&] { return *value.Lock() == 0 ? 0 : 1; }), 0);
  EXPECT_EQ(*value.Lock(), 7);
}

}  // namespace
}  // namespace sinter
