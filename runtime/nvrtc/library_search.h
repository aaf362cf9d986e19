// Where libnvrtc lies: the names to try, and the file a name stands for.
#ifndef SINTER_RUNTIME_NVRTC_LIBRARY_SEARCH_H_
#define SINTER_RUNTIME_NVRTC_LIBRARY_SEARCH_H_

#include <string>
#include <vector>

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

}  // namespace sinter

#endif  // SINTER_RUNTIME_NVRTC_LIBRARY_SEARCH_H_
