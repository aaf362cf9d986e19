// A minimal ELF image that passes for a cubin: right header, a string table that names the kernel,
// no code.
#ifndef SINTER_TESTS_FAKES_FAKE_CUBIN_H_
#define SINTER_TESTS_FAKES_FAKE_CUBIN_H_

#include <string>

namespace sinter {

std::string FakeCubin(const std::string& entry);

}  // namespace sinter

#endif  // SINTER_TESTS_FAKES_FAKE_CUBIN_H_
