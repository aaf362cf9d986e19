// Replays sound tables, of packs and of databases, and seeded mutations of them through the fuzz
// target, so that every build runs some of it.
#include <gtest/gtest.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>

#include <cstdlib>
#include <iostream>
#include <random>

#include "cache/pack/pack_table.h"
#include "tests/fuzz/mutate.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

std::string PackOf(int records) {
  PackTable table;
  std::string bytes;
  for (int i = 0; i < records; ++i) {
    bytes += table.Add(absl::StrCat("k/", std::string(31, 'a'), i % 10), "value");
  }
  return bytes + table.Finish();
}

// A table as LevelDB writes it, with small blocks and a filter.
std::string DatabaseTable() {
  const cache_testing::TempDir temp;
  const std::unique_ptr<const leveldb::FilterPolicy> filter(leveldb::NewBloomFilterPolicy(10));
  leveldb::Options options;
  options.create_if_missing = true;
  options.compression = leveldb::kNoCompression;
  options.block_size = 64;
  options.filter_policy = filter.get();
  leveldb::DB* raw = nullptr;
  if (!leveldb::DB::Open(options, temp / "db", &raw).ok()) return std::string();
  const std::unique_ptr<leveldb::DB> db(raw);
  for (int i = 0; i < 8; ++i) {
    const leveldb::Status put = db->Put({}, absl::StrCat("k/record ", i), std::string(20, 'v'));
    if (!put.ok()) return std::string();
  }
  db->CompactRange(nullptr, nullptr);
  for (const auto& file : std::filesystem::directory_iterator(temp / "db")) {
    if (file.path().extension() == ".ldb") return cache_testing::ReadFile(file.path().string());
  }
  return std::string();
}

// The test runs in the root of the source tree.
TEST(PackIndexFuzzTest, TheCorpusIsHandled) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator("tests/fuzz/pack_index/corpus")) {
    Replay(cache_testing::ReadFile(file.path().string()));
    ++files;
  }
  EXPECT_GE(files, 4);
}

// With SINTER_WRITE_CORPUS set, each seed is written there.
TEST(PackIndexFuzzTest, SeedsAndMutationsAreHandled) {
  const char* corpus = getenv("SINTER_WRITE_CORPUS");
  const std::string of_database = DatabaseTable();
  ASSERT_FALSE(of_database.empty());
  std::mt19937_64 random(7);
  int executions = 0, number = 0;
  for (const std::string& seed :
       {'\0' + PackOf(0), '\0' + PackOf(1), '\0' + PackOf(5), '\1' + of_database}) {
    if (corpus != nullptr) {
      cache_testing::WriteFile(absl::StrCat(corpus, "/seed", number++), seed);
    }
    Replay(seed);
    for (int i = 0; i < 10000; ++i, ++executions) Replay(Mutate(seed, &random));
  }
  std::cout << "pack index fuzz: executions " << executions << " deaths 0\n";
}

}  // namespace
}  // namespace sinter
