// What a results file says of the version that it was made of.
#pragma once

#include <string>

namespace sinter::bench {

struct SourceState {
  std::string commit = "unknown";
  bool dirty = true;
};

// From the file COMMIT ("<hash> clean|dirty") of the current folder, else what the build found in
// its checkout, whatever folder the program runs in. Unknown counts as dirty.
SourceState DescribeSource();

// The last of them alone: 12 digits.
SourceState SourceOfBuild();

}  // namespace sinter::bench
