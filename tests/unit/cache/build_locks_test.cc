#include <signal.h>

#include "cache/store/directory.h"
#include "tests/unit/cache/cache_tests.h"

namespace sinter {
namespace {

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

int ExitStatusOf(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
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
  ExitStatusOf(child);
  close(ready[0]);
  close(ready[1]);
}

TEST(BuildLocksTest, AForkedCopyNeitherHoldsNorReleases) {
  TempDir temp;
  const auto dir = OpenDir(temp.path());
  auto held = LockKey(dir, kKernel, Sha256("a"), 0);
  ASSERT_NE(held, nullptr);
  // The child drops its copy: the parent still holds.
  EXPECT_EQ(ExitStatusOf(Spawn([&] {
              held.reset();
              return LockKey(dir, kKernel, Sha256("a"), 0) == nullptr ? 0 : 1;
            })),
            0);
  EXPECT_EQ(
      ExitStatusOf(Spawn([&] { return LockKey(dir, kKernel, Sha256("a"), 0) == nullptr ? 0 : 1; })),
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
  EXPECT_EQ(ExitStatusOf(child), 0);
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
