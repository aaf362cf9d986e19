// An image that passes for a cubin: it names the kernel's section where code would be, which is how
// the compiler port finds the kernel, and is as long as `filler` bytes make it.
#pragma once

#include "tests/support/small_cubin.h"

namespace sinter {

inline std::string FakeCubin(const std::string& entry, size_t filler = 0) {
  return SmallCubin(".text." + entry + std::string(filler + 1, '\0'));
}

}  // namespace sinter
