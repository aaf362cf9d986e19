// The identity of a library file: its ELF build id.
#ifndef SINTER_RUNTIME_NVRTC_BUILD_ID_H_
#define SINTER_RUNTIME_NVRTC_BUILD_ID_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

// The GNU build id in the notes of a 64-bit little-endian ELF file, as hex; "" when there is none
// or the bytes are not such a file. Trusts nothing in them: reads at most 65535 segments' headers
// and 1000 notes.
std::string BuildIdOf(absl::string_view elf);

// The build id of the file at `path`, or "sha256:<hex>" of its bytes when it has none. UNAVAILABLE
// when it cannot be read.
absl::StatusOr<std::string> FileIdentity(const std::string& path);

}  // namespace sinter

#endif  // SINTER_RUNTIME_NVRTC_BUILD_ID_H_
