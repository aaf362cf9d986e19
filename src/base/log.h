// Log sink: one callback a context owns. No global state.
#ifndef SINTER_SRC_BASE_LOG_H_
#define SINTER_SRC_BASE_LOG_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "src/base/fork_local.h"

namespace sinter {

enum class LogLevel : int32_t { kError = 1, kWarn = 2, kInfo = 3, kDebug = 4 };

// Callable from any thread; the callback must not re-enter the library.
class LogSink {
 public:
  using Callback = std::function<void(LogLevel, absl::string_view)>;
  LogSink() = default;
  LogSink(LogLevel level, Callback callback) : level_(level), callback_(std::move(callback)) {}
  bool Enabled(LogLevel level) const { return callback_ && level <= level_; }
  void Log(LogLevel level, absl::string_view message) const {
    if (Enabled(level)) callback_(level, message);
  }

 private:
  LogLevel level_ = LogLevel::kWarn;
  Callback callback_;
};

// Trace: where the time of prepares went, as Chrome's trace events (Perfetto, chrome://tracing).

// Holds the spans of one context until they are written. The first kMostSpans are kept, the rest
// are only counted. Thread-safe.
class Trace {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMostSpans = 32768;
  static constexpr size_t kMostDetail = 200;  // bytes

  // "%p" in `path` is the process. A child of a fork writes nothing.
  explicit Trace(absl::string_view path);

  // `name` is a literal. Never fails: without memory the span counts as dropped.
  void Add(const char* name, std::string detail, Clock::time_point begin,
           Clock::time_point end) noexcept;
  // Writes what was added so far, replacing an older file of that name.
  absl::Status Write();

 private:
  struct Span {
    const char* name;
    std::string detail;
    int64_t thread, begin_ns, duration_ns;
  };
  struct Spans {
    std::vector<Span> kept;
    uint64_t dropped = 0;
  };
  std::string Text();

  const std::string path_;
  const int64_t process_;
  ForkLocal<Spans, /*kKeep=*/false> spans_;
};

// Adds the time from its construction to its destruction to the trace; null: does nothing.
class TraceSpan {
 public:
  TraceSpan(Trace* trace, const char* name, absl::string_view detail = "")
      : trace_(trace), name_(name) {
    if (trace_ == nullptr) return;
    detail_ = std::string(detail.substr(0, Trace::kMostDetail));
    begin_ = Trace::Clock::now();
  }
  ~TraceSpan() {
    if (trace_ != nullptr) trace_->Add(name_, std::move(detail_), begin_, Trace::Clock::now());
  }
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  Trace* const trace_;
  const char* const name_;
  std::string detail_;
  Trace::Clock::time_point begin_;
};

}  // namespace sinter

#endif  // SINTER_SRC_BASE_LOG_H_
