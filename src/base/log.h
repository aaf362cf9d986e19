// Log sink: one callback a context owns. No global state.
#ifndef SINTER_SRC_BASE_LOG_H_
#define SINTER_SRC_BASE_LOG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

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

}  // namespace sinter

#endif  // SINTER_SRC_BASE_LOG_H_
