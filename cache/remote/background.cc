#include "cache/remote/background.h"

#include <signal.h>

#include <exception>
#include <utility>

#include "src/base/exit_gate.h"

namespace sinter {

bool Background::Push(uint64_t bytes, std::function<void()> job) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (closing_ || (!jobs_.empty() && bytes_ + bytes > max_bytes_)) return false;
  if (!thread_.joinable()) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::exception&) {  // no thread, or no memory for one
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (!thread_.joinable()) return false;
  }
  jobs_.push_back({bytes, std::move(job)});
  bytes_ += bytes;
  ++pushed_;
  more_.notify_one();
  return true;
}

void Background::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    more_.wait(lock, [this] { return closing_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    const std::function<void()> run = std::move(jobs_.front().run);
    lock.unlock();
    try {
      const ExitGate::Pass inside;
      if (inside) run();
    } catch (...) {  // the job is dropped: everything it does can be done without
    }
    lock.lock();
    if (!jobs_.empty()) {
      bytes_ -= jobs_.front().bytes;
      jobs_.pop_front();
    }
    ++done_;
    less_.notify_all();
  }
}

bool Background::Flush(std::chrono::milliseconds limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t all = pushed_;
  return less_.wait_for(lock, limit, [&] { return done_ >= all; });
}

void Background::Stop(std::chrono::milliseconds limit) {
  Flush(limit);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    // The job under way stays in the queue until it is done.
    while (jobs_.size() > 1) {
      bytes_ -= jobs_.back().bytes;
      jobs_.pop_back();
    }
    if (!jobs_.empty() && jobs_.front().run) {
      bytes_ -= jobs_.front().bytes;
      jobs_.clear();
    }
    more_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace sinter
