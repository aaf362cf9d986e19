#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "src/base/transfer.h"

namespace sinter {
namespace {

class ReplaceFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char folder[] = "/tmp/sinter_replace.XXXXXX";
    ASSERT_NE(mkdtemp(folder), nullptr);
    folder_ = folder;
  }
  void TearDown() override {
    for (const char* name : {"/file", "/link", "/pipe"}) unlink((folder_ + name).c_str());
    rmdir(folder_.c_str());
  }
  std::string Path(const char* name) const { return folder_ + "/" + name; }
  static std::string Read(const std::string& path) {
    std::ifstream in(path);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string folder_;
};

TEST_F(ReplaceFileTest, TakesThePlaceOfAFileAndOfWhatALinkLeadsTo) {
  ASSERT_TRUE(ReplaceFile(Path("file"), "one", 0600).ok());
  ASSERT_EQ(symlink("file", Path("link").c_str()), 0);
  ASSERT_TRUE(ReplaceFile(Path("link"), "two", 0644).ok());
  EXPECT_EQ(Read(Path("file")), "two");
  struct stat info;
  ASSERT_EQ(lstat(Path("link").c_str(), &info), 0);
  EXPECT_TRUE(S_ISLNK(info.st_mode));
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

}  // namespace
}  // namespace sinter
