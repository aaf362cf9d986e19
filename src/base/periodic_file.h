// PeriodicFile: a text that changes, written to a file again and again.
#ifndef SINTER_SRC_BASE_PERIODIC_FILE_H_
#define SINTER_SRC_BASE_PERIODIC_FILE_H_

#include <sys/types.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"
#include "src/base/log.h"

namespace sinter {

// Writes `text()` on a thread of its own: at once, each `period`, and when it is destroyed. What
// cannot be written is tried again; the first failure in a row is a warning. A child of a fork
// writes nothing. Without a thread, which is a warning too, it is written at the end alone.
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

#endif  // SINTER_SRC_BASE_PERIODIC_FILE_H_
