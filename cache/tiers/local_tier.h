// The local tier as the other tiers see it: the local store, the queue of writes, and calls of the
// janitor.
#ifndef SINTER_CACHE_TIERS_LOCAL_TIER_H_
#define SINTER_CACHE_TIERS_LOCAL_TIER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/store/local_store.h"
#include "cache/store/work_queue.h"
#include "cache/tiers/tiers.h"
#include "src/base/fork_local.h"

namespace sinter {

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
  std::unique_ptr<WorkQueue> writer_;  // last member: its jobs use all of the above
};

}  // namespace sinter

#endif  // SINTER_CACHE_TIERS_LOCAL_TIER_H_
