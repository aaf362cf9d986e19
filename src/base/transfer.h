// Reads and writes of whole files, however the kernel splits them; the signal that ends a write,
// and what must not be opened.
#ifndef SINTER_SRC_BASE_TRANSFER_H_
#define SINTER_SRC_BASE_TRANSFER_H_

#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace sinter {

// Calls `step(done, left)` until `size` bytes are moved, a step moves none (the end of a file), or
// one fails otherwise than by a signal. A step is one system call: it moves at most `left` bytes,
// beginning `done` bytes into the whole, and returns how many it moved, or -1 with errno. Returns
// how many bytes were moved; -1 with errno when a step failed.
template <typename Step>
ssize_t TransferAll(size_t size, Step step) {
  size_t done = 0;
  while (done < size) {
    const ssize_t n = step(done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return static_cast<ssize_t>(done);
}

// Fills `*bytes` from the file and shortens it to what was read. False with errno on failure.
bool ReadAll(int fd, std::string* bytes);

// Whether all of `bytes` was written. If not, errno is set where the system call failed.
bool WriteAll(int fd, absl::string_view bytes);

// Writing beyond a limit of file size raises SIGXFSZ, which ends the process by default. While this
// object lives its thread does not get the signal; one that came is discarded at its end.
class FileSizeSignal {
 public:
  FileSizeSignal();
  ~FileSizeSignal();
  FileSizeSignal(const FileSizeSignal&) = delete;
  FileSizeSignal& operator=(const FileSizeSignal&) = delete;

 private:
  sigset_t signal_, before_;
  bool blocked_ = false;  // by this
};

// Whether a folder, device or pipe has the name, or is behind a link of that name. To open a pipe
// would block.
inline bool IsNoRegularFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

}  // namespace sinter

#endif  // SINTER_SRC_BASE_TRANSFER_H_
