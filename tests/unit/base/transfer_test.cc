#include "src/base/transfer.h"

#include <signal.h>
#include <sys/resource.h>

#include "tests/support/child.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

TEST(TransferAllTest, GoesOnAfterShortStepsAndSignals) {
  std::vector<size_t> lefts;
  const ssize_t got = TransferAll(10, [&](size_t done, size_t left) -> ssize_t {
    EXPECT_EQ(done + left, 10u);
    lefts.push_back(left);
    errno = EINTR;
    return lefts.size() == 2 ? -1 : static_cast<ssize_t>(std::min<size_t>(left, 4));
  });
  EXPECT_EQ(got, 10);
  EXPECT_EQ(lefts, (std::vector<size_t>{10, 6, 6, 2}));
}

TEST(TransferAllTest, EndsAtTheEndAndAtAFailure) {
  EXPECT_EQ(TransferAll(10, [](size_t done, size_t) -> ssize_t { return done == 0 ? 3 : 0; }), 3);
  errno = 0;
  EXPECT_EQ(TransferAll(10,
                        [](size_t done, size_t) -> ssize_t {
                          errno = EIO;
                          return done == 0 ? 3 : -1;
                        }),
            -1);
  EXPECT_EQ(errno, EIO);
}

TEST(ReadAllTest, ReadsWhatWriteAllWroteAndShortensAtTheEnd) {
  FILE* file = tmpfile();
  ASSERT_NE(file, nullptr);
  const int fd = fileno(file);
  EXPECT_TRUE(WriteAll(fd, "hello"));
  ASSERT_EQ(lseek(fd, 1, SEEK_SET), 1);
  std::string bytes(100, '\0');
  EXPECT_TRUE(ReadAll(fd, &bytes));
  EXPECT_EQ(bytes, "ello");
  fclose(file);
}

TEST(ReadAllTest, AFailureIsToldWithItsErrno) {
  std::string bytes(4, '\0');
  EXPECT_FALSE(ReadAll(-1, &bytes));
  EXPECT_EQ(errno, EBADF);
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (full < 0) GTEST_SKIP() << "no /dev/full";
  EXPECT_FALSE(WriteAll(full, "x"));
  EXPECT_EQ(errno, ENOSPC);
  close(full);
}

// In a child, whose limit it is: SIGXFSZ would end it.
TEST(WriteAllTest, FailsAtTheLimitOfFileSizesAndTheProcessLives) {
  char path[] = "/tmp/sinter_limit.XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  unlink(path);
  const int end = EndOfChild([&] {
    const rlimit limit = {4, 4};
    setrlimit(RLIMIT_FSIZE, &limit);
    const bool failed = !WriteAll(fd, "more than four") && errno == EFBIG;
    sigset_t pending, blocked;
    sigpending(&pending);
    sigprocmask(SIG_BLOCK, nullptr, &blocked);
    const bool quiet = sigismember(&pending, SIGXFSZ) == 0 && sigismember(&blocked, SIGXFSZ) == 0;
    return failed && quiet ? 0 : 1;
  });
  EXPECT_EQ(end, 0);
  close(fd);
}

}  // namespace
}  // namespace sinter
