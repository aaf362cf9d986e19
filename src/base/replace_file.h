// ReplaceFile: replaces a file by a text, all at once. PeriodicFile: does so again and again.
#ifndef SINTER_SRC_BASE_REPLACE_FILE_H_
#define SINTER_SRC_BASE_REPLACE_FILE_H_

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
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

// Returns the name that a new file may take: `path`, or where that is a link, the file behind it.
// INVALID_ARGUMENT where a folder, device or pipe has the name.
absl::StatusOr<std::string> ReplaceablePath(const std::string& path);

// Writes a new file of `mode` beside `path`, which then takes its name: a reader sees the old text
// or the new. A link stays, and a device or a pipe is written into. UNAVAILABLE with the call and
// the path.
absl::Status ReplaceFile(const std::string& path, absl::string_view text, mode_t mode);

// `path` with the process in the place of each "%p".
std::string PathOfProcess(absl::string_view path);

// Writes `text()` on a thread of its own: at once, after each `period`, and when it is destroyed. A
// failed write is tried again; the first failure in a row is a warning. A child of a fork writes
// nothing. If no thread can be started, that is a warning, and only the destructor writes.
class PeriodicFile {
 public:
  using Text = std::function<std::string()>;

  // "%p" in `path` is the process. Readable by all: a collector is another user.
  PeriodicFile(absl::string_view path, std::chrono::milliseconds period, Text text, LogSink log);
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

  const std::string path_;
  const std::chrono::milliseconds period_;
  const Text text_;
  const LogSink log_;
  const pid_t owner_;
  bool failed_ = false;  // of the thread, then of the destructor
  std::unique_ptr<Shared> shared_;
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_REPLACE_FILE_H_
