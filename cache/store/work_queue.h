// WorkQueue: one thread that does jobs in order, so that no caller waits for a disk or a server.
#ifndef SINTER_CACHE_STORE_WORK_QUEUE_H_
#define SINTER_CACHE_STORE_WORK_QUEUE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <thread>

#include "src/base/fork_local.h"

namespace sinter {

// Thread-safe. The thread starts with the first job and has all signals blocked. The queue is
// bounded: a job that does not fit is refused. A job that throws is dropped; no job may call into
// its own queue except to push. In the child of a fork the queue begins empty (the parent does its
// jobs) and works again. The destructor does all accepted jobs that Stop did not drop, but may drop
// a job that another job pushes while it waits.
class WorkQueue {
 public:
  using Limit = std::optional<std::chrono::milliseconds>;

  explicit WorkQueue(uint64_t max_bytes, uint64_t max_jobs = UINT64_MAX)
      : max_bytes_(max_bytes), max_jobs_(max_jobs) {}
  ~WorkQueue() { Stop(); }
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  // False, and the job is not taken, when the queue is full or stopped, or no thread can be
  // started. A job larger than the whole queue is taken while the queue is empty. May throw
  // bad_alloc.
  bool Push(uint64_t bytes, std::function<void()> job);
  // Waits until all jobs pushed before are done; false if `limit` passes first.
  bool Flush(Limit limit = std::nullopt);
  // Takes no more jobs, works on for at most `limit`, drops the remaining jobs and joins the
  // thread.
  void Stop(Limit limit = std::nullopt);
  // Stop sets it when `limit` has passed, so that a long job can end early.
  const std::atomic<bool>& closing() const { return closing_; }

 private:
  struct Job {
    uint64_t bytes;
    std::function<void()> run;  // moved out of the job that runs
  };
  struct State {
    std::deque<Job> jobs;  // the first one is being done
    uint64_t bytes = 0;    // of jobs
    uint64_t pushed = 0, done = 0;
    std::thread thread;
    std::condition_variable more, less;  // jobs came; a job was done
  };

  bool Start(State* state);
  void Run();

  const uint64_t max_bytes_, max_jobs_;
  std::atomic<bool> closing_{false};
  ForkLocal<State, /*kKeep=*/false> states_;
};

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_WORK_QUEUE_H_
