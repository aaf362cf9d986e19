// The local tier as the other tiers see it: the local store, the queue of writes, and calls of the
// janitor.
#ifndef SINTER_CACHE_TIERS_LOCAL_TIER_H_
#define SINTER_CACHE_TIERS_LOCAL_TIER_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/store/local_store.h"
#include "cache/tiers/tiers.h"
#include "src/base/fork_local.h"

namespace sinter {

// Does work later, in order, on one thread, so that no caller waits for a disk.
//
// Thread-safe. The thread starts with the first job and has all signals blocked. The queue is
// bounded: a job that does not fit is refused. The destructor does all accepted jobs. In the child
// of a fork the queue begins empty (the parent does its jobs) and works anew. A job that throws is
// dropped; no job may call into its own WriteBehind.
class WriteBehind {
 public:
  WriteBehind(uint64_t max_bytes, uint64_t max_jobs) : max_bytes_(max_bytes), max_jobs_(max_jobs) {}
  ~WriteBehind();
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;

  // False, and the job is not taken, when the queue is full or no thread can be started. A job
  // larger than the whole queue is taken while the queue is empty. May throw bad_alloc.
  bool Push(uint64_t bytes, std::function<void()> job);

  // Waits until everything pushed before is done.
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

// Thread-safe. Usable in the child of a fork.
class LocalTier {
 public:
  using Id = std::pair<RecordKind, Digest>;
  using Payload = std::shared_ptr<const std::string>;

  explicit LocalTier(const TierOptions& options);
  ~LocalTier();

  // OK, or why there is no local tier.
  const absl::Status& usable() const { return usable_; }

  // Also finds records that are queued and not yet written.
  Lookup Get(const Id& id, absl::string_view key);
  // Failures are counted and logged. A stored record whose payload's digest is in `refused` is
  // replaced even if it is marked as verified.
  void Put(const Id& id, absl::string_view key, Payload payload,
           const std::set<Digest>& refused = {});
  absl::Status Quarantine(const Id& id, absl::string_view why);
  bool IsQuarantined(const Id& id, std::string* why) const;
  std::shared_ptr<void> LockForBuild(const Id& id, int64_t budget_us);
  // Whether somebody, here or in another process, is building the record or has it queued; in both
  // cases its build lock is held. Takes a free lock for a moment.
  bool IsBeingBuilt(const Id& id) const;
  void Flush();
  // Null without a local tier; borrowed.
  LocalStore* records() const { return usable_.ok() ? store_.get() : nullptr; }

  // Adds this tier's counters.
  void AddTo(StoreStats* stats) const;

 private:
  struct Waiting {
    std::map<Id, Payload> writes;             // queued writes by key; the last one counts
    std::map<Id, std::weak_ptr<void>> locks;  // build locks handed out
  };

  void OpenStore();
  void StopWaiting(const Id& id, const Payload& payload);
  std::shared_ptr<void> HeldLock(const Id& id);
  void Write(const Id& id, absl::string_view key, const std::string& payload,
             const std::set<Digest>& refused);
  void SweepIfDue(uint64_t bytes);

  const TierOptions options_;
  absl::Status usable_;
  std::unique_ptr<LocalStore> store_;  // null: there is no folder
  ForkLocal<Waiting> waiting_;
  std::atomic<uint64_t> failures_{0}, dropped_{0}, evicted_{0};
  std::atomic<uint64_t> unswept_bytes_;
  std::atomic<bool> warned_{false};
  std::unique_ptr<WriteBehind> writer_;  // last member: its jobs use all of the above
};

}  // namespace sinter

#endif  // SINTER_CACHE_TIERS_LOCAL_TIER_H_
