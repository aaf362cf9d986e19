// A fuzz target has a namespace of its own and one function. In the target's own program that is
// libFuzzer's entry point, in the program that replays all corpora `Target`:
//   namespace sinter::cubin_fuzz {
//   SINTER_FUZZ_TARGET(const uint8_t* data, size_t size) { .. }
//   }
#pragma once

#include <cstdio>
#include <cstdlib>

#include "absl/strings/string_view.h"

#ifdef SINTER_LIBFUZZER
#define SINTER_FUZZ_TARGET extern "C" int LLVMFuzzerTestOneInput
#else
#define SINTER_FUZZ_TARGET int Target
#endif

namespace sinter {

// Ends the program where an accepted input breaks a promise.
inline void Require(bool condition, absl::string_view promise = "") {
  if (condition) return;
  std::fprintf(stderr, "%.*s\n", static_cast<int>(promise.size()), promise.data());
  std::abort();
}

}  // namespace sinter
