// FileSizeSignal: writes of this thread that pass the process's limit on file sizes fail with
// EFBIG.
#ifndef SINTER_SRC_BASE_FILE_SIZE_SIGNAL_H_
#define SINTER_SRC_BASE_FILE_SIZE_SIGNAL_H_

#include <signal.h>

namespace sinter {

// The kernel sends SIGXFSZ, which ends the process by default. While one lives, the thread does not
// get it; one that came is taken away at its end.
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

}  // namespace sinter

#endif  // SINTER_SRC_BASE_FILE_SIZE_SIGNAL_H_
