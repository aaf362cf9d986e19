// Background: one thread that does jobs in order. Each job has a weight; the queue has a bound.
#ifndef SINTER_CACHE_REMOTE_BACKGROUND_H_
#define SINTER_CACHE_REMOTE_BACKGROUND_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace sinter {

// Thread-safe. The thread starts with the first job and has all signals blocked. Not for use in the
// child of a fork.
class Background {
 public:
  explicit Background(uint64_t max_bytes) : max_bytes_(max_bytes) {}
  ~Background() { Stop(std::chrono::milliseconds(0)); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // False, without having taken the job, when the queue is full or closed. A job that throws is
  // dropped.
  bool Push(uint64_t bytes, std::function<void()> job);
  // Waits until all jobs pushed before are done; false if `limit` passes first.
  bool Flush(std::chrono::milliseconds limit);
  // Takes no more jobs, works on for at most `limit`, drops what is left and joins the thread.
  void Stop(std::chrono::milliseconds limit);
  // Stop sets it when `limit` has passed, so that a long job can end early.
  const std::atomic<bool>& closing() const { return closing_; }

 private:
  struct Job {
    uint64_t bytes;
    std::function<void()> run;
  };
  void Run();

  const uint64_t max_bytes_;
  std::mutex mutex_;
  std::condition_variable more_, less_;
  std::deque<Job> jobs_;  // all below guarded by mutex_; the first job is being done
  uint64_t bytes_ = 0, pushed_ = 0, done_ = 0;
  std::atomic<bool> closing_{false};  // read without the mutex too
  std::thread thread_;
};

}  // namespace sinter

#endif  // SINTER_CACHE_REMOTE_BACKGROUND_H_
