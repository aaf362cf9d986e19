#include "tests/bench/source_state.h"

#include <fstream>

#include "sinter_build_info.h"

namespace sinter::bench {

SourceState SourceOfBuild() { return {SINTER_BUILD_COMMIT, SINTER_BUILD_DIRTY != 0}; }

SourceState DescribeSource() {
  SourceState state;
  std::ifstream file("COMMIT");
  std::string cleanliness;
  if (file >> state.commit >> cleanliness) {
    state.dirty = cleanliness != "clean";
    return state;
  }
  return SourceOfBuild();
}

}  // namespace sinter::bench
