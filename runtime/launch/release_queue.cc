#include "runtime/launch/release_queue.h"

#include <exception>
#include <new>
#include <thread>
#include <utility>

namespace sinter {

void ReleaseQueue::Push(std::shared_ptr<const void> object) {
  try {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!closed_) {
        pending_.push_back(std::move(object));
        return;
      }
    }
    std::thread([last = std::move(object)]() mutable { last.reset(); }).detach();
  } catch (const std::exception&) {
    // No memory: it must not die here, so what is still ours does not die.
    using Pointer = std::shared_ptr<const void>;
    alignas(Pointer) unsigned char kept[sizeof(Pointer)];
    new (kept) Pointer(std::move(object));
  }
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
