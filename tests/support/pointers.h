#pragma once

#include "tests/support/common.h"

namespace sinter {

// The addresses of buffers, as RunReference takes its inputs.
template <typename Buffers>
std::vector<const void*> PointersTo(const Buffers& buffers) {
  std::vector<const void*> pointers;
  for (const auto& buffer : buffers) pointers.push_back(buffer.data());
  return pointers;
}

}  // namespace sinter
