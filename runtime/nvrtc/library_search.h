// The files of NVRTC: where libnvrtc lies, its second library, the identity of a library file.
#ifndef SINTER_RUNTIME_NVRTC_LIBRARY_SEARCH_H_
#define SINTER_RUNTIME_NVRTC_LIBRARY_SEARCH_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sinter {

// `path` alone when it is given; else the sonames and the files of /usr/local/cuda*, the newest
// version first, the loader's before others of its version.
std::vector<std::string> NvrtcCandidates(const std::string& path);

// The minor version of an NVRTC of version `major`, told by its builtins, which lie beside it; -1
// where there are none.
int NvrtcMinorOf(const std::string& file, int major);

// The file that dlopen of the first candidate that opens would load, found by looking only: the
// loader's search list, then its cache, then its default folders. "" when it cannot be told.
std::string FindNvrtcFile(const std::string& path);

// The names to open for an NVRTC of version major.minor that was loaded from `nvrtc_file`: the file
// in the folder where that file really lies, the file in the folder that its name gives, and last
// the bare name, which the loader knows or does not. Equal ones once.
std::vector<std::string> BuiltinsCandidates(const std::string& nvrtc_file, int major, int minor);

// Opens the first candidate that opens, for the life of the process. NVRTC asks for the bare name,
// and the loader answers with a library that is loaded already if its soname is that name.
// UNAVAILABLE, naming the file and the reason, when none opens.
absl::Status OpenBuiltins(const std::string& nvrtc_file, int major, int minor);

// The GNU build id in the notes of a 64-bit little-endian ELF file, as hex; "" when there is none
// or the bytes are not such a file. Trusts nothing in them: reads at most 65535 segments' headers
// and 1000 notes.
std::string BuildIdOf(absl::string_view elf);

// The build id of the file at `path`, or "sha256:<hex>" of its bytes when it has none. UNAVAILABLE
// when it cannot be read.
absl::StatusOr<std::string> FileIdentity(const std::string& path);

}  // namespace sinter

#endif  // SINTER_RUNTIME_NVRTC_LIBRARY_SEARCH_H_
