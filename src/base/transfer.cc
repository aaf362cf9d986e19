#include "src/base/transfer.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "src/base/status.h"

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

namespace {

absl::Status FileError(const char* call, const std::string& path) {
  return Unavailable(call, " ", path, ": ", strerror(errno));
}

absl::Status WriteInto(const std::string& path, absl::string_view text) {
  const int fd = open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0) return FileError("open", path);
  const absl::Status status = WriteAll(fd, text) ? absl::OkStatus() : FileError("write", path);
  close(fd);
  return status;
}

absl::Status Replace(const std::string& path, absl::string_view text, mode_t mode, bool sync) {
  std::string beside = absl::StrCat(path, ".XXXXXX");
  const int fd = mkostemp(&beside[0], O_CLOEXEC);
  if (fd < 0) return FileError("create", path);
  const bool written = WriteAll(fd, text) && fchmod(fd, mode) == 0 && (!sync || fsync(fd) == 0);
  const absl::Status status = written ? absl::OkStatus() : FileError("write", path);
  close(fd);
  if (written && rename(beside.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const absl::Status failed = written ? FileError("rename", path) : status;
  unlink(beside.c_str());
  return failed;
}

}  // namespace

absl::StatusOr<std::string> ReplaceablePath(const std::string& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) != 0 || S_ISREG(info.st_mode)) return path;
  if (S_ISLNK(info.st_mode) && stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) {
    char* real = realpath(path.c_str(), nullptr);
    if (real == nullptr) return FileError("resolve", path);
    std::string target = real;
    free(real);
    return target;
  }
  const char* why = S_ISDIR(info.st_mode) ? strerror(EISDIR) : "no regular file";
  return Invalid(path, ": ", why);
}

absl::Status ReplaceFile(const std::string& path, absl::string_view text, mode_t mode, bool sync) {
  const absl::StatusOr<std::string> place = ReplaceablePath(path);
  if (place.ok()) return Replace(*place, text, mode, sync);
  return absl::IsInvalidArgument(place.status()) ? WriteInto(path, text) : place.status();
}

std::string PathOfProcess(absl::string_view path) {
  return absl::StrReplaceAll(path, {{"%p", absl::StrCat(getpid())}});
}

PeriodicFile::PeriodicFile(absl::string_view variable, absl::string_view path,
                           std::chrono::milliseconds period, Text text, LogSink log)
    : variable_(variable),
      path_(PathOfProcess(path)),
      period_(period),
      text_(std::move(text)),
      log_(std::move(log)),
      owner_(getpid()),
      shared_(std::make_unique<Shared>()) {
  try {
    shared_->thread = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    Warn(absl::StrCat(path_, " is written at the end alone: no thread"));
  }
}

void PeriodicFile::Warn(absl::string_view why) const {
  log_.Log(LogLevel::kWarn, absl::StrCat(variable_, ": ", why));
}

PeriodicFile::~PeriodicFile() {
  if (getpid() != owner_) {
    (void)shared_.release();
    return;
  }
  if (shared_->thread.joinable()) {
    {
      const std::lock_guard<std::mutex> lock(shared_->mutex);
      shared_->ending = true;
    }
    shared_->changed.notify_one();
    shared_->thread.join();
  }
  Write();
}

void PeriodicFile::Run() {
  std::unique_lock<std::mutex> lock(shared_->mutex);
  while (!shared_->ending) {
    lock.unlock();
    Write();
    lock.lock();
    shared_->changed.wait_for(lock, period_, [this] { return shared_->ending; });
  }
}

void PeriodicFile::Write() noexcept {
  try {
    const absl::Status written = ReplaceFile(path_, text_(), 0644);
    if (!written.ok() && !failed_) Warn(written.message());
    failed_ = !written.ok();
  } catch (const std::bad_alloc&) {  // the next one may find memory
  }
}

}  // namespace sinter
