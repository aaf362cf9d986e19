#include "src/base/transfer.h"

#include <fcntl.h>
#include <sys/random.h>
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
#include "src/base/file_place.h"
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

absl::Status WriteInto(const FilePlace& place, absl::string_view text) {
  const int fd = place.OpenSpecial();
  if (fd < 0) return FileError("open", place.path());
  const absl::Status status =
      WriteAll(fd, text) ? absl::OkStatus() : FileError("write", place.path());
  close(fd);
  return status;
}

// Makes an empty file in the folder of `place` and sets `*name`. -1 with errno.
int MakeBeside(const FilePlace& place, std::string* name) {
  constexpr int kAttempts = 8;
  for (int i = 0; i < kAttempts; ++i) {
    uint32_t random = 0;
    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) return -1;
    *name = absl::StrCat(place.name(), ".", absl::Hex(random, absl::kZeroPad8));
    const int fd = openat(place.folder(), name->c_str(),
                          O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

absl::Status Replace(const FilePlace& place, absl::string_view text, mode_t mode, bool sync) {
  std::string beside;
  const int fd = MakeBeside(place, &beside);
  if (fd < 0) return FileError("create", place.path());
  const bool written = WriteAll(fd, text) && fchmod(fd, mode) == 0 && (!sync || fsync(fd) == 0);
  const absl::Status status = written ? absl::OkStatus() : FileError("write", place.path());
  close(fd);
  const int folder = place.folder();
  if (written && renameat(folder, beside.c_str(), folder, place.name().c_str()) == 0) {
    return absl::OkStatus();
  }
  const absl::Status failed = written ? FileError("rename", place.path()) : status;
  unlinkat(folder, beside.c_str(), 0);
  return failed;
}

}  // namespace

absl::StatusOr<std::string> ReplaceablePath(const std::string& path) {
  SINTER_ASSIGN_OR_RETURN(const FilePlace place, FilePlace::Of(path));
  if (place.special()) return Invalid(path, ": no regular file");
  return place.path();
}

absl::Status ReplaceFile(const std::string& path, absl::string_view text, mode_t mode, bool sync) {
  SINTER_ASSIGN_OR_RETURN(const FilePlace place, FilePlace::Of(path));
  return place.special() ? WriteInto(place, text) : Replace(place, text, mode, sync);
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
    Warn(absl::StrCat(path_, " is only written at the end: no thread could be started"));
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
