// WriteBehind: does work later, in order, in one thread, so that no caller waits for a disk.
#ifndef SINTER_CACHE_TIERS_WRITE_BEHIND_H_
#define SINTER_CACHE_TIERS_WRITE_BEHIND_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "src/base/fork_local.h"

namespace sinter {

// Thread-safe. The thread starts with the first job and has all signals blocked. The queue is
// bounded: what does not fit is refused. Destroying it does all that was accepted. In the child of
// a fork the queue is empty (the parent does its jobs) and works anew. A job that throws is
// dropped; none may call into the same WriteBehind.
class WriteBehind {
 public:
  WriteBehind(uint64_t max_bytes, uint64_t max_jobs) : max_bytes_(max_bytes), max_jobs_(max_jobs) {}
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  // False, without having taken the job, when the queue is full, or no thread can be started. A job
  // larger than the whole queue is taken while the queue is empty. May throw bad_alloc.
  bool Push(uint64_t bytes, std::function<void()> job);

  // Returns once everything that was pushed before is done.
  void Flush();

 private:
  struct Job {
    uint64_t bytes;
    std::function<void()> run;
  };
  struct State {
    std::deque<Job> jobs;  // the first one is being done
    uint64_t bytes = 0;    // of jobs
    uint64_t pushed = 0, done = 0;
    bool closing = false;
    std::thread thread;
    std::condition_variable more, less;  // jobs came; a job was done
  };
  using States = ForkLocal<State, /*kKeep=*/false>;

  static bool Start(States* states, State* state);
  static void Run(States* states);

  const uint64_t max_bytes_, max_jobs_;
  States states_;
};

}  // namespace sinter

#endif  // SINTER_CACHE_TIERS_WRITE_BEHIND_H_
