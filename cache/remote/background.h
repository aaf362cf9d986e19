// Background: one thread that does jobs in order, each with a weight against a bound.
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
  // Returns once all that was pushed before is done; false if `limit` passed first.
  bool Flush(std::chrono::milliseconds limit);
  // Takes no more jobs, works on for at most `limit`, drops the rest and joins the thread.
  void Stop(std::chrono::milliseconds limit);
  // Set by Stop when `limit` is over: a long job ends early then.
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
