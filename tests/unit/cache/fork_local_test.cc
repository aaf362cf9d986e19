#include "src/base/fork_local.h"

#include "tests/support/test.h"

namespace sinter {
namespace {

int ExitOf(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ForkLocalTest, AChildGoesOnWithAValueThatNobodyWasChanging) {
  ForkLocal<int> value;
  *value.Lock() = 7;
  const pid_t child = fork();
  if (child == 0) {
    const bool kept = *value.Lock() == 7;
    *value.Lock() = 8;
    _exit(kept && *value.Lock() == 8 ? 0 : 1);
  }
  EXPECT_EQ(ExitOf(child), 0);
  EXPECT_EQ(*value.Lock(), 7);
}

TEST(ForkLocalTest, AChildStartsAnewWhenTheParentForkedInTheMiddleOfAChange) {
  ForkLocal<int> value;
  pid_t child = -1;
  {
    const auto locked = value.Lock();
    *locked = 7;
    child = fork();
    if (child == 0) {
      std::vector<std::thread> threads;
      for (int i = 0; i < 4; ++i) threads.emplace_back([&] { ++*value.Lock(); });
      for (std::thread& thread : threads) thread.join();
      _exit(*value.Lock() == 4 ? 0 : 1);
    }
  }
  EXPECT_EQ(ExitOf(child), 0);
  EXPECT_EQ(*value.Lock(), 7);
}

TEST(ForkLocalTest, WithoutKeepingAChildAlwaysStartsAnew) {
  ForkLocal<int, false> value;
  *value.Lock() = 7;
  const pid_t child = fork();
  if (child == 0) _exit(*value.Lock() == 0 ? 0 : 1);
  EXPECT_EQ(ExitOf(child), 0);
  EXPECT_EQ(*value.Lock(), 7);
}

}  // namespace
}  // namespace sinter
