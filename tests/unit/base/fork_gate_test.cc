#include "src/base/fork_local.h"
#include "tests/support/test.h"

namespace sinter {
namespace {

int ExitOfChild(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(ForkGateTest, AChildPassesWhenNobodyWasInside) {
  ForkGate gate;
  { EXPECT_TRUE(gate.Enter()); }
  const pid_t child = fork();
  if (child == 0) _exit(gate.Enter() && gate.Enter() ? 0 : 1);
  EXPECT_EQ(ExitOfChild(child), 0);
  EXPECT_TRUE(gate.Enter());
}

TEST(ForkGateTest, AChildOfAParentWithSomebodyInsideNeverPasses) {
  ForkGate gate;
  pid_t child = -1;
  {
    const ForkGate::Pass inside = gate.Enter();
    child = fork();
    if (child == 0) {
      if (gate.Enter()) _exit(1);
      const pid_t grandchild = fork();
      if (grandchild == 0) _exit(gate.Enter() ? 1 : 0);
      _exit(ExitOfChild(grandchild));
    }
  }
  EXPECT_EQ(ExitOfChild(child), 0);
  EXPECT_TRUE(gate.Enter());  // the parent's own
}

TEST(ForkGateTest, WhoForkedInsideDoesNotOpenTheGateByLeaving) {
  ForkGate gate;
  pid_t child = -1;
  {
    const ForkGate::Pass inside = gate.Enter();
    child = fork();
  }
  if (child == 0) _exit(gate.Enter() ? 1 : 0);
  EXPECT_EQ(ExitOfChild(child), 0);
}

}  // namespace
}  // namespace sinter
