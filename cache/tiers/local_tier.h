// The local tier as the tiers see it: which store keeps it, writes that wait, and the janitor's
// turn.
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
#include "cache/store/record_store.h"
#include "cache/tiers/tiers.h"
#include "cache/tiers/write_behind.h"
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

  // OK when the store that was asked for is the one in use, else why another one stands in for it.
  absl::Status configured() const;

  // What waits to be written is found too.
  Lookup Get(const Id& id, absl::string_view key);
  // Counts and logs what goes wrong. Takes the place of a record whose payload has a digest of
  // `refused`, whatever its mark.
  void Put(const Id& id, absl::string_view key, Payload payload,
           const std::set<Digest>& refused = {});
  absl::Status Quarantine(const Id& id, absl::string_view why);
  bool IsQuarantined(const Id& id, std::string* why) const;
  std::shared_ptr<void> LockForBuild(const Id& id, int64_t budget_us);
  // Whether somebody, here or in another process, builds the record or has it queued: who does
  // holds its build lock. Takes the lock for a moment when nobody has it.
  bool IsBeingBuilt(const Id& id) const;
  void Flush();
  // Null without a local tier; borrowed.
  RecordStore* records() const { return usable_.ok() ? store() : nullptr; }

  // Adds this tier's counters.
  void AddTo(StoreStats* stats) const;

 private:
  struct Waiting {
    std::map<Id, Payload> writes;             // queued, by key: the last one
    std::map<Id, std::weak_ptr<void>> locks;  // build locks handed out
  };

  RecordStore* store() const;
  void OpenStore();
  void StopWaiting(const Id& id, const Payload& payload);
  std::shared_ptr<void> HeldLock(const Id& id);
  void Write(const Id& id, absl::string_view key, const std::string& payload,
             const std::set<Digest>& refused);
  void SweepIfDue(uint64_t bytes);

  const TierOptions options_;
  absl::Status usable_;
  absl::Status configured_;
  std::unique_ptr<RecordStore> database_;  // null: not asked for, or refused
  std::unique_ptr<RecordStore> tables_;
  ForkLocal<Waiting> waiting_;
  std::atomic<uint64_t> failures_{0}, dropped_{0}, evicted_{0}, lock_refused_{0};
  std::atomic<uint64_t> unswept_bytes_;
  std::atomic<bool> warned_{false};
  std::unique_ptr<WriteBehind> writer_;  // last: its jobs use all of the above
};

}  // namespace sinter

#endif  // SINTER_CACHE_TIERS_LOCAL_TIER_H_
