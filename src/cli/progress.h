// Progress: one line on a terminal for anything that takes longer than a second.
#ifndef SINTER_SRC_CLI_PROGRESS_H_
#define SINTER_SRC_CLI_PROGRESS_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace sinter::cli {

// Columns of the terminal behind standard error, 80 where it does not say. Terminals change in
// size: asked for each line.
int TerminalColumns();
// `text`, ASCII, in at most `columns`: its middle gives way to "..", so that how far it is and what
// it does now both stay.
std::string Fitted(const std::string& text, int columns);

// Writes to standard error, and only when that is a terminal. The line is wiped at the end.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // "37 % bar stage": where the terminal is too narrow, the stage is shortened.
  void Show(const std::string& bar, const std::string& stage, double fraction);
  // As a sinter_progress_callback; user_data is the Progress.
  static void Callback(uintptr_t user_data, const char* stage, double fraction);
  uintptr_t user_data() { return reinterpret_cast<uintptr_t>(this); }

 private:
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;  // one line at a time
  bool shown_ = false;
};

}  // namespace sinter::cli

#endif  // SINTER_SRC_CLI_PROGRESS_H_
