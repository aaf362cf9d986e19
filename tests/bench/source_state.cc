#include "tests/bench/source_state.h"

#include <stdio.h>

#include <fstream>

#include "absl/strings/strip.h"
#include "sinter_build_info.h"

namespace sinter::bench {
namespace {

// First line that a command prints; `ok` says whether it succeeded.
std::string FirstLine(const char* command, bool* ok) {
  FILE* pipe = popen(command, "r");
  *ok = false;
  if (pipe == nullptr) return "";
  char text[256] = "";
  const bool read = fgets(text, sizeof text, pipe) != nullptr;
  *ok = pclose(pipe) == 0;
  return read ? std::string(absl::StripSuffix(text, "\n")) : "";
}

}  // namespace

SourceState SourceOfBuild() { return {SINTER_BUILD_COMMIT, SINTER_BUILD_DIRTY != 0}; }

SourceState DescribeSource() {
  SourceState state;
  std::ifstream file("COMMIT");
  std::string cleanliness;
  if (file >> state.commit >> cleanliness) {
    state.dirty = cleanliness != "clean";
    return state;
  }
  bool ok = false;
  state.commit = FirstLine("git rev-parse HEAD 2>/dev/null", &ok);
  if (!ok || state.commit.empty()) return SourceOfBuild();
  const std::string changes = FirstLine("git status --porcelain 2>/dev/null", &ok);
  state.dirty = !ok || !changes.empty();
  return state;
}

}  // namespace sinter::bench
