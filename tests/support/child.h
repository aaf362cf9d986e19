// Child processes of tests.
#pragma once

#include "tests/support/common.h"

namespace sinter {

// Waits for a child: its exit code, or the negative number of the signal that ended it.
inline int EndOf(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

// How a child ends that runs `body` for its exit code, without destructors, for so long at most.
template <typename Body>
int EndOfChild(const Body& body, unsigned seconds = 100) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(seconds);
    _exit(body());
  }
  return EndOf(child);
}

}  // namespace sinter
