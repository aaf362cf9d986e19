// ReleaseQueue: objects that must not die where their last owner let them go.
#ifndef SINTER_RUNTIME_LAUNCH_RELEASE_QUEUE_H_
#define SINTER_RUNTIME_LAUNCH_RELEASE_QUEUE_H_

#include <memory>
#include <mutex>
#include <vector>

namespace sinter {

// A graph that dies drops its user objects in a callback on a thread of the driver, where calling
// the driver is illegal; a plan that died there would unload modules. The callback pushes the plan
// here instead, and the next call on a slow path releases it. Thread-safe. Nothing is released
// under the lock.
class ReleaseQueue {
 public:
  // Takes `object`. After Close() there is no later slow path: a thread of its own releases it.
  void Push(std::shared_ptr<const void> object);
  // Releases what was pushed. Not to be called from a CUDA callback.
  void Drain();
  // Drains, now and for good.
  void Close();

 private:
  std::mutex mutex_;  // guards both fields
  std::vector<std::shared_ptr<const void>> pending_;
  bool closed_ = false;
};

}  // namespace sinter

#endif  // SINTER_RUNTIME_LAUNCH_RELEASE_QUEUE_H_
