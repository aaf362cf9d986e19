#include "cache/pack/pack_table.h"

#include <gtest/gtest.h>
#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>

#include <iostream>
#include <map>
#include <random>

#include "absl/strings/str_cat.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

using Records = std::map<std::string, std::string>;

class StringFile : public leveldb::WritableFile {
 public:
  leveldb::Status Append(const leveldb::Slice& data) override {
    bytes.append(data.data(), data.size());
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }
  std::string bytes;
};

std::string ByLevelDb(const Records& records) {
  leveldb::Options options;  // bytewise order
  options.compression = leveldb::kNoCompression;
  options.block_size = size_t{1} << 30;
  StringFile file;
  leveldb::TableBuilder builder(options, &file);
  for (const auto& [key, value] : records) {
    builder.Add(key, value);
    builder.Flush();
  }
  EXPECT_TRUE(builder.Finish().ok());
  return file.bytes;
}

std::string Ours(const Records& records) {
  PackTable table;
  std::string bytes;
  for (const auto& [key, value] : records) bytes += table.Add(key, value);
  return bytes + table.Finish();
}

TEST(PackTableTest, IsByteForByteWhatLevelDbsBuilderMakes) {
  int tables = 0;
  for (const int count : {0, 1, 2, 3, 17, 300}) {
    for (const size_t size : {0, 1, 100, 127, 5000}) {
      Records records;
      for (int i = 0; i < count; ++i) {
        const std::string digest = cache_testing::RandomBytes(32, static_cast<uint64_t>(i) + 1);
        records[absl::StrCat(i % 3 == 0 ? "p/" : "k/", digest)] =
            cache_testing::RandomBytes(size + static_cast<size_t>(i), 7);
      }
      ASSERT_TRUE(Ours(records) == ByLevelDb(records)) << count << " of " << size;
      ++tables;
    }
  }
  std::cout << "pack tables equal to LevelDB's: " << tables << "\n";
}

// Where the keys of the index are shortened, and where they cannot be.
TEST(PackTableTest, NeighbouringKeysAreIndexedAsLevelDbDoes) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    Records records;
    for (int i = 0; i < 6; ++i) {
      std::string key;
      const size_t size = 1 + random() % 4;
      for (size_t j = 0; j < size; ++j) key.push_back("\x01\x02\x7f\xfe\xff"[random() % 5]);
      records[key] = "value";
    }
    ASSERT_TRUE(Ours(records) == ByLevelDb(records)) << round;
  }
}

}  // namespace
}  // namespace sinter
