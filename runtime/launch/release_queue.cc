#include "runtime/launch/release_queue.h"

#include <thread>
#include <utility>

namespace sinter {

void ReleaseQueue::Push(std::shared_ptr<const void> object) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!closed_) {
      pending_.push_back(std::move(object));
      return;
    }
  }
  std::thread([last = std::move(object)]() mutable { last.reset(); }).detach();
}

void ReleaseQueue::Drain() {
  std::vector<std::shared_ptr<const void>> taken;
  std::lock_guard<std::mutex> lock(mutex_);
  taken.swap(pending_);
}

void ReleaseQueue::Close() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  Drain();
}

}  // namespace sinter
