#include <sys/syscall.h>

#include "src/base/transfer.h"
#include "tests/support/files.h"
#include "tests/support/test.h"

namespace {
std::function<void()> on_fsync;
}  // namespace

// Stands for the C library's in this program.
extern "C" int fsync(int fd) {
  if (on_fsync) on_fsync();
  return static_cast<int>(syscall(SYS_fsync, fd));
}

namespace sinter {
namespace {

// The part after the last '/'.
std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }

class ReplaceFileTest : public ::testing::Test {
 protected:
  std::string Path(const char* name) const { return temp_ / name; }
  const TempDir temp_;
  const std::string folder_ = temp_.path();
};

TEST_F(ReplaceFileTest, TakesThePlaceOfAFileAndOfWhatALinkLeadsTo) {
  ASSERT_TRUE(ReplaceFile(Path("file"), "one", 0600).ok());
  ASSERT_EQ(symlink("file", Path("link").c_str()), 0);
  ASSERT_TRUE(ReplaceFile(Path("link"), "two", 0644).ok());
  EXPECT_EQ(FileText(Path("file")), "two");
  struct stat info;
  ASSERT_EQ(lstat(Path("link").c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
}

TEST_F(ReplaceFileTest, WaitsForTheDiskBeforeTheFileGetsItsNameIfAskedTo) {
  ASSERT_TRUE(ReplaceFile(Path("file"), "old", 0600).ok());
  for (const bool sync : {false, true}) {
    std::string at_sync;
    on_fsync = [&] { at_sync += FileText(Path("file")); };
    EXPECT_TRUE(ReplaceFile(Path("file"), "new", 0600, sync).ok());
    on_fsync = nullptr;
    EXPECT_EQ(at_sync, sync ? "old" : "");
    EXPECT_EQ(FileText(Path("file")), "new");
    ASSERT_TRUE(ReplaceFile(Path("file"), "old", 0600).ok());
  }
}

TEST_F(ReplaceFileTest, WritesIntoAPipeWhichStays) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(ReplaceFile(Path("pipe"), "text", 0600).ok()) << "nobody reads, and nobody waits";
  const int reader = open(Path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_TRUE(ReplaceFile(Path("pipe"), "text", 0600).ok());
  char got[8] = {};
  EXPECT_EQ(read(reader, got, sizeof(got)), 4);
  EXPECT_STREQ(got, "text");
  close(reader);
  struct stat info;
  ASSERT_EQ(lstat(Path("pipe").c_str(), &info), 0);
  EXPECT_TRUE(S_ISFIFO(info.st_mode));
}

TEST_F(ReplaceFileTest, NewFilesReplaceNoPipeOrFolder) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  EXPECT_TRUE(absl::IsInvalidArgument(ReplaceablePath(Path("pipe")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(ReplaceablePath(folder_).status()));
  EXPECT_EQ(*ReplaceablePath(Path("new")), Path("new"));
}

// Links and pipes of another user, whom only root can play.
class AnotherUsersNames : public ReplaceFileTest {
 protected:
  void SetUp() override {
    ReplaceFileTest::SetUp();
    if (geteuid() != 0) GTEST_SKIP() << "needs root, to make names of another user";
    ASSERT_EQ(chmod(folder_.c_str(), 01777), 0);
    ASSERT_TRUE(ReplaceFile(Path("file"), "kept", 0600).ok());
  }
  void Disown(const char* name) const { ASSERT_EQ(lchown(Path(name).c_str(), 65534, 65534), 0); }
  void ExpectRefused(const std::string& path, const char* what) const {
    for (const absl::Status& refused :
         {ReplaceFile(path, "lost", 0644), ReplaceablePath(path).status()}) {
      EXPECT_TRUE(Fails(refused, absl::StatusCode::kPermissionDenied, what)) << path;
      EXPECT_TRUE(Says(refused, "that another user made"));
    }
    EXPECT_EQ(FileText(Path("file")), "kept");
  }
};

TEST_F(AnotherUsersNames, AreNotFollowedAtAnyStep) {
  ASSERT_EQ(symlink("file", Path("link").c_str()), 0);
  Disown("link");
  ExpectRefused(Path("link"), "link: is a link");
  unlink(Path("link").c_str());
  ASSERT_EQ(symlink(folder_.c_str(), Path("link").c_str()), 0);
  ASSERT_TRUE(ReplaceFile(Path("link/../") + NameOf(folder_) + "/link/file", "kept", 0600).ok())
      << "its own links of folders are followed";
  Disown("link");
  ExpectRefused(Path("link/file"), "link: is a link");
  ExpectRefused(Path("link/new"), "link: is a link");
  // A link of its own that leads to another user's.
  ASSERT_EQ(symlink("link/file", Path("pipe").c_str()), 0);
  ExpectRefused(Path("pipe"), "link: is a link");
}

TEST_F(AnotherUsersNames, APipeWhereEverybodyMayMakeFilesIsNotWrittenInto) {
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0666), 0);
  Disown("pipe");
  const int reader = open(Path("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ExpectRefused(Path("pipe"), "pipe: is a pipe");
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  EXPECT_TRUE(ReplaceFile(Path("pipe"), "text", 0600).ok()) << "a collector's, in a folder of ours";
  close(reader);
}

TEST_F(ReplaceFileTest, WalksAsTheKernelDoes) {
  const std::string parent = folder_.substr(0, folder_.rfind('/'));
  ASSERT_EQ(symlink(absl::StrCat("../..//", NameOf(parent), "/./").c_str(), Path("link").c_str()),
            0);
  const std::string by_link = Path("link/") + NameOf(folder_) + "/file";
  ASSERT_TRUE(ReplaceFile(by_link, "one", 0600).ok()) << ReplaceFile(by_link, "one", 0600);
  EXPECT_EQ(FileText(Path("file")), "one");
  ASSERT_EQ(unlink(Path("link").c_str()), 0);
  ASSERT_EQ(symlink("link", Path("link").c_str()), 0);
  EXPECT_TRUE(absl::IsUnavailable(ReplaceFile(Path("link"), "x", 0600))) << "a loop ends";
  EXPECT_TRUE(absl::IsUnavailable(ReplaceFile(Path("none/file"), "x", 0600)));
  EXPECT_TRUE(absl::IsUnavailable(ReplaceFile(Path("file/below"), "x", 0600)));
  for (const char* no_file : {"", ".", "..", "file/"}) {
    EXPECT_FALSE(ReplaceFile(Path(no_file), "x", 0600).ok()) << no_file;
  }
  EXPECT_FALSE(ReplaceFile("", "x", 0600).ok());
  EXPECT_TRUE(ReplaceFile("/dev/null", "x", 0600).ok());
  EXPECT_EQ(FileText(Path("file")), "one");
}

}  // namespace
}  // namespace sinter
