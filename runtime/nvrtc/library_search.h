// Where libnvrtc lies: the names to try, and the file a name stands for.
#ifndef SINTER_RUNTIME_NVRTC_LIBRARY_SEARCH_H_
#define SINTER_RUNTIME_NVRTC_LIBRARY_SEARCH_H_

#include <string>
#include <vector>

namespace sinter {

// `path` alone when it is given; else the sonames, newest first, and last the files of
// /usr/local/cuda*.
std::vector<std::string> NvrtcCandidates(const std::string& path);

// The file that dlopen of the first candidate that opens would load, found by looking only: the
// loader's search list, then its cache, then its default folders. "" when it cannot be told.
std::string FindNvrtcFile(const std::string& path);

}  // namespace sinter

#endif  // SINTER_RUNTIME_NVRTC_LIBRARY_SEARCH_H_
