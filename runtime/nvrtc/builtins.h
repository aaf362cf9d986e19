// The builtins: the second library of NVRTC, which it opens at its first compile.
#ifndef SINTER_RUNTIME_NVRTC_BUILTINS_H_
#define SINTER_RUNTIME_NVRTC_BUILTINS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace sinter {

// The names to open for an NVRTC of version major.minor that was loaded from `nvrtc_file`: the file
// in the folder where that file really lies, the file in the folder that its name gives, and last
// the bare name, which the loader knows or does not. Equal ones once.
std::vector<std::string> BuiltinsCandidates(const std::string& nvrtc_file, int major, int minor);

// Opens the first candidate that opens, for the life of the process. NVRTC asks for the bare name,
// and the loader answers with a library that is loaded already if its soname is that name.
// UNAVAILABLE, naming the file and the reason, when none opens.
absl::Status OpenBuiltins(const std::string& nvrtc_file, int major, int minor);

}  // namespace sinter

#endif  // SINTER_RUNTIME_NVRTC_BUILTINS_H_
