// Prints the cost of the cache on this machine: the figures that led to sealed tables. For
// comparison: the same record in a leveldb::DB that is opened for each operation, as processes
// would have to share one.
#include <leveldb/db.h>
#include <sys/resource.h>

#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

using cache_testing::RandomBytes;
using cache_testing::TempDir;

using cache_testing::kKernel;
constexpr int kRecords = 40;
constexpr size_t kRecordBytes = 200 << 10;

double MedianUs(const std::function<void(int)>& call) {
  std::vector<double> times;
  for (int i = 0; i < kRecords; ++i) {
    const auto start = std::chrono::steady_clock::now();
    call(i);
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
  }
  std::nth_element(times.begin(), times.begin() + kRecords / 2, times.end());
  return times[kRecords / 2];
}

std::string KeyOf(int i) { return absl::StrCat("key ", i); }

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // whose malloc is another
// The first test of the process: later on its heap may happen to be cut so that none is given back.
TEST(CacheCostTest, AFirstPutsMemoryServesTheNext) {
  const std::string value = RandomBytes(kRecordBytes, 1);
  TempDir temp;
  LocalStore store({.root = temp.path(), .sync = false});
  const auto faults = [] {
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_minflt;
  };
  ASSERT_TRUE(store.Put(kKernel, "first", Sha256("first"), value).ok());
  const auto before = faults();
  for (int i = 0; i < kRecords; ++i) {
    ASSERT_TRUE(store.Put(kKernel, KeyOf(i), Sha256(KeyOf(i)), value).ok());
  }
  const auto pages = faults() - before;
  std::cout << "fresh pages of " << kRecords << " puts of 200 KiB: " << pages << "\n";
  EXPECT_LT(pages, kRecords * static_cast<int>(kRecordBytes / 4096) / 2);
}
#endif

TEST(CacheCostTest, SealedTables) {
  const std::string value = RandomBytes(kRecordBytes, 1);
  for (const bool sync : {false, true}) {
    TempDir temp;
    LocalStore store({.root = temp.path(), .sync = sync});
    const double absent = MedianUs([&](int i) { store.Get(kKernel, KeyOf(i), Sha256(KeyOf(i))); });
    const double put = MedianUs(
        [&](int i) { EXPECT_TRUE(store.Put(kKernel, KeyOf(i), Sha256(KeyOf(i)), value).ok()); });
    const double get =
        MedianUs([&](int i) { EXPECT_TRUE(store.Get(kKernel, KeyOf(i), Sha256(KeyOf(i))).hit); });
    const double lock = MedianUs([&](int i) { store.LockForBuild(kKernel, Sha256(KeyOf(i)), 0); });
    std::cout << "sealed table, 200 KiB, sync " << sync << ", median us: get " << get << " put "
              << put << " absent " << absent << " free lock " << lock << "\n";
  }
}

TEST(CacheCostTest, DatabaseOpenedPerOperation) {
  const std::string value = RandomBytes(kRecordBytes, 1);
  TempDir temp;
  leveldb::Options options;
  options.create_if_missing = true;
  options.compression = leveldb::kNoCompression;
  const auto with_db = [&](const std::function<void(leveldb::DB*)>& call) {
    leveldb::DB* raw = nullptr;
    ASSERT_TRUE(leveldb::DB::Open(options, temp / "db", &raw).ok());
    const std::unique_ptr<leveldb::DB> db(raw);
    call(db.get());
  };
  const double put = MedianUs([&](int i) {
    with_db([&](leveldb::DB* db) { EXPECT_TRUE(db->Put({}, KeyOf(i), value).ok()); });
  });
  const double get = MedianUs([&](int i) {
    std::string got;
    with_db([&](leveldb::DB* db) { EXPECT_TRUE(db->Get({}, KeyOf(i), &got).ok()); });
  });
  std::cout << "leveldb::DB opened per operation, 200 KiB, median us: get " << get << " put " << put
            << "\n";
}

}  // namespace
}  // namespace sinter
