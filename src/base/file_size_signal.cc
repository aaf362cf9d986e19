#include "src/base/file_size_signal.h"

#include <cerrno>

namespace sinter {

FileSizeSignal::FileSizeSignal() {
  sigemptyset(&signal_);
  sigaddset(&signal_, SIGXFSZ);
  blocked_ =
      pthread_sigmask(SIG_BLOCK, &signal_, &before_) == 0 && sigismember(&before_, SIGXFSZ) == 0;
}

FileSizeSignal::~FileSizeSignal() {
  if (!blocked_) return;
  const int error = errno;
  const timespec now = {};
  while (sigtimedwait(&signal_, nullptr, &now) < 0 && errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = error;
}

}  // namespace sinter
