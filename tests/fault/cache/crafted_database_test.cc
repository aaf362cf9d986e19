// Databases that somebody made by hand, with right checksums: LevelDB trusts a block whose checksum
// holds, so each of these would end its process. The store must put the folder aside, and go on.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>

#include "cache/store/crc32c.h"
#include "cache/store/table_blocks.h"
#include "src/base/codec.h"
#include "tests/unit/cache/cache_testing.h"
#include "tests/unit/cache/store_kinds.h"

namespace sinter {
namespace {

using cache_testing::TempDir;
using cache_testing::WriteFile;

constexpr uint64_t kHuge = ~uint64_t{0} - 1;  // with a block's trailer added: 3

std::string InternalKey(absl::string_view user_key, uint64_t sequence = 1) {
  ByteWriter key;
  key.Raw(user_key);
  key.U64(sequence << 8 | 1);
  return key.Take();
}

std::string Entry(uint64_t shared, uint64_t own, uint64_t value, absl::string_view bytes) {
  std::string entry;
  for (const uint64_t number : {shared, own, value}) PutVarint(number, &entry);
  return entry.append(bytes.data(), bytes.size());
}

std::string Entry(absl::string_view key, absl::string_view value) {
  return Entry(0, key.size(), value.size(), absl::StrCat(key, value));
}

std::string Handle(uint64_t offset, uint64_t size) {
  std::string handle;
  PutHandle({offset, size}, &handle);
  return handle;
}

BlockSpan AddBlock(absl::string_view entries, const std::vector<uint32_t>& restarts,
                   std::string* file) {
  const uint64_t at = file->size();
  ByteWriter tail;
  for (const uint32_t restart : restarts) tail.U32(restart);
  tail.U32(static_cast<uint32_t>(restarts.size()));
  file->append(entries.data(), entries.size());
  file->append(tail.str());
  return SealBlock(at, file);
}

// A table of one data block, each part of which can be another.
struct Table {
  std::string key = InternalKey("m/k");
  std::string data = Entry(key, std::string(16, 'v'));
  std::vector<uint32_t> restarts = {0};
  std::string index_key = key, handle;  // "": of the data block
  std::string meta;                     // the entries of the meta index
  std::string lead;                     // what lies before the meta index
  std::string after;                    // the footer

  std::string Bytes() const {
    std::string file;
    const BlockSpan block = AddBlock(data, restarts, &file);
    file += lead;
    const BlockSpan meta_index = AddBlock(meta, {0}, &file);
    const std::string to = handle.empty() ? Handle(block.offset, block.size) : handle;
    const BlockSpan index = AddBlock(Entry(index_key, to), {0}, &file);
    PutFooter(meta_index, index, &file);
    return file + after;
  }
};

std::string LogRecord(absl::string_view bytes) {
  ByteWriter out;
  out.U32(MaskCrc(Crc32c(absl::StrCat("\1", bytes))));
  out.U8(static_cast<uint8_t>(bytes.size()));
  out.U8(static_cast<uint8_t>(bytes.size() >> 8));
  out.U8(1);
  out.Raw(bytes);
  return out.Take();
}

struct Named {
  uint64_t level, number, bytes;
  std::string smallest, largest;
};

void PutText(absl::string_view text, std::string* out) {
  PutVarint(text.size(), out);
  out->append(text.data(), text.size());
}

std::string Manifest(const std::vector<Named>& tables, uint64_t last_sequence = 100,
                     uint64_t next_file = 50) {
  std::string edit;
  PutVarint(1, &edit);
  PutText("leveldb.BytewiseComparator", &edit);
  const std::pair<uint64_t, uint64_t> numbers[] = {{2, 0}, {3, next_file}, {4, last_sequence}};
  for (const auto& [tag, number] : numbers) PutHandle({tag, number}, &edit);
  for (const Named& table : tables) {
    for (const uint64_t number : {uint64_t{7}, table.level, table.number, table.bytes}) {
      PutVarint(number, &edit);
    }
    PutText(table.smallest, &edit);
    PutText(table.largest, &edit);
  }
  return LogRecord(edit);
}

std::string Batch(uint64_t sequence, absl::string_view key) {
  ByteWriter head;
  head.U64(sequence);
  head.U32(1);
  std::string batch = head.Take();
  batch.push_back(1);
  PutText(key, &batch);
  PutText(std::string(16, 'v'), &batch);
  return LogRecord(batch);
}

struct Database {
  std::string manifest, log;
  std::map<uint64_t, std::string> tables;
};

Database Of(const Table& table) {
  Database database;
  database.tables[5] = table.Bytes();
  database.manifest = Manifest({{0, 5, database.tables[5].size(), table.key, table.key}});
  return database;
}

class CraftedDatabaseTest : public testing::Test {
 protected:
  // How a process ends that opens the folder, reads all of it and makes LevelDB rewrite it: 0 used
  // as it is, 1 put aside and used, others a failure, negative a death.
  int Use(const Database& database) {
    std::filesystem::remove_all(root_);
    const std::string db = root_ + "/v1/db";
    for (const std::string& folder : {root_, root_ + "/v1", db}) mkdir(folder.c_str(), 0700);
    WriteFile(db + "/CURRENT", "MANIFEST-000002\n");
    WriteFile(db + "/MANIFEST-000002", database.manifest);
    if (!database.log.empty()) WriteFile(db + "/000007.log", database.log);
    for (const auto& [number, bytes] : database.tables) {
      WriteFile(absl::StrCat(db, "/00000", number, ".ldb"), bytes);
    }
    const pid_t child = fork();
    if (child == 0) _exit(InChild());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  int InChild() {
    const auto store = cache_testing::OpenKind(LocalStoreKind::kDatabase, root_);
    if (!store->usable().ok()) return 2;
    if (!store->ForEach({}).ok()) return 3;
    const Digest digest = Sha256("new");
    if (!store->Put(RecordKind::kPlan, "new", digest, "value").ok()) return 4;
    store->Evicted();  // compacts
    if (!store->Get(RecordKind::kPlan, "new", digest).hit) return 5;
    return store->moved_aside() == 0 ? 0 : 1;
  }

  TempDir temp_;
  const std::string root_ = temp_ / "root";
};

TEST_F(CraftedDatabaseTest, ASoundOneIsUsed) {
  Database database = Of(Table());
  database.log = Batch(101, "m/b") + Batch(102, "m/b");
  EXPECT_EQ(Use(database), 0);
  database.log.resize(database.log.size() - 1);  // its writer was killed
  EXPECT_EQ(Use(database), 0);
}

TEST_F(CraftedDatabaseTest, TablesThatLeadAstrayAreNotShownToLevelDb) {
  const Table good;
  std::vector<std::pair<std::string, Table>> cases;
  const auto add = [&](const char* name) { return &cases.emplace_back(name, good).second; };
  add("a data handle of 2^64 - 2")->handle = Handle(0, kHuge);
  add("a data handle that wraps")->handle = Handle(kHuge, 8);
  add("a data handle past the end")->handle = Handle(0, 1 << 20);
  add("a handle of another block")->handle = Handle(3, 20);
  add("a filter handle of 2^64 - 2")->meta =
      Entry("filter.leveldb.BuiltinBloomFilter2", Handle(0, kHuge));
  add("lengths that overflow")->data = Entry(0, 0xfffffff0u, 0x20, good.key);
  add("a value past the end")->data = Entry(0, good.key.size(), 0x7fffffff, good.key);
  add("an entry that shares with none")->data = Entry(40, 11, 0, good.key);
  add("a restart point past the end")->restarts = {0, 0xffffff00u};
  add("a restart point inside an entry")->restarts = {0, 5};
  add("no restart point")->restarts = {};
  add("a key of 3 bytes")->data = Entry("m/k", "value");
  add("an index key of 3 bytes")->index_key = "m/k";
  add("a key of another type")->data = Entry("m/k" + std::string(8, '\x7f'), "value");
  add("keys out of order")->data = Entry(InternalKey("m/z"), "v") + Entry(good.key, "v");
  add("one key twice")->data = Entry(good.key, "v") + Entry(good.key, "v");
  add("a key above the index")->data = Entry(good.key, "v") + Entry(InternalKey("m/z"), "v");
  int aside = 0, deaths = 0;
  for (const auto& [name, table] : cases) {
    const int outcome = Use(Of(table));
    EXPECT_EQ(outcome, 1) << name;
    aside += outcome == 1 ? 1 : 0;
    deaths += outcome < 0 ? 1 : 0;
  }
  std::cout << "crafted tables: tried " << cases.size() << " put aside " << aside << " deaths "
            << deaths << "\n";
}

// The size in the manifest says where LevelDB looks for the footer.
TEST_F(CraftedDatabaseTest, AManifestCannotPointIntoATable) {
  Table table;
  std::string footer, inner;
  const BlockSpan meta = AddBlock("", {0}, &inner);
  PutFooter({meta.offset + 1000, meta.size}, {0, kHuge}, &footer);
  table.lead = footer;
  Database database = Of(table);
  const uint64_t inside = database.tables[5].find(footer) + footer.size();
  database.manifest = Manifest({{0, 5, inside, table.key, table.key}});
  EXPECT_EQ(Use(database), 1);
}

TEST_F(CraftedDatabaseTest, ManifestsThatLeadAstrayAreNotBelieved) {
  const Table good;
  const std::string key = good.key, bytes = good.Bytes();
  const uint64_t size = bytes.size();
  Table other;
  other.key = other.index_key = InternalKey("m/a");
  other.data = Entry(other.key, "v") + Entry(InternalKey("m/p"), "v");
  other.index_key = InternalKey("m/p");
  const std::string wide = other.Bytes();
  const std::pair<const char*, std::string> cases[] = {
      {"a key of 3 bytes", Manifest({{0, 5, size, "m/k", key}})},
      {"other keys than the table's", Manifest({{0, 5, size, InternalKey("m/a"), key}})},
      {"another size", Manifest({{0, 5, size + 1, key, key}})},
      {"a table that is not there", Manifest({{0, 4, size, key, key}})},
      {"one table twice", Manifest({{0, 5, size, key, key}, {0, 5, size, key, key}})},
      {"a table twice, in two edits",
       Manifest({{0, 5, size, key, key}}) + Manifest({{1, 5, size, key, key}})},
      {"a sequence that no key holds", Manifest({{0, 5, size, key, key}}, uint64_t{1} << 60)},
      {"a table that is to be written yet", Manifest({{0, 5, size, key, key}}, 100, 5)},
      {"a level that there is not", Manifest({{7, 5, size, key, key}})},
      {"a level whose tables overlap",
       Manifest(
           {{1, 5, size, key, key}, {1, 6, wide.size(), InternalKey("m/a"), InternalKey("m/p")}})},
  };
  for (const auto& [name, manifest] : cases) {
    Database database;
    database.tables = {{5, bytes}, {6, wide}};
    database.manifest = manifest;
    EXPECT_EQ(Use(database), 1) << name;
  }
}

// A table in memory does not bear one name twice.
TEST_F(CraftedDatabaseTest, LogsThatLeadAstrayAreNotReplayed) {
  Database database = Of(Table());
  const std::pair<const char*, std::string> cases[] = {
      {"one name twice", Batch(101, "m/b") + Batch(101, "m/b")},
      {"sequences that go back", Batch(102, "m/b") + Batch(101, "m/c")},
      {"a sequence that no key holds", Batch(uint64_t{1} << 60, "m/b")},
      {"a batch of 3 bytes", LogRecord("abc")},
  };
  for (const auto& [name, log] : cases) {
    database.log = log;
    EXPECT_EQ(Use(database), 1) << name;
  }
}

}  // namespace
}  // namespace sinter
