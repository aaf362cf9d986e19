#include "src/cli/progress.h"

#include <unistd.h>

#include <cstdio>

namespace sinter::cli {

Progress::Progress()
    : terminal_(isatty(STDERR_FILENO) == 1), start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::Show(const std::string& stage, double fraction) {
  if (!terminal_) return;
  if (std::chrono::steady_clock::now() - start_ < std::chrono::seconds(1)) return;
  std::lock_guard<std::mutex> lock(mutex_);
  shown_ = true;
  std::fprintf(stderr, "\r\033[K%3.0f %% %s", 100 * fraction, stage.c_str());
  std::fflush(stderr);
}

void Progress::Callback(uintptr_t user_data, const char* stage, double fraction) {
  reinterpret_cast<Progress*>(user_data)->Show(stage, fraction);
}

}  // namespace sinter::cli
