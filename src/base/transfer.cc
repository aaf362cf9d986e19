#include "src/base/transfer.h"

#include <unistd.h>

#include <cerrno>

namespace sinter {

bool ReadAll(int fd, std::string* bytes) {
  const ssize_t got = TransferAll(
      bytes->size(), [&](size_t done, size_t left) { return read(fd, &(*bytes)[done], left); });
  if (got < 0) return false;
  bytes->resize(static_cast<size_t>(got));
  return true;
}

bool WriteAll(int fd, absl::string_view bytes) {
  const FileSizeSignal none;
  const ssize_t put = TransferAll(
      bytes.size(), [&](size_t done, size_t left) { return write(fd, bytes.data() + done, left); });
  return put == static_cast<ssize_t>(bytes.size());
}

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
