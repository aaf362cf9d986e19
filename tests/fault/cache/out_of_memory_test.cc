// Every allocation of a lookup, a put and a quarantine fails in turn, once and from then on: nobody
// dies, no descriptor leaks, nothing half-made is published. operator new is replaced for the whole
// process, LevelDB included, which is compiled without exceptions and loses the memory that it held
// when one passes through it.
#include "cache/tiers/tiers.h"
#include "tests/fault/cache/failing_new.h"
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

using cache_testing::RandomBytes;
using cache_testing::TempDir;

using cache_testing::kKernel;

struct Tally {
  int points = 0, misses = 0, wrong = 0, partial = 0, leaks = 0, lost_in_leveldb = 0;
};

class OutOfMemoryTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<TieredStore> Make(bool write_behind) {
    return std::make_unique<TieredStore>(TierOptions{.local_root = temp_.path(),
                                                     .memory_bytes = 0,
                                                     .sync = false,
                                                     .write_behind = write_behind});
  }
  template <typename Call>
  bool FailAt(int64_t n, const Call& call) {
    return FailAllocation(n, GetParam(), call);
  }
  TempDir temp_{"/dev/shm"};
};

TEST_P(OutOfMemoryTest, ALookupMissesAndKeepsNothing) {
  const std::string value = RandomBytes(20000, 1);
  const auto store = Make(false);
  store->Put(kKernel, "k", value);
  ASSERT_TRUE(store->Get(kKernel, "k").hit);
  (void)store->Get(kKernel, "absent");
  Tally tally;
  for (const char* key : {"k", "absent"}) {
    for (int64_t n = 0;; ++n) {
      const int64_t before = live;
      const int descriptors = OpenDescriptors();
      bool hit = false, right = true;
      const bool reached = FailAt(n, [&] {
        const Lookup lookup = store->Get(kKernel, key);
        hit = lookup.hit;
        right = !hit || lookup.payload == value;
      });
      if (!reached) break;
      ++tally.points;
      tally.misses += hit ? 0 : 1;
      tally.wrong += right ? 0 : 1;
      const bool reaches_leveldb = absl::string_view(key) == "k";
      if (live > before) ++(reaches_leveldb ? tally.lost_in_leveldb : tally.leaks);
      tally.leaks += OpenDescriptors() > descriptors ? 1 : 0;
    }
  }
  EXPECT_EQ(store->Get(kKernel, "k").payload, value);
  std::cout << "out of memory " << (GetParam() ? "for ever" : "once") << ", get: points "
            << tally.points << " misses " << tally.misses << " wrong " << tally.wrong << " leaks "
            << tally.leaks << " lost in LevelDB " << tally.lost_in_leveldb << " aborts 0\n";
  EXPECT_GT(tally.points, 10);
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_EQ(tally.leaks, 0);
}

TEST_P(OutOfMemoryTest, APutStoresAllOrNothing) {
  Tally tally;
  for (const bool write_behind : {false, true}) {
    const auto store = Make(write_behind);
    store->Put(kKernel, "warm", "w");
    store->Flush();
    for (int64_t n = 0;; ++n) {
      const std::string key = absl::StrCat("k", write_behind, GetParam(), n);
      const std::string value = RandomBytes(3000, static_cast<uint64_t>(n));
      if (!FailAt(n, [&] { store->Put(kKernel, key, value); })) break;
      store->Flush();
      ++tally.points;
      const Lookup lookup = store->Get(kKernel, key);
      tally.misses += lookup.hit ? 0 : 1;
      if (lookup.hit && lookup.payload != value) ++tally.wrong;
      if (!lookup.hit && lookup.reason != MissReason::kAbsent) ++tally.partial;
      store->Put(kKernel, key, value);
      store->Flush();
      EXPECT_EQ(store->Get(kKernel, key).payload, value);
    }
  }
  const auto report = InspectLocalStore(temp_.path());
  std::cout << "out of memory " << (GetParam() ? "for ever" : "once") << ", put: points "
            << tally.points << " lost " << tally.misses << " partial " << tally.partial
            << " leftover temps " << report->temporary << " wrong " << tally.wrong << " aborts 0\n";
  EXPECT_GT(tally.points, 20);
  EXPECT_EQ(tally.wrong, 0);
  EXPECT_EQ(tally.partial, 0);
  EXPECT_EQ(report->temporary, 0u);
  EXPECT_EQ(report->unsound, 0u);
}

INSTANTIATE_TEST_SUITE_P(Failures, OutOfMemoryTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "ForEver" : "Once"; });

}  // namespace
}  // namespace sinter
