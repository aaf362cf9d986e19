// IsNoRegularFile: what must not be opened as a file.
#ifndef SINTER_SRC_BASE_REGULAR_FILE_H_
#define SINTER_SRC_BASE_REGULAR_FILE_H_

#include <sys/stat.h>

#include <string>

namespace sinter {

// Whether a folder, device or pipe has the name, or is behind a link of that name. To open a pipe
// would block.
inline bool IsNoRegularFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

}  // namespace sinter

#endif  // SINTER_SRC_BASE_REGULAR_FILE_H_
