// The guards around leveldb::DB, each against a loss that it is known for.
#include "cache/store/database_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <leveldb/db.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/unit/cache/cache_testing.h"
#include "tests/unit/cache/store_kinds.h"

namespace sinter {
namespace {

using cache_testing::RandomBytes;
using cache_testing::ReadFile;
using cache_testing::TempDir;
using cache_testing::WriteFile;
using testing::HasSubstr;

using cache_testing::kKernel;

class DatabaseStoreTest : public testing::Test {
 protected:
  std::unique_ptr<RecordStore> Open() {
    return cache_testing::OpenKind(LocalStoreKind::kDatabase, root_);
  }
  static absl::Status Put(RecordStore* store, const std::string& key, const std::string& value) {
    return store->Put(kKernel, key, Sha256(key), value);
  }
  static Lookup Get(RecordStore* store, const std::string& key) {
    return store->Get(kKernel, key, Sha256(key));
  }
  // A closed database with 20 records in a table.
  void Fill() {
    for (int round = 0; round < 2; ++round) {
      const auto store = Open();  // the second opening writes the log into a table
      for (int i = 0; i < 20; ++i) {
        ASSERT_TRUE(Put(store.get(), absl::StrCat("k", i), RandomBytes(3000, i)).ok());
      }
    }
  }
  int Hits(RecordStore* store) {
    int hits = 0;
    for (int i = 0; i < 20; ++i) {
      const Lookup lookup = Get(store, absl::StrCat("k", i));
      if (!lookup.hit) continue;
      EXPECT_EQ(lookup.payload, RandomBytes(3000, i));
      ++hits;
    }
    return hits;
  }
  std::vector<std::string> Files(const std::string& suffix) {
    std::vector<std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(db_)) {
      const std::string path = entry.path().string();
      if (path.size() >= suffix.size() && path.substr(path.size() - suffix.size()) == suffix) {
        files.push_back(path);
      }
    }
    return files;
  }
  int Aside() {
    int count = 0;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(root_ + "/v1/bad", none)) {
      count += entry.is_directory() ? 1 : 0;
    }
    return count;
  }
  static int InChild(const std::function<int()>& body) {
    const pid_t child = fork();
    if (child == 0) _exit(body());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  // What a program with plain LevelDB gets.
  leveldb::Status PlainOpen() {
    leveldb::Options options;
    options.create_if_missing = true;
    leveldb::DB* raw = nullptr;
    const leveldb::Status status = leveldb::DB::Open(options, db_, &raw);
    delete raw;
    return status;
  }

  TempDir temp_;
  const std::string root_ = temp_ / "root", db_ = root_ + "/v1/db";
};

TEST_F(DatabaseStoreTest, WritesNoLogFileMapsNothingAndKeepsItsFilesPrivate) {
  Fill();
  const auto store = Open();
  EXPECT_EQ(Hits(store.get()), 20);
  EXPECT_EQ(ReadFile("/proc/self/maps").find(db_), std::string::npos);
  for (const auto& entry : std::filesystem::directory_iterator(db_)) {
    struct stat st {};
    ASSERT_EQ(stat(entry.path().c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 0777, 0600u) << entry.path();
    EXPECT_EQ(entry.path().filename().string().find("LOG"), std::string::npos);
  }
}

TEST_F(DatabaseStoreTest, PlainLevelDbInThisProcessOrAnotherIsRefusedWhileItIsOpen) {
  const auto store = Open();
  ASSERT_TRUE(Put(store.get(), "k", "v").ok());
  EXPECT_FALSE(PlainOpen().ok());
  EXPECT_EQ(InChild([&] { return PlainOpen().ok() ? 1 : 0; }), 0);
  // The refused opener's close() dropped nothing.
  EXPECT_EQ(InChild([&] { return PlainOpen().ok() ? 1 : 0; }), 0);
  ASSERT_TRUE(Put(store.get(), "after", "v").ok());
  EXPECT_EQ(Get(store.get(), "k").payload, "v");
}

TEST_F(DatabaseStoreTest, ADatabaseThatPlainLevelDbHasOpenIsNotTouched) {
  Fill();
  leveldb::DB* raw = nullptr;
  ASSERT_TRUE(leveldb::DB::Open({}, db_, &raw).ok());
  const std::unique_ptr<leveldb::DB> other(raw);
  const auto store = Open();
  EXPECT_TRUE(absl::IsAborted(store->usable())) << store->usable();
  EXPECT_EQ(InChild([&] { return absl::IsAborted(Open()->usable()) ? 0 : 1; }), 0);
  EXPECT_EQ(Aside(), 0);
}

TEST_F(DatabaseStoreTest, ClosingAnyDescriptorOnTheLockDropsNothing) {
  const auto store = Open();
  for (const char* name : {"/db/LOCK", "/db.lock"}) {
    const int fd = open((root_ + "/v1" + name).c_str(), O_RDWR);
    ASSERT_GE(fd, 0);
    close(fd);
  }
  EXPECT_EQ(InChild([&] { return absl::IsAborted(Open()->usable()) ? 0 : 1; }), 0);
  EXPECT_EQ(InChild([&] { return PlainOpen().ok() ? 1 : 0; }), 0);
}

TEST_F(DatabaseStoreTest, AForkedChildThatOutlivesTheOwnerDoesNotKeepTheDatabase) {
  auto store = Open();
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    close(gate[1]);
    (void)!read(gate[0], &byte, 1);
    _exit(0);
  }
  store.reset();
  EXPECT_TRUE(Open()->usable().ok());
  close(gate[0]);
  close(gate[1]);
  waitpid(child, nullptr, 0);
}

TEST_F(DatabaseStoreTest, WithoutItsCurrentFileItIsPutAsideNotDeleted) {
  Fill();
  ASSERT_EQ(unlink((db_ + "/CURRENT").c_str()), 0);
  const auto store = Open();
  ASSERT_TRUE(store->usable().ok()) << store->usable();
  EXPECT_EQ(store->moved_aside(), 1u);
  EXPECT_EQ(Hits(store.get()), 0);
  EXPECT_TRUE(Put(store.get(), "k", "v").ok());
  uint64_t kept = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root_ + "/v1/bad")) {
    if (entry.is_regular_file()) kept += entry.file_size();
  }
  EXPECT_GT(kept, 60000u);
}

TEST_F(DatabaseStoreTest, OfADatabaseThatWasPutAsideOnlyItsOwnFilesAreRemoved) {
  Fill();
  const std::string aside = root_ + "/v1/bad/db-before";
  ASSERT_TRUE(std::filesystem::create_directories(aside));
  ASSERT_EQ(chmod((root_ + "/v1/bad").c_str(), 0700), 0);
  for (const char* name : {"/notes.txt", "/000004.ldb", "/MANIFEST-000003", "/CURRENT"}) {
    WriteFile(aside + name, "bytes");
  }
  ASSERT_EQ(unlink((db_ + "/CURRENT").c_str()), 0);
  ASSERT_TRUE(Open()->usable().ok());
  EXPECT_EQ(cache_testing::CountFiles(aside), 1);
  EXPECT_EQ(ReadFile(aside + "/notes.txt"), "bytes");
}

TEST_F(DatabaseStoreTest, ACurrentFileThatNamesNoManifestIsNotFollowed) {
  for (const std::string& text :
       {std::string("../../../../etc/passwd\n"), std::string("MANIFEST-999999\n"), std::string(),
        std::string("MANIFEST-/../LOCK\n"), std::string(100, 'x'), std::string("LOCK\n")}) {
    Fill();
    WriteFile(db_ + "/CURRENT", text);
    const auto store = Open();
    EXPECT_TRUE(store->usable().ok()) << store->usable();
    EXPECT_EQ(store->moved_aside(), 1u) << text;
    EXPECT_EQ(Aside(), 1);
  }
}

TEST_F(DatabaseStoreTest, FilesOfStrangersAreRefused) {
  Fill();
  const std::string current = db_ + "/CURRENT";
  ASSERT_EQ(chmod(current.c_str(), 0622), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(Open()->usable()));
  ASSERT_EQ(chmod(current.c_str(), 0600), 0);
  ASSERT_EQ(symlink("/etc/passwd", (db_ + "/000099.ldb").c_str()), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(Open()->usable()));
  ASSERT_EQ(unlink((db_ + "/000099.ldb").c_str()), 0);
  EXPECT_EQ(Hits(Open().get()), 20);
}

// The footer of a table has no checksum; LevelDB would allocate what it says.
TEST_F(DatabaseStoreTest, AForgedFooterIsDamageNotAnAllocation) {
  Fill();
  const auto tables = Files(".ldb");
  ASSERT_FALSE(tables.empty());
  for (const std::string& path : tables) {
    std::string bytes = ReadFile(path);
    for (size_t i = bytes.size() - 48; i < bytes.size() - 8; ++i) bytes[i] = '\xfe';
    WriteFile(path, bytes);
  }
  const auto store = Open();
  ASSERT_TRUE(store->usable().ok()) << store->usable();
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(Get(store.get(), absl::StrCat("k", i)).hit);
  EXPECT_TRUE(Put(store.get(), "new", "v").ok());
  EXPECT_EQ(Get(store.get(), "new").payload, "v");
}

TEST_F(DatabaseStoreTest, TombstonesOutliveADatabaseThatIsPutAside) {
  Fill();
  ASSERT_TRUE(Open()->Quarantine(kKernel, Sha256("k3"), "seed 5").ok());
  ASSERT_EQ(unlink((db_ + "/CURRENT").c_str()), 0);
  const auto store = Open();
  const Lookup miss = Get(store.get(), "k3");
  EXPECT_EQ(miss.reason, MissReason::kQuarantined);
  EXPECT_THAT(miss.detail, HasSubstr("seed 5"));
}

TEST_F(DatabaseStoreTest, UsesAreRememberedOverARestart) {
  DatabaseStoreOptions options;
  options.root = root_;
  options.sync = false;
  options.touch_interval_s = -1;
  {
    DatabaseStore store(options);
    ASSERT_TRUE(Put(&store, "a", "1").ok());
    ASSERT_TRUE(Put(&store, "b", "2").ok());
  }
  usleep(1100 * 1000);
  {
    DatabaseStore store(options);
    EXPECT_TRUE(Get(&store, "a").hit);
  }
  DatabaseStore store(options);
  const auto entries = store.List();
  ASSERT_EQ(entries->size(), 2u);
  int64_t a = 0, b = 0;
  for (const StoredEntry& entry : *entries) {
    (entry.digest == Sha256("a") ? a : b) = entry.last_use_unix_s;
  }
  EXPECT_GT(a, b);
}

}  // namespace
}  // namespace sinter
