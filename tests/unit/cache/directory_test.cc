#include "cache/store/directory.h"

#include <signal.h>

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

using Clock = std::chrono::steady_clock;

constexpr int64_t kLong = 20 * 1000 * 1000;

std::shared_ptr<const StoreDirectory> OpenDir(const std::string& root) {
  auto dir = StoreDirectory::Open(std::make_shared<FileOps>(), root);
  return dir.ok() ? *dir : nullptr;
}

int64_t MillisecondsSince(Clock::time_point start) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count();
}

TEST(BuildLocksTest, OneHolderPerKey) {
  TempDir temp;
  const auto dir = OpenDir(temp.path());
  ASSERT_NE(dir, nullptr);
  auto held = LockKey(dir, kKernel, Sha256("a"), 0);
  EXPECT_NE(held, nullptr);
  EXPECT_EQ(LockKey(dir, kKernel, Sha256("a"), 0), nullptr);
  EXPECT_NE(LockKey(dir, kKernel, Sha256("b"), 0), nullptr);
  EXPECT_NE(LockKey(dir, RecordKind::kPlan, Sha256("a"), 0), nullptr);
  held.reset();
  EXPECT_NE(LockKey(dir, kKernel, Sha256("a"), 0), nullptr);
}

TEST(BuildLocksTest, TwoSpellingsOfTheRootExcludeEachOther) {
  TempDir temp;
  const auto dir = OpenDir(temp.path());
  const auto other = OpenDir(temp.path() + "/../" + temp.path().substr(temp.path().rfind('/') + 1));
  const std::string link = temp.path() + "-link";
  ASSERT_EQ(symlink(temp.path().c_str(), link.c_str()), 0);
  const auto linked = OpenDir(link);
  unlink(link.c_str());
  ASSERT_TRUE(dir != nullptr && other != nullptr && linked != nullptr);
  const auto held = LockKey(dir, kKernel, Sha256("a"), 0);
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(LockKey(other, kKernel, Sha256("a"), 0), nullptr);
  EXPECT_EQ(LockKey(linked, kKernel, Sha256("a"), 0), nullptr);
}

TEST(BuildLocksTest, WaitsNoLongerThanTheBudget) {
  TempDir temp;
  const auto dir = OpenDir(temp.path());
  const auto held = LockKey(dir, kKernel, Sha256("a"), 0);
  const Clock::time_point start = Clock::now();
  EXPECT_EQ(LockKey(dir, kKernel, Sha256("a"), 50 * 1000), nullptr);
  EXPECT_GE(MillisecondsSince(start), 49);
  EXPECT_LT(MillisecondsSince(start), 2000);
  EXPECT_EQ(LockKey(dir, kKernel, Sha256("a"), -5), nullptr);
}

TEST(BuildLocksTest, ThreadsOfOneProcessExcludeEachOther) {
  TempDir temp;
  const auto dir = OpenDir(temp.path());
  std::atomic<int> inside{0}, worst{0}, entered{0};
  OnThreads(8, [&](int) {
    for (int i = 0; i < 5; ++i) {
      const auto held = LockKey(dir, kKernel, Sha256("a"), kLong);
      if (held == nullptr) continue;
      const int now = ++inside;
      if (now > worst) worst = now;
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      --inside;
      ++entered;
    }
  });
  EXPECT_EQ(entered, 40);
  EXPECT_EQ(worst, 1);
}

// The child runs `body` and exits with its value.
template <typename Body>
pid_t Spawn(Body body) {
  const pid_t pid = fork();
  if (pid == 0) _exit(body());
  return pid;
}

TEST(BuildLocksTest, AKilledHolderReleases) {
  TempDir temp;
  const auto dir = OpenDir(temp.path());
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = Spawn([&] {
    const auto held = LockKey(dir, kKernel, Sha256("a"), 0);
    const char byte = held != nullptr ? '1' : '0';
    (void)!write(ready[1], &byte, 1);
    pause();
    return 0;
  });
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, '1');
  EXPECT_EQ(LockKey(dir, kKernel, Sha256("a"), 0), nullptr);
  kill(child, SIGKILL);
  const Clock::time_point start = Clock::now();
  EXPECT_NE(LockKey(dir, kKernel, Sha256("a"), kLong), nullptr);
  std::cout << "waiter released " << MillisecondsSince(start)
            << " ms after the holder was killed\n";
  EndOf(child);
  close(ready[0]);
  close(ready[1]);
}

TEST(BuildLocksTest, AForkedCopyNeitherHoldsNorReleases) {
  TempDir temp;
  const auto dir = OpenDir(temp.path());
  auto held = LockKey(dir, kKernel, Sha256("a"), 0);
  ASSERT_NE(held, nullptr);
  // The child drops its copy: the parent still holds.
  EXPECT_EQ(EndOf(Spawn([&] {
              held.reset();
              return LockKey(dir, kKernel, Sha256("a"), 0) == nullptr ? 0 : 1;
            })),
            0);
  EXPECT_EQ(EndOf(Spawn([&] { return LockKey(dir, kKernel, Sha256("a"), 0) == nullptr ? 0 : 1; })),
            0);
  // A child that lives on with its copy does not keep the lock once the parent lets go.
  int done[2];
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = Spawn([&] {
    char byte;
    close(done[1]);
    (void)!read(done[0], &byte, 1);
    return 0;
  });
  held.reset();
  EXPECT_NE(LockKey(dir, kKernel, Sha256("a"), 0), nullptr);
  close(done[1]);
  EXPECT_EQ(EndOf(child), 0);
  close(done[0]);
}

TEST(BuildLocksTest, AHandleOutlivesTheFolderObject) {
  TempDir temp;
  auto dir = OpenDir(temp.path());
  auto held = LockKey(dir, kKernel, Sha256("a"), 0);
  dir.reset();
  held.reset();
  EXPECT_NE(LockKey(OpenDir(temp.path()), kKernel, Sha256("a"), 0), nullptr);
}

}  // namespace
}  // namespace sinter
