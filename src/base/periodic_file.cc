#include "src/base/periodic_file.h"

#include <unistd.h>

#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/replace_file.h"

namespace sinter {

PeriodicFile::PeriodicFile(absl::string_view path, std::chrono::milliseconds period, Text text,
                           LogSink log)
    : path_(PathOfProcess(path)),
      period_(period),
      text_(std::move(text)),
      log_(std::move(log)),
      owner_(getpid()),
      shared_(std::make_unique<Shared>()) {
  try {
    shared_->thread = std::thread([this] { Run(); });
  } catch (const std::system_error&) {
    log_.Log(LogLevel::kWarn, absl::StrCat(path_, " is written at the end alone: no thread"));
  }
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
    if (!written.ok() && !failed_) log_.Log(LogLevel::kWarn, written.message());
    failed_ = !written.ok();
  } catch (const std::bad_alloc&) {  // the next one may find memory
  }
}

}  // namespace sinter
