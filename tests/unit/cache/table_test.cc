#include <leveldb/comparator.h>
#include <leveldb/db.h>
#include <leveldb/env.h>
#include <leveldb/table_builder.h>

#include "tests/unit/cache/cache_tests.h"
#include "tests/unit/cache/forged_table.h"

namespace sinter {
namespace {

using cache_testing::Block;
using cache_testing::BuildTable;
using cache_testing::Entry;
using cache_testing::ForgedBlocks;
using cache_testing::ForgedRest;
using cache_testing::ForgedTable;
using cache_testing::Handle;
using cache_testing::IndexBlock;

constexpr char kName[] = "k/name";

TEST(TableTest, ReadsBackOneEntry) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{100}, size_t{4096}, size_t{300000}}) {
    const std::string value = RandomBytes(size, size + 1);
    const std::string file = BuildTable(kName, value);
    const auto entry = Got(ReadTable(file));
    EXPECT_EQ(entry.user_key, kName);
    const absl::string_view got = entry.value;
    EXPECT_EQ(got, value);
    EXPECT_LT(file.size(), size + 300);
    EXPECT_TRUE(file == BuildTable(kName, value));  // equal records are equal files
    EXPECT_GE(got.data(), file.data());             // borrowed, not copied
    EXPECT_LE(got.data() + got.size(), file.data() + file.size());
  }
}

TEST(TableTest, UserKeyCarriesKindAndDigest) {
  const Digest digest = Sha256("x");
  EXPECT_EQ(TableUserKey(RecordKind::kKernel, digest), absl::StrCat("k/", digest.View()));
  EXPECT_EQ(TableUserKey(RecordKind::kPlan, digest), absl::StrCat("p/", digest.View()));
}

// Every bit of the bytes that are read counts. The meta block and the footer's padding are not
// read; the right value is served whatever they hold.
TEST(TableTest, NoFlippedBitTruncationOrTailServesAnotherValue) {
  const std::string value = RandomBytes(200, 3), good = BuildTable(kName, value);
  int refused = 0, unread = 0;
  for (size_t i = 0; i < good.size() * 8; ++i) {
    std::string bad = good;
    bad[i / 8] = static_cast<char>(bad[i / 8] ^ (1 << (i % 8)));
    const auto got = ReadTable(bad);
    ++(got.ok() ? unread : refused);
    EXPECT_TRUE(!got.ok() || (got->value == value && got->user_key == kName)) << "bit " << i;
    EXPECT_TRUE(got.ok() || absl::IsDataLoss(got.status())) << "bit " << i << got.status();
    EXPECT_FALSE(got.ok() && i / 8 < value.size() + 20) << "bit " << i;
  }
  EXPECT_LT(unread, 8 * (13 + 48));  // the meta block, most of the footer
  for (size_t n = 0; n < good.size(); ++n) {
    EXPECT_FALSE(ReadTable(good.substr(0, n)).ok()) << n;
  }
  EXPECT_FALSE(ReadTable(good + std::string(1, '\0')).ok());
  EXPECT_FALSE(ReadTable(std::string(1, '\0') + good).ok());
  std::cout << "table flips: tried " << good.size() * 8 << " refused " << refused << " unread "
            << unread << "; truncations " << good.size() << "; wrong 0 deaths 0\n";
}

// The footer has no checksum: sizes near 2^40 and 2^62 must be refused before anything is
// allocated.
TEST(TableTest, RefusesForgedFooterSizes) {
  const std::string good = BuildTable(kName, RandomBytes(200, 3));
  for (const int varint_bytes : {6, 9, 10}) {
    for (const int at : {0, 1, 2, 3, 4, 5}) {
      std::string bad = good;
      const size_t footer = bad.size() - 48;
      for (int i = 0; i < varint_bytes; ++i) bad[footer + at + i] = '\xff';
      bad[footer + at + varint_bytes] = '\x01';
      EXPECT_TRUE(absl::IsDataLoss(ReadTable(bad).status()));
    }
  }
}

class WritableString : public leveldb::WritableFile {
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

std::string ByLevelDb(const std::map<std::string, std::string>& entries,
                      leveldb::CompressionType compression) {
  leveldb::Options options;
  options.compression = compression;
  WritableString file;
  leveldb::TableBuilder builder(options, &file);
  for (const auto& [key, value] : entries) builder.Add(key, value);
  EXPECT_TRUE(builder.Finish().ok());
  return file.bytes;
}

TEST(TableTest, RefusesTablesOfOthers) {
  EXPECT_FALSE(ReadTable("").ok());
  EXPECT_FALSE(ReadTable(RandomBytes(5000, 9)).ok());
  EXPECT_FALSE(ReadTable(std::string(5000, '\0')).ok());
  const std::string key = std::string(kName) + std::string("\1\1\0\0\0\0\0\0", 8);
  const auto reading = [](const std::string& table) {
    return std::string(ReadTable(table).status().message());
  };
  const std::string zeros(5000, '\0');
  EXPECT_EQ(reading(ByLevelDb({{key, zeros}}, leveldb::kNoCompression)), "");
  EXPECT_THAT(reading(ByLevelDb({{key, zeros}}, leveldb::kSnappyCompression)),
              HasSubstr("a compressed block"));
  EXPECT_THAT(reading(ByLevelDb({{key, "1"}, {key + "2", "2"}}, leveldb::kNoCompression)),
              HasSubstr("more than one entry"));
  EXPECT_THAT(reading(ByLevelDb({}, leveldb::kNoCompression)), HasSubstr("no entry"));
}

// What the store's reader and the packs' say of a table whose checksums hold: the cause, or "".
const std::string kInternalKey = std::string(kName) + std::string("\1\1\0\0\0\0\0\0", 8);
absl::Status AsAFile(const std::string& table) { return ReadTable(table).status(); }
absl::Status AsAPack(const std::string& table) {
  const auto source = [&](uint64_t offset, char* to, size_t bytes) {
    table.copy(to, bytes, offset);
    return absl::OkStatus();
  };
  const auto reader = TableReader::Open(source, table.size());
  return reader.ok() ? reader->Find(kInternalKey).status() : reader.status();
}

TEST(TableTest, ABlockThatOurWriterCannotHaveMadeIsDamage) {
  const std::string key = kInternalKey;
  for (const auto read : {AsAFile, AsAPack}) {
    EXPECT_TRUE(read(ForgedTable({key}, {Block(Entry(key, "value"), {0})})).ok());
    for (const auto& forged : ForgedBlocks(key)) {
      const absl::Status status = read(ForgedTable({key}, {forged.bytes}));
      EXPECT_TRUE(Fails(status, absl::StatusCode::kDataLoss, forged.finding)) << forged.name;
    }
  }
}

TEST(TableTest, AnIndexThatOurWriterCannotHaveMadeIsDamage) {
  const std::string key = kInternalKey, block = Block(Entry(key, "value"), {0});
  const uint64_t size = block.size() - 5;
  const std::string right = Entry(key, Handle(0, size));
  const struct {
    const char* name;
    std::string index;
    const char* finding;
  } cases[] = {
      {"a block of 2^62 bytes", IndexBlock({Entry(key, Handle(0, uint64_t{1} << 62))}),
       "names a block of"},
      {"a block of 2^64 - 3 bytes", IndexBlock({Entry(key, Handle(0, 0 - uint64_t{3}))}),
       "names a block of"},
      {"a block at 2^62", IndexBlock({Entry(key, Handle(uint64_t{1} << 62, size))}), "adjoin"},
      {"a block that holds the index", IndexBlock({Entry(key, Handle(0, size + 20))}),
       "names a block of"},
      {"a block named twice", IndexBlock({right, Entry(key + "2", Handle(0, size))}), "adjoin"},
      {"bytes behind a handle", IndexBlock({Entry(key, Handle(0, size) + "x")}), "names no block"},
      {"half a handle", IndexBlock({Entry(key, Handle(0, size).substr(0, 1))}), "names no block"},
      {"a key of 4 GiB",
       IndexBlock({cache_testing::ForgedEntry(0, 0xfffffff0u, 0x12, key + Handle(0, size))}),
       "passes the block"},
      {"snappy", Block(std::string("\xff\xff\xff\xff\x0f", 5), {0}, 1), "a compressed block"},
      {"a restart between entries", Block(right, {1}), "a restart point"},
      {"restarts that do not fit", std::string(4, '\xff') + std::string(5, '\0'), "restart points"},
  };
  for (const auto read : {AsAFile, AsAPack}) {
    EXPECT_TRUE(read(block + ForgedRest(block.size(), IndexBlock({right}))).ok());
    for (const auto& c : cases) {
      EXPECT_TRUE(Fails(read(block + ForgedRest(block.size(), c.index)),
                        absl::StatusCode::kDataLoss, c.finding))
          << c.name;
    }
  }
}

// Forty megabytes compressed to two: the table is rejected without being decompressed.
TEST(TableTest, ACompressedTableIsRefusedAsItIs) {
  const std::string packed =
      ByLevelDb({{kInternalKey, std::string(40 << 20, 'x')}}, leveldb::kSnappyCompression);
  ASSERT_LT(packed.size(), size_t{4} << 20);
  EXPECT_TRUE(Says(AsAFile(packed), "a compressed block"));
  EXPECT_TRUE(Says(AsAPack(packed), "a compressed block"));
}

int Threads() {
  int threads = 0;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/task")) {
    (void)one;
    ++threads;
  }
  return threads;
}

// LevelDB's own environment would start a thread that the child of a fork does not have.
TEST(TableTest, StartsNoThreadAndWorksInTheChildOfAFork) {
  const int before = Threads();
  const std::string file = BuildTable(kName, "value");
  ASSERT_EQ(ReadTable(file)->value, "value");
  EXPECT_EQ(Threads(), before);
  EXPECT_EQ(EndOfChild([&] {
              const bool same = BuildTable(kName, "value") == file;
              return same && ReadTable(file)->value == "value" ? 0 : 1;
            }),
            0);
}

// Records of a table of many, in memory; counts what is read of it.
class ManyTest : public testing::Test {
 protected:
  void Write(int count) {
    for (int i = 0; i < count; ++i) {
      records_[absl::StrCat("k/", RandomBytes(32, static_cast<uint64_t>(i) + 1))] =
          RandomBytes(static_cast<size_t>(100 + i), 7);
    }
    TableWriter writer(&table_);
    for (const auto& [key, value] : records_) writer.Add(key, value);
    writer.Finish();
  }
  absl::StatusOr<TableReader> Open() {
    const auto source = [this](uint64_t offset, char* to, size_t bytes) {
      ++reads_;
      if (!failure_.ok()) return failure_;
      table_.copy(to, bytes, offset);
      return absl::OkStatus();
    };
    return TableReader::Open(source, table_.size());
  }
  std::map<std::string, std::string> records_;
  std::string table_;
  int reads_ = 0;
  absl::Status failure_;
};

TEST_F(ManyTest, EachRecordIsABlockAndFoundByOneRead) {
  for (const int count : {0, 1, 2, 300}) {
    Write(count);
    const auto table = Got(Open());
    for (const auto& [key, value] : records_) {
      reads_ = 0;
      EXPECT_EQ(Got(table.Find(key)), value);
      EXPECT_EQ(reads_, 1);
    }
    EXPECT_TRUE(absl::IsNotFound(table.Find("k/absent").status()));
    records_.clear();
    table_.clear();
  }
}

TEST_F(ManyTest, WhatWasFoundOutlivesTheTable) {
  Write(3);
  SharedBytes found;
  {
    const auto table = Open();
    found = *table->Find(records_.begin()->first);
  }
  EXPECT_EQ(found, records_.begin()->second);
}

TEST_F(ManyTest, ASourceThatFailsIsNoDamageAndDamageIs) {
  Write(3);
  const auto table = Open();
  failure_ = absl::UnavailableError("read: input/output error");
  EXPECT_TRUE(Fails(table->Find(records_.begin()->first), absl::StatusCode::kUnavailable,
                    "input/output error"));
  failure_ = absl::DataLossError("sha-256 differs");
  EXPECT_TRUE(absl::IsDataLoss(table->Find(records_.begin()->first).status()));
  failure_ = absl::OkStatus();
  table_[table_.size() - 60] ^= 1;  // the index
  EXPECT_TRUE(absl::IsDataLoss(Open().status()));
}

// Files of the store, renamed as LevelDB numbers its tables, in a folder that has nothing else.
TEST(TableTest, APlainLevelDbAdoptsThreeHundredFiles) {
  constexpr int kFiles = 300;
  TempDir temp;
  LocalStoreOptions options{.root = temp / "store", .sync = false};
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
