#include "tests/unit/cache/cache_tests.h"

namespace sinter {
namespace {

using cache_testing::OpenStore;

std::string KeyOf(int i) { return absl::StrCat("key ", i); }

class JanitorTest : public testing::Test {
 protected:
  void Fill(int records) {
    for (int i = 0; i < records; ++i) {
      ASSERT_TRUE(store_->Put(kKernel, KeyOf(i), Sha256(KeyOf(i)), RandomBytes(10000, i)).ok());
    }
  }
  int Hits(int records) {
    int hits = 0;
    for (int i = 0; i < records; ++i) {
      hits += store_->Get(kKernel, KeyOf(i), Sha256(KeyOf(i))).hit ? 1 : 0;
    }
    return hits;
  }
  TempDir temp_;
  std::unique_ptr<LocalStore> store_ = OpenStore(temp_.path());
};

TEST_F(JanitorTest, LeavesNineTenthsOfTheCap) {
  Fill(40);
  ASSERT_TRUE(store_->Quarantine(kKernel, Sha256("wrong"), "seed 1").ok());
  SweepLimits limits{.max_bytes = 1 << 20};
  auto report = Sweep(store_.get(), limits);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->records, 40u);
  EXPECT_EQ(report->evicted, 0u);
  limits.max_bytes = 200000;
  report = Sweep(store_.get(), limits);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(Hits(40), 40 - static_cast<int>(report->evicted));
  uint64_t left = 0;
  const auto entries = store_->List();
  for (const StoredEntry& entry : *entries) left += entry.bytes;
  EXPECT_LE(left, 180000u);
  EXPECT_GT(left, 160000u);
  EXPECT_EQ(left, report->bytes - report->evicted_bytes);
  EXPECT_TRUE(store_->IsQuarantined(kKernel, Sha256("wrong"), nullptr));
}

void SetAge(const std::string& path, int64_t seconds) {
  const time_t then = time(nullptr) - seconds;
  const struct timespec times[2] = {{then, 0}, {then, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

int64_t AgeOf(const std::string& path) {
  struct stat st {};
  stat(path.c_str(), &st);
  return static_cast<int64_t>(time(nullptr) - st.st_mtim.tv_sec);
}

TEST(JanitorLruTest, TheLongestUnusedGoFirstAndAHitIsAUse) {
  TempDir temp;
  const auto store = OpenStore(temp.path());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(store->Put(kKernel, KeyOf(i), Sha256(KeyOf(i)), RandomBytes(10000, i)).ok());
    SetAge(PathIn(temp.path(), kKernel, KeyOf(i)), 10000 - 10 * i);
  }
  ASSERT_TRUE(store->Get(kKernel, KeyOf(0), Sha256(KeyOf(0))).hit);  // the oldest, used now
  ASSERT_TRUE(Sweep(store.get(), {.max_bytes = 60000}).ok());
  EXPECT_TRUE(store->Get(kKernel, KeyOf(0), Sha256(KeyOf(0))).hit);
  for (int i = 1; i < 6; ++i)
    EXPECT_FALSE(store->Get(kKernel, KeyOf(i), Sha256(KeyOf(i))).hit) << i;
  for (int i = 7; i < 10; ++i)
    EXPECT_TRUE(store->Get(kKernel, KeyOf(i), Sha256(KeyOf(i))).hit) << i;
}

// "plan 7" names the kernels "key 0" and "key 7".
std::vector<Digest> NamedKernels(absl::string_view key, absl::string_view) {
  return {Sha256(KeyOf(0)), Sha256(KeyOf(key.back() - '0'))};
}

TEST(JanitorLruTest, AKernelStaysAsLongAsAPlanThatNamesIt) {
  TempDir temp;
  const auto store = OpenStore(temp.path());
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(store->Put(kKernel, KeyOf(i), Sha256(KeyOf(i)), RandomBytes(10000, i)).ok());
    SetAge(PathIn(temp.path(), kKernel, KeyOf(i)), 1000000 - 1000 * i);
  }
  for (int i = 1; i < 10; ++i) {  // the younger its kernel, the longer a plan was not used
    const std::string plan = absl::StrCat("plan ", i);
    ASSERT_TRUE(store->Put(kPlan, plan, Sha256(plan), RandomBytes(2000, i)).ok());
    SetAge(PathIn(temp.path(), kPlan, plan), 10000 * i);
  }
  ASSERT_GT(Sweep(store.get(), {.max_bytes = 60000, .kernels_of = NamedKernels})->evicted, 5u);
  int plans = 0;
  for (int i = 1; i < 10; ++i) {
    const std::string plan = absl::StrCat("plan ", i);
    if (!store->Get(kPlan, plan, Sha256(plan)).hit) continue;
    ++plans;
    for (const Digest& kernel : NamedKernels(plan, "")) {
      const std::string key = kernel == Sha256(KeyOf(0)) ? KeyOf(0) : KeyOf(i);
      EXPECT_TRUE(store->Get(kKernel, key, kernel).hit) << plan << " lost " << key;
    }
  }
  EXPECT_GT(plans, 1);
}

// A warm-up makes many records in one second. They go plan by plan, not all plans first.
TEST(JanitorLruTest, PlansOfOneSecondGoWithTheirKernelsOneByOne) {
  TempDir temp;
  const auto store = OpenStore(temp.path());
  for (int i = 0; i < 10; ++i) {
    const std::string plan = absl::StrCat("plan ", i);
    ASSERT_TRUE(store->Put(kKernel, KeyOf(i), Sha256(KeyOf(i)), RandomBytes(10000, i)).ok());
    ASSERT_TRUE(store->Put(kPlan, plan, Sha256(plan), RandomBytes(2000, i)).ok());
    SetAge(PathIn(temp.path(), kKernel, KeyOf(i)), 5000);
    SetAge(PathIn(temp.path(), kPlan, plan), 5000);
  }
  SweepLimits limits{.max_bytes = 100000};
  limits.kernels_of = [](absl::string_view key, absl::string_view) {
    return std::vector<Digest>{Sha256(KeyOf(key.back() - '0'))};
  };
  ASSERT_GT(Sweep(store.get(), limits)->evicted, 3u);
  int plans = 0;
  for (int i = 0; i < 10; ++i) {
    const std::string plan = absl::StrCat("plan ", i);
    if (!store->Get(kPlan, plan, Sha256(plan)).hit) continue;
    ++plans;
    EXPECT_TRUE(store->Get(kKernel, KeyOf(i), Sha256(KeyOf(i))).hit) << i;
  }
  EXPECT_GE(plans, 6);
}

TEST(JanitorTierTest, AHitInMemoryAndAKernelInUseCountAsUses) {
  TempDir temp;
  TieredStore store({.local_root = temp.path(), .write_behind = false});
  for (const char* key : {"hit", "in use", "idle"}) {
    store.Put(kKernel, key, "v");
    SetAge(PathIn(temp.path(), kKernel, key), 5000);
  }
  ASSERT_STREQ(store.Get(kKernel, "hit").tier, "memory");
  store.Used(kKernel, "in use");
  EXPECT_LT(AgeOf(PathIn(temp.path(), kKernel, "hit")), 60);
  EXPECT_LT(AgeOf(PathIn(temp.path(), kKernel, "in use")), 60);
  EXPECT_GE(AgeOf(PathIn(temp.path(), kKernel, "idle")), 5000);
}

TEST(JanitorTierTest, RecordsThatTheCapEvictedAreReported) {
  TempDir temp;
  TieredStore store(
      {.local_root = temp.path(), .local_bytes = 60000, .memory_bytes = 0, .write_behind = false});
  for (int i = 0; i < 3; ++i) store.Put(kKernel, KeyOf(i), RandomBytes(10000, i));
  EXPECT_EQ(store.Kept()->lost, 0u);
  for (int i = 3; i < 10; ++i) store.Put(kKernel, KeyOf(i), RandomBytes(10000, i));
  const KeptReport kept = Got(store.Kept());
  EXPECT_EQ(kept.records, 10u);
  EXPECT_EQ(kept.lost, store.Stats().evicted);
  EXPECT_GT(kept.lost, 0u);
  EXPECT_EQ(kept.cap, 60000u);
  EXPECT_GT(kept.needed_bytes, 106250u);  // a sixteenth more than the ten payloads
  EXPECT_LT(kept.needed_bytes, 115000u);
}

TEST(JanitorLruTest, AHitWritesAtMostOnceAnInterval) {
  TempDir temp;
  int touches = 0;
  const auto store = OpenStore(temp.path(), FilesWhose(FileCall::kTouch, [&] {
                                 ++touches;
                                 return 0;
                               }));
  ASSERT_TRUE(store->Put(kKernel, "k", Sha256("k"), "v").ok());
  const std::string path = PathIn(temp.path(), kKernel, "k");
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(store->Get(kKernel, "k", Sha256("k")).hit);
  EXPECT_EQ(touches, 0);
  SetAge(path, 700);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(store->Get(kKernel, "k", Sha256("k")).hit);
  EXPECT_EQ(touches, 1);
  EXPECT_LT(AgeOf(path), 60);
}

TEST(JanitorOrphanTest, WhatKilledWritersLeftGoesWhenItIsOld) {
  TempDir temp;
  const auto store = OpenStore(temp.path());
  ASSERT_TRUE(store->Put(kKernel, "k", Sha256("k"), "v").ok());
  const std::string folder =
      absl::StrCat(temp.path(), "/v1/", FolderOf(RecordPath(kKernel, Sha256("k"))));
  WriteFile(folder + "/.tmp-0123", "half");
  WriteFile(folder + "/.tmp-4567", "half");
  SetAge(folder + "/.tmp-0123", 1000);
  EXPECT_EQ(Sweep(store.get(), {})->orphans, 1u);
  EXPECT_EQ(Sweep(store.get(), {})->orphans, 0u);
  EXPECT_EQ(InspectLocalStore(temp.path())->temporary, 1u);
  EXPECT_EQ(Sweep(store.get(), {.orphan_age_s = 0})->orphans, 1u);
  EXPECT_TRUE(store->Get(kKernel, "k", Sha256("k")).hit);
}

TEST(JanitorOrphanTest, OneJanitorOfAllProcessesWorksAtATime) {
  TempDir temp;
  const auto a = OpenStore(temp.path());
  const auto b = OpenStore(temp.path());
  auto lock = a->LockJanitor();
  ASSERT_NE(lock, nullptr);
  EXPECT_TRUE(Sweep(b.get(), {})->busy);
  lock.reset();
  EXPECT_FALSE(Sweep(b.get(), {})->busy);
}

TEST(JanitorTierTest, APutBeyondTheCapEvicts) {
  TempDir temp;
  TierOptions options{
      .local_root = temp.path(), .local_bytes = 300000, .memory_bytes = 0, .sync = false};
  const auto store = std::make_unique<TieredStore>(options);
  uint64_t worst = 0;
  for (int i = 0; i < 200; ++i) {
    store->Put(kKernel, KeyOf(i), RandomBytes(10000, i));
    if (i % 5 != 0) continue;
    store->Flush();
    worst = std::max(worst, InspectLocalStore(temp.path())->bytes);
  }
  store->Flush();
  EXPECT_GT(store->Stats().evicted, 100u);
  EXPECT_EQ(store->Stats().put_failures, 0u);
  EXPECT_TRUE(store->Get(kKernel, KeyOf(199)).hit);
  EXPECT_LE(worst, options.local_bytes);
  std::cout << "cap " << options.local_bytes << ": evicted " << store->Stats().evicted
            << ", bytes at worst " << worst << "\n";
}

}  // namespace
}  // namespace sinter
