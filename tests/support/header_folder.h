// The headers of a folder as a request to the compiler carries them.
#pragma once

#include "tests/support/common.h"

namespace sinter {

// (include name, bytes) of every .cuh below `folder`, sorted by name: the device library of another
// version, as `git archive REVISION src/device | tar x -C /tmp/old` leaves it in
// /tmp/old/src/device. Empty where there is none.
std::vector<std::pair<std::string, std::string>> ReadHeaderFolder(const std::string& folder);

}  // namespace sinter
