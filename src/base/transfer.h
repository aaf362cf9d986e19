// Reads and writes of whole files, however the kernel splits them; the signal that ends a write,
// and what must not be opened.
#ifndef SINTER_SRC_BASE_TRANSFER_H_
#define SINTER_SRC_BASE_TRANSFER_H_

#include <signal.h>
#include <sys/stat.h>
#include <sys/types.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/log.h"

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
// object lives its thread does not get the signal; a signal that came meanwhile is discarded at its
// end.
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

// Whether the name, or the target of a link of that name, is a folder, device or pipe. To open a
// pipe would block.
inline bool IsNoRegularFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
}

// ReplaceFile: replaces a file by a text, all at once. PeriodicFile: does so again and again.

// Returns the name that a new file may take: `path`, or if that is a link, the file that it leads
// to. INVALID_ARGUMENT if a folder, device or pipe has the name; other errors are FilePlace::Of's.
absl::StatusOr<std::string> ReplaceablePath(const std::string& path);

// Writes a new file of `mode` in `path`'s folder, which then takes its name: a reader sees the old
// text or the new. A link stays, and a device or a pipe is written into. `sync` waits for the disk
// before the file gets its name. UNAVAILABLE with the call and the path; PERMISSION_DENIED where
// another user's link is on the way (src/base/file_place.h).
absl::Status ReplaceFile(const std::string& path, absl::string_view text, mode_t mode,
                         bool sync = false);

// `path` with the process id instead of each "%p".
std::string PathOfProcess(absl::string_view path);

// Writes `text()` on a thread of its own: at once, after each `period`, and when it is destroyed. A
// failed write is tried again; the first failure in a row is a warning. A child of a fork writes
// nothing. If no thread can be started, that is a warning, and only the destructor writes.
class PeriodicFile {
 public:
  using Text = std::function<std::string()>;

  // "%p" in `path` is the process. Readable by all: a collector is another user. Warnings begin
  // with `variable`, which named the path.
  PeriodicFile(absl::string_view variable, absl::string_view path, std::chrono::milliseconds period,
               Text text, LogSink log);
  ~PeriodicFile();
  PeriodicFile(const PeriodicFile&) = delete;
  PeriodicFile& operator=(const PeriodicFile&) = delete;

 private:
  // Not touched in a child: there it may be locked for ever.
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool ending = false;
    std::thread thread;
  };
  void Run();
  void Write() noexcept;

  void Warn(absl::string_view why) const;

  const std::string variable_, path_;
  const std::chrono::milliseconds period_;
  const Text text_;
  const LogSink log_;
  const pid_t owner_;
  bool failed_ = false;  // of the thread, then of the destructor
  std::unique_ptr<Shared> shared_;
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_TRANSFER_H_
