#include "cache/store/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/table_builder.h>

#include <memory>

#include "cache/store/local_store.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

using cache_testing::PathIn;
using cache_testing::RandomBytes;
using cache_testing::TempDir;
using testing::HasSubstr;

TEST(TableTest, ReadsBackOneEntry) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{4096}, size_t{300000}}) {
    const std::string value = RandomBytes(size, size + 1);
    const auto file = BuildTable("k/name", value);
    ASSERT_TRUE(file.ok()) << file.status();
    const auto entry = ReadTable(*file);
    ASSERT_TRUE(entry.ok()) << entry.status();
    EXPECT_EQ(entry->user_key, "k/name");
    EXPECT_EQ(entry->value, value);
    EXPECT_LT(file->size(), size + 300);
  }
}

// LevelDB's order of internal keys, as far as a table of one entry asks for it.
class OneKeyOrder : public leveldb::Comparator {
 public:
  int Compare(const leveldb::Slice& a, const leveldb::Slice& b) const override {
    return a.compare(b);
  }
  const char* Name() const override { return "leveldb.InternalKeyComparator"; }
  void FindShortestSeparator(std::string*, const leveldb::Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

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

TEST(TableTest, IsByteForByteWhatLevelDbsBuilderMakes) {
  const OneKeyOrder order;
  leveldb::Options options;
  options.comparator = &order;
  options.compression = leveldb::kNoCompression;
  for (const size_t size : {0, 1, 100, 127, 128, 4096, 16383, 16384, 300000, 3000000}) {
    for (const size_t key_size : {0, 2, 34, 200}) {
      const std::string key = RandomBytes(key_size, 7), value = RandomBytes(size, size + 1);
      StringFile file;
      leveldb::TableBuilder builder(options, &file);
      builder.Add(key + std::string("\1\1\0\0\0\0\0\0", 8), value);
      ASSERT_TRUE(builder.Finish().ok());
      EXPECT_TRUE(*BuildTable(key, value) == file.bytes) << key_size << " " << size;
    }
  }
}

TEST(TableTest, EqualRecordsAreEqualFiles) {
  EXPECT_EQ(*BuildTable("k/a", "value"), *BuildTable("k/a", "value"));
}

TEST(TableTest, UserKeyCarriesKindAndDigest) {
  const Digest digest = Sha256("x");
  EXPECT_EQ(TableUserKey(RecordKind::kKernel, digest), absl::StrCat("k/", digest.View()));
  EXPECT_EQ(TableUserKey(RecordKind::kPlan, digest), absl::StrCat("p/", digest.View()));
}

TEST(TableTest, RefusesEveryFlippedBitTruncationAndTail) {
  const std::string good = *BuildTable("k/name", RandomBytes(200, 3));
  for (size_t i = 0; i < good.size() * 8; ++i) {
    std::string bad = good;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << (i % 8)));
    const auto entry = ReadTable(bad);
    EXPECT_EQ(entry.status().code(), absl::StatusCode::kDataLoss) << "bit " << i;
  }
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(ReadTable(good.substr(0, n)).ok()) << n;
  EXPECT_FALSE(ReadTable(good + std::string(1, '\0')).ok());
  EXPECT_FALSE(ReadTable(std::string(1, '\0') + good).ok());
  std::cout << "table flips: tried " << good.size() * 8 << " refused " << good.size() * 8
            << "; truncations " << good.size() << "; wrong 0 deaths 0\n";
}

// The footer has no checksum: sizes near 2^40 and 2^62 must be refused before anything is
// allocated.
TEST(TableTest, RefusesForgedFooterSizes) {
  const std::string good = *BuildTable("k/name", RandomBytes(200, 3));
  for (const int varint_bytes : {6, 9, 10}) {
    for (const int at : {0, 1, 2, 3, 4, 5}) {
      std::string bad = good;
      const size_t footer = bad.size() - 48;
      for (int i = 0; i < varint_bytes; ++i) bad[footer + at + i] = '\xff';
      bad[footer + at + varint_bytes] = '\x01';
      EXPECT_EQ(ReadTable(bad).status().code(), absl::StatusCode::kDataLoss);
    }
  }
}

TEST(TableTest, RefusesTablesOfOthers) {
  EXPECT_FALSE(ReadTable("").ok());
  EXPECT_FALSE(ReadTable(RandomBytes(5000, 9)).ok());
  EXPECT_FALSE(ReadTable(std::string(5000, '\0')).ok());
}

// Files of the store, renamed as LevelDB numbers its tables, in a folder that has nothing else.
TEST(TableTest, APlainLevelDbAdoptsThreeHundredFiles) {
  constexpr int kFiles = 300;
  TempDir temp;
  LocalStoreOptions options;
  options.root = temp / "store";
  options.sync = false;
  LocalStore store(options);
  const std::string db_path = temp / "db";
  ASSERT_EQ(mkdir(db_path.c_str(), 0700), 0);
  for (int i = 0; i < kFiles; ++i) {
    const RecordKind kind = i % 3 == 0 ? RecordKind::kPlan : RecordKind::kKernel;
    const std::string key = absl::StrCat("key ", i);
    ASSERT_TRUE(store.Put(kind, key, Sha256(key), RandomBytes(100 + 37 * i, i)).ok());
    char name[32];
    snprintf(name, sizeof(name), "/%06d.ldb", i + 10);
    std::filesystem::copy_file(PathIn(options.root, kind, key), db_path + name);
  }
  leveldb::Options db_options;
  db_options.paranoid_checks = true;
  ASSERT_TRUE(leveldb::RepairDB(db_path, db_options).ok());
  leveldb::DB* raw = nullptr;
  const leveldb::Status opened = leveldb::DB::Open(db_options, db_path, &raw);
  ASSERT_TRUE(opened.ok()) << opened.ToString();
  const std::unique_ptr<leveldb::DB> db(raw);
  leveldb::ReadOptions read;
  read.verify_checksums = true;
  int good = 0;
  for (int i = 0; i < kFiles; ++i) {
    const RecordKind kind = i % 3 == 0 ? RecordKind::kPlan : RecordKind::kKernel;
    const std::string key = absl::StrCat("key ", i);
    std::string value;
    const leveldb::Status got = db->Get(read, TableUserKey(kind, Sha256(key)), &value);
    ASSERT_TRUE(got.ok()) << i << ": " << got.ToString();
    const EnvelopeVerdict verdict = ReadEnvelopeFor(value, kind, key);
    ASSERT_TRUE(verdict.ok) << verdict.detail;
    EXPECT_EQ(verdict.envelope.payload, RandomBytes(100 + 37 * i, i));
    ++good;
  }
  db->CompactRange(nullptr, nullptr);
  std::string value;
  EXPECT_TRUE(db->Get(read, TableUserKey(RecordKind::kPlan, Sha256("key 0")), &value).ok());
  std::cout << "adopted by leveldb::DB: " << good << " of " << kFiles << " wrong 0\n";
}

}  // namespace
}  // namespace sinter
