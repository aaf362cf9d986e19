// BuildQueue: prepares in the background, a few at once; the others are entries that wait.
#ifndef SINTER_SRC_CAPI_BUILD_QUEUE_H_
#define SINTER_SRC_CAPI_BUILD_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sinter::capi {

// One of Run and Drop is called, once. Both end it, so that whoever waits for it goes on.
class QueuedBuild {
 public:
  virtual ~QueuedBuild() = default;
  virtual void Run() noexcept = 0;
  virtual void Drop(const absl::Status& why) noexcept = 0;
  // OK, or why it is no longer wanted. Asked while it waits.
  virtual absl::Status Wanted() const = 0;
};

// Has a few threads of low priority, started when they are first needed, and one that ends entries
// whose deadline or cancel comes while they wait. Thread-safe; in the child of a fork it is empty
// and has no threads.
class BuildQueue {
 public:
  static constexpr uint64_t kNoTicket = 0;

  // At most `most` run at once.
  explicit BuildQueue(int most);
  // Threads that still run an entry are left to end by themselves; nothing waits any more, since
  // entries keep what owns the queue.
  ~BuildQueue();
  BuildQueue(const BuildQueue&) = delete;
  BuildQueue& operator=(const BuildQueue&) = delete;

  // The entry's ticket; it may run at once. RESOURCE_EXHAUSTED: there is no thread for it, and it
  // is neither run nor dropped.
  absl::StatusOr<uint64_t> Push(std::shared_ptr<QueuedBuild> build);
  // Drops the entry, which was cancelled, if it still waits.
  void Withdraw(uint64_t ticket);

 private:
  struct Shared;
  static void Work(const std::shared_ptr<Shared>& shared, size_t worker) noexcept;
  static void Watch(const std::shared_ptr<Shared>& shared) noexcept;

  const int most_;
  const std::shared_ptr<Shared> shared_;  // with the threads
};

}  // namespace sinter::capi

#endif  // SINTER_SRC_CAPI_BUILD_QUEUE_H_
