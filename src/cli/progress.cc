#include "src/cli/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>
#include <utility>

namespace sinter::cli {

int TerminalColumns() {
  constexpr int kUsual = 80;
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsual;
}

std::string Fitted(const std::string& text, int columns) {
  constexpr size_t kGap = 2;  // ".."
  const auto room = static_cast<size_t>(std::max(columns, 0));
  if (text.size() <= room) return text;
  if (room <= kGap) return text.substr(0, room);
  const size_t front = (room - kGap + 1) / 2, back = room - kGap - front;
  return text.substr(0, front) + ".." + text.substr(text.size() - back);
}

Progress::Progress()
    : terminal_(isatty(STDERR_FILENO) == 1), start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::Show(const std::string& bar, const std::string& stage, double fraction) {
  if (!IsDue()) return;
  char percent[16];
  std::snprintf(percent, sizeof(percent), "%3.0f %% ", 100 * std::clamp(fraction, 0.0, 1.0));
  // One column stays free: in the last one a terminal wraps, and the line can no longer be wiped.
  const int columns = TerminalColumns() - 1;
  const std::string head = Fitted(percent + bar, columns);
  Write(head + Fitted(stage, columns - static_cast<int>(head.size())));
}

void Progress::ShowElapsed(const std::string& stage) {
  if (!IsDue()) return;
  const auto took = std::chrono::steady_clock::now() - start_;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(took).count();
  Write(Fitted(stage + ": " + std::to_string(seconds) + " s", TerminalColumns() - 1));
}

bool Progress::IsDue() const {
  return terminal_ && std::chrono::steady_clock::now() - start_ >= std::chrono::seconds(1);
}

void Progress::Write(const std::string& line) {
  std::lock_guard<std::mutex> lock(mutex_);
  shown_ = true;
  std::fprintf(stderr, "\r\033[K%s", line.c_str());
  std::fflush(stderr);
}

void Progress::Callback(uintptr_t user_data, const char* stage, double fraction) {
  reinterpret_cast<Progress*>(user_data)->Show("", stage, fraction);
}

Elapsed::Elapsed(std::string stage) {
  if (!progress_.on_terminal()) return;
  try {
    thread_ = std::thread([this, stage = std::move(stage)] {
      std::unique_lock<std::mutex> lock(mutex_);
      while (!ended_.wait_for(lock, std::chrono::seconds(1), [this] { return end_; })) {
        progress_.ShowElapsed(stage);
      }
    });
  } catch (const std::system_error&) {  // no thread to be had: the work goes on unseen
  }
}

Elapsed::~Elapsed() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    end_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

}  // namespace sinter::cli
