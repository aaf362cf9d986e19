// An image that passes for a cubin: it names the kernel's section where code would be, which is how
// the compiler port finds the kernel, and is as long as `filler` bytes make it.
#ifndef SINTER_TESTS_FAKES_FAKE_CUBIN_H_
#define SINTER_TESTS_FAKES_FAKE_CUBIN_H_

#include "tests/support/small_cubin.h"

namespace sinter {

inline std::string FakeCubin(const std::string& entry, size_t filler = 0) {
  return SmallCubin(".text." + entry + std::string(filler + 1, '\0'));
}

}  // namespace sinter

#endif  // SINTER_TESTS_FAKES_FAKE_CUBIN_H_
