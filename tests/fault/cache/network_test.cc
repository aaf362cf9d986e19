// A folder on a network file system, by system calls that behave like one: no unnamed files, no
// trusted locks, answers that get lost, handles that go stale.
#include "tests/support/test.h"
#include "tests/unit/cache/cache_testing.h"

namespace sinter {
namespace {

using cache_testing::CountFiles;
using cache_testing::RandomBytes;
using cache_testing::TempDir;

using cache_testing::kKernel;
constexpr int64_t kNfs = 0x6969;

class NfsOps : public FileOps {
 public:
  int FileSystemType(int, int64_t* magic) override {
    *magic = kNfs;
    return 0;
  }
  int OpenAt(int dir, const char* path, int flags, mode_t mode) override {
    if ((flags & O_TMPFILE) == O_TMPFILE) {
      ++unnamed;
      errno = EOPNOTSUPP;
      return -1;
    }
    if (stale_reads > 0 && (flags & O_ACCMODE) == O_RDONLY && (flags & O_DIRECTORY) == 0) {
      --stale_reads;
      errno = ESTALE;
      return -1;
    }
    const int fd = FileOps::OpenAt(dir, path, flags, mode);
    if (fd >= 0 && absl::string_view(path) == kLocksPath) ++shared_locks;
    return fd;
  }
  // The server did it; the answer was lost; the client asked again.
  int LinkAt(int dir, const char* from, const char* to) override {
    const int rc = FileOps::LinkAt(dir, from, to);
    if (rc == 0 && lost_answers > 0) {
      --lost_answers;
      errno = EEXIST;
      return -1;
    }
    return rc;
  }
  int unnamed = 0, stale_reads = 0, shared_locks = 0, lost_answers = 0;
};

class NetworkTest : public testing::Test {
 protected:
  NetworkTest() {
    options_.root = temp_ / "root";
    options_.sync = false;
    options_.ops = ops_;
    options_.lock_folders = {temp_ / "no-such-folder", temp_ / "node"};
    EXPECT_EQ(mkdir((temp_ / "node").c_str(), 0700), 0);
  }
  static absl::Status Put(LocalStore* store, const std::string& key, const std::string& value) {
    return store->Put(kKernel, key, Sha256(key), value);
  }
  static Lookup Get(LocalStore* store, const std::string& key) {
    return store->Get(kKernel, key, Sha256(key));
  }

  TempDir temp_;
  std::shared_ptr<NfsOps> ops_ = std::make_shared<NfsOps>();
  LocalStoreOptions options_;
};

TEST_F(NetworkTest, NamedTemporariesAndLocksOfThisHost) {
  LocalStore store(options_), other(options_);
  ASSERT_TRUE(Put(&store, "k", "first").ok());
  ASSERT_TRUE(Put(&store, "k", "second").ok());
  EXPECT_EQ(Get(&other, "k").payload, "second");
  auto lock = store.LockForBuild(kKernel, Sha256("k"), 0);
  ASSERT_NE(lock, nullptr);
  EXPECT_EQ(other.LockForBuild(kKernel, Sha256("k"), 1000), nullptr);
  lock.reset();
  EXPECT_NE(other.LockForBuild(kKernel, Sha256("k"), 0), nullptr);
  EXPECT_EQ(ops_->unnamed, 0);
  EXPECT_EQ(ops_->shared_locks, 0);
  EXPECT_EQ(CountFiles(options_.root), 1);
  EXPECT_EQ(CountFiles(temp_ / "node"), 1);
}

TEST_F(NetworkTest, TwoSpellingsMeetAtOneLock) {
  LocalStore store(options_);
  LocalStoreOptions spelled = options_;
  spelled.root = temp_ / "node/../root";
  LocalStore other(spelled);
  const auto lock = store.LockForBuild(kKernel, Sha256("k"), 0);
  ASSERT_NE(lock, nullptr);
  EXPECT_EQ(other.LockForBuild(kKernel, Sha256("k"), 1000), nullptr);
}

TEST_F(NetworkTest, WithoutAPlaceForLocksItWorksUnlocked) {
  options_.lock_folders = {temp_ / "no-such-folder"};
  LocalStore store(options_);
  EXPECT_EQ(store.LockForBuild(kKernel, Sha256("k"), 1000000), nullptr);
  EXPECT_TRUE(Put(&store, "k", "v").ok());
  EXPECT_EQ(Get(&store, "k").payload, "v");
}

TEST_F(NetworkTest, ALockFolderThatSomebodyElseMayWriteIsNotUsed) {
  ASSERT_EQ(mkdir(absl::StrCat(temp_.path(), "/node/sinter-", geteuid()).c_str(), 0700), 0);
  ASSERT_EQ(chmod(absl::StrCat(temp_.path(), "/node/sinter-", geteuid()).c_str(), 0777), 0);
  LocalStore store(options_);
  EXPECT_EQ(store.LockForBuild(kKernel, Sha256("k"), 1000), nullptr);
}

TEST_F(NetworkTest, ALostAnswerToALinkIsNotAFailure) {
  LocalStore store(options_);
  ops_->lost_answers = 1;
  EXPECT_TRUE(Put(&store, "k", "v").ok());
  EXPECT_EQ(ops_->lost_answers, 0);
  EXPECT_EQ(Get(&store, "k").payload, "v");
  EXPECT_EQ(CountFiles(options_.root), 1);
}

TEST_F(NetworkTest, AStaleHandleIsAMiss) {
  LocalStore store(options_);
  ASSERT_TRUE(Put(&store, "k", "v").ok());
  ops_->stale_reads = 1;
  EXPECT_EQ(Get(&store, "k").reason, MissReason::kAbsent);
  EXPECT_EQ(Get(&store, "k").payload, "v");
}

TEST(NetworkFileSystemTest, AreKnownByTheirNumbers) {
  for (const int64_t magic : {int64_t{0x6969}, int64_t{0xff534d42}, int64_t{0x0bd00bd0}}) {
    EXPECT_TRUE(IsNetworkFileSystem(magic));
    EXPECT_TRUE(IsNetworkFileSystem(static_cast<int32_t>(magic)));  // as a 32-bit field holds it
  }
  for (const int64_t magic : {0xef53, 0x01021994, 0x794c7630})
    EXPECT_FALSE(IsNetworkFileSystem(magic));
}

}  // namespace
}  // namespace sinter
