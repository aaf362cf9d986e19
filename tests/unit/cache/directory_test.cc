#include "cache/store/directory.h"

#include "tests/unit/cache/cache_tests.h"

namespace sinter {
namespace {

absl::Status OpenStatus(const std::string& root, std::shared_ptr<FileOps> ops = nullptr) {
  if (ops == nullptr) ops = std::make_shared<FileOps>();
  return StoreDirectory::Open(std::move(ops), root).status();
}

mode_t ModeOf(const std::string& path) {
  struct stat st {};
  stat(path.c_str(), &st);
  return st.st_mode & 07777;
}

TEST(DirectoryTest, MakesMissingFoldersPrivate) {
  TempDir temp;
  const std::string root = temp / "a/b/c";
  ASSERT_TRUE(OpenStatus(root).ok()) << OpenStatus(root);
  for (const char* path : {"a", "a/b", "a/b/c", "a/b/c/v1"}) EXPECT_EQ(ModeOf(temp / path), 0700u);
  EXPECT_TRUE(OpenStatus(root + "/").ok());
  EXPECT_TRUE(OpenStatus(temp / "a//b/../b/c").ok());
}

TEST(DirectoryTest, RefusesFoldersThatOthersMayWrite) {
  const struct {
    const char* path;
    mode_t mode;
    bool refused;
  } cases[] = {{"root", 0770, true},  {"root", 0707, true},  {"root/v1", 0720, true},
               {"root", 0755, false}, {"root", 0500, false}, {".", 0777, true},
               {".", 01777, false},   {".", 0775, true}};
  for (const auto& c : cases) {
    TempDir temp;
    ASSERT_TRUE(OpenStatus(temp / "root").ok());
    ASSERT_EQ(chmod((temp / c.path).c_str(), c.mode), 0);
    const absl::Status status = OpenStatus(temp / "root");
    EXPECT_EQ(absl::IsPermissionDenied(status), c.refused) << c.path << " " << c.mode << status;
    EXPECT_EQ(status.ok(), !c.refused) << status;
    chmod(temp.path().c_str(), 0700);
  }
}

// Reports an owner that differs from the real one.
class OwnedByOther : public FileOps {
 public:
  int Stat(int fd, struct stat* out) override {
    const int rc = FileOps::Stat(fd, out);
    out->st_uid = geteuid() + 4711;
    return rc;
  }
};

TEST(DirectoryTest, RefusesAnotherOwner) {
  TempDir temp;
  EXPECT_TRUE(Fails(OpenStatus(temp.path(), std::make_shared<OwnedByOther>()),
                    absl::StatusCode::kPermissionDenied, "owner is user"));
}

TEST(DirectoryTest, SaysWhyAFolderIsUnusable) {
  TempDir temp;
  cache_testing::WriteFile(temp / "file", "x");
  ASSERT_EQ(symlink((temp / "nowhere").c_str(), (temp / "dangling").c_str()), 0);
  for (const std::string& root :
       {std::string(), std::string("relative/path"), temp / "file", temp / "file/below",
        temp / "dangling", std::string("/proc/none")}) {
    const absl::Status status = OpenStatus(root);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << root << ": " << status;
  }
}

TEST(DirectoryTest, DoesNotFollowALinkBelowTheRoot) {
  TempDir temp;
  ASSERT_EQ(mkdir((temp / "root").c_str(), 0700), 0);
  ASSERT_EQ(mkdir((temp / "elsewhere").c_str(), 0700), 0);
  ASSERT_EQ(symlink((temp / "elsewhere").c_str(), (temp / "root/v1").c_str()), 0);
  EXPECT_EQ(OpenStatus(temp / "root").code(), absl::StatusCode::kUnavailable);
}

TEST(DirectoryTest, NamesAreHexOfTheDigest) {
  const Digest digest = Sha256("x");
  const std::string hex = digest.Hex();
  EXPECT_EQ(RecordPath(RecordKind::kKernel, digest),
            "obj/" + hex.substr(0, 2) + "/" + hex.substr(2) + ".ldb");
  EXPECT_EQ(RecordPath(RecordKind::kPlan, digest),
            "plan/" + hex.substr(0, 2) + "/" + hex.substr(2) + ".ldb");
  EXPECT_EQ(TombstonePath(RecordKind::kPlan, digest),
            "plan/" + hex.substr(0, 2) + "/" + hex.substr(2) + ".bad");
  EXPECT_EQ(FolderOf(RecordPath(RecordKind::kPlan, digest)), "plan/" + hex.substr(0, 2));
}

}  // namespace
}  // namespace sinter
