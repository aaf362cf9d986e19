// A minimal ELF image that passes for a cubin: right header, a string table that names the kernel
// and is as long as `filler` bytes make it, no code.
#ifndef SINTER_TESTS_FAKES_FAKE_CUBIN_H_
#define SINTER_TESTS_FAKES_FAKE_CUBIN_H_

#include <cstddef>
#include <string>

namespace sinter {

std::string FakeCubin(const std::string& entry, size_t filler = 0);

}  // namespace sinter

#endif  // SINTER_TESTS_FAKES_FAKE_CUBIN_H_
