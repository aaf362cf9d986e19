// The tiers that implement the Store port, in the order in which they are asked: memory, the local
// folder, packs, the remote. The engine's wiring includes no other header of the cache.
#ifndef SINTER_CACHE_TIERS_TIERS_H_
#define SINTER_CACHE_TIERS_TIERS_H_

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/pack/pack.h"
#include "cache/record/record.h"
#include "cache/remote/remote_tier.h"
#include "cache/store/files.h"
#include "cache/store/local_store.h"
#include "cache/store/work_queue.h"
#include "src/base/digest.h"
#include "src/base/fork_local.h"
#include "src/base/log.h"
#include "src/base/ports.h"

namespace sinter {

// The process's own tier: records that were just made or read. The newest are kept, up to a number
// of bytes.

// Thread-safe; one mutex, held for no longer than a map look-up; payloads are shared, not copied.
// Usable in the child of a fork. Invariants: index and order hold the same entries; bytes is the
// sum of their costs and at most the cap.
class MemoryCache {
 public:
  using Id = std::pair<RecordKind, Digest>;
  using Payload = std::shared_ptr<const SharedBytes>;

  explicit MemoryCache(uint64_t max_bytes) : max_bytes_(max_bytes) {}

  // The payload, or null. A hit becomes the newest.
  Payload Get(const Id& id);
  // Replaces an older payload. If the entry costs more than the whole cap it is not kept, and the
  // older one is dropped.
  void Put(const Id& id, Payload payload);
  void Put(const Id& id, const SharedBytes& payload);
  void Erase(const Id& id);

  uint64_t bytes() const;
  uint64_t entries() const;
  // Bytes of the cap that an entry takes: its payload and 256 for bookkeeping.
  static uint64_t CostOf(uint64_t payload_bytes) { return payload_bytes + 256; }

 private:
  struct Entry {
    Id id;
    Payload payload;
  };
  struct State {
    std::list<Entry> order;  // newest first
    std::map<Id, std::list<Entry>::iterator> index;
    uint64_t bytes = 0;
  };
  static void EraseFrom(State* state, const Id& id);

  const uint64_t max_bytes_;
  mutable ForkLocal<State> state_;
};

struct TierOptions {
  std::string local_root;  // absolute folder of the local tier; "" = no local tier
  uint64_t local_bytes = uint64_t{2} << 30;     // cap of the local tier on disk; 0 = none
  uint64_t memory_bytes = uint64_t{256} << 20;  // cap of the memory tier; 0 = none
  std::string producer;      // recorded in every entry: library version and the like
  bool sync = true;          // see LocalStoreOptions
  bool write_behind = true;  // false: Put returns after the local write
  uint64_t queue_bytes = uint64_t{64} << 20;  // of writes that wait
  uint64_t queue_jobs = 1024;
  bool read_only = false;  // the local tier is only read, and its folder is not made
  PackList packs;          // asked after the local tier, in this order
  // Asked last, for what no other tier has. Its hits are copied into the local tier, or into memory
  // if there is none; puts are published to it. Prefetching starts with the store.
  std::shared_ptr<RemoteTier> remote;
  uint64_t packs_refused = 0;  // how many could not be opened, for the statistics
  LogSink log;  // one warning when the local tier is off; one per damaged or refused entry
  std::shared_ptr<FileOps> ops;  // of the local tier; null: the real system calls
  RecordFormat format;           // of the local tier
};

// The local tier as the other tiers see it: the local store, the queue of writes, and calls of
// the janitor.

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
  // Marks the record as used now, as a hit does.
  void Use(const Id& id) const { store_->Use(id.first, id.second); }
  void Flush();
  // Null without a local tier; borrowed.
  LocalStore* records() const { return usable_.ok() ? store_.get() : nullptr; }

  // Adds this tier's counters.
  void AddTo(StoreStats* stats) const;
  // Has the writing thread count the records of the folder, at most once a minute. The caller does
  // not wait: the folder may be large or far away.
  void CountRecords();
  // Records that this process evicted, and their bytes.
  uint64_t evicted() const { return evicted_.load(std::memory_order_relaxed); }
  uint64_t evicted_bytes() const { return evicted_bytes_.load(std::memory_order_relaxed); }

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
  void CountNow();

  // What the folder holds, [0] plans, [1] kernels.
  struct Contents {
    bool counted = false;
    std::chrono::steady_clock::time_point asked;
    std::array<uint64_t, 2> records{}, bytes{};
  };

  const TierOptions options_;
  absl::Status usable_;
  std::unique_ptr<LocalStore> store_;  // null: there is no folder
  ForkLocal<Waiting> waiting_;
  std::atomic<uint64_t> failures_{0}, dropped_{0}, evicted_{0}, evicted_bytes_{0};
  std::atomic<uint64_t> unswept_bytes_;
  mutable ForkLocal<Contents> contents_;
  std::atomic<bool> warned_{false};
  std::unique_ptr<WorkQueue> writer_;  // last member: its jobs use all of the above
};

// The store that the engine uses, and what its owner may ask beyond the port. tiered_store.cc
// defines the Store port, local_tier.cc the rest.
//
// Put keeps the record in memory, queues the local write and returns; from then on Get finds the
// record. Flush and the destructor wait for the queue. When the queue is full the write is dropped
// and counted (puts_dropped). Packs are asked after the local tier; a pack's damaged record is a
// counted miss only if no later tier has it. A lock of LockForBuild is held until the key's queued
// write is done, so that a thread that waits for the lock finds the record; LockForBuild returns
// null when the lock is not held, at once without a local tier. A lookup is counted once, as a hit
// of its tier or as a miss with its reason. With the local tier off, a miss in memory is kDisabled
// (kRefusedOwner when the folder was refused for its owner or mode). StoreStats.quarantined counts
// Quarantine calls and damaged files that were moved aside by a look-up or a put. Usable in the
// child of a fork, where the parent writes what the parent queued.
class TieredStore : public Store {
 public:
  // Never fails: an unusable folder means memory only, with one warning.
  explicit TieredStore(const TierOptions& options);
  ~TieredStore() override;

  Lookup Get(RecordKind kind, absl::string_view key) override;
  void Put(RecordKind kind, absl::string_view key, absl::string_view payload) override;
  void Quarantine(RecordKind kind, absl::string_view key, absl::string_view why) override;
  std::shared_ptr<void> LockForBuild(RecordKind kind, absl::string_view key,
                                     int64_t budget_us) override;
  StoreStats Stats() const override;
  void Used(RecordKind kind, absl::string_view key) override;
  std::string ExplainMiss(RecordKind kind, absl::string_view key) override;

  // Waits until everything put before is on disk or could not be written.
  void Flush();
  // Says that the payload is not what the key says: from now on no tier of this store serves it,
  // and the next put replaces it. True if it was not refused before; then another look-up reaches
  // another tier.
  bool Refuse(RecordKind kind, absl::string_view key, absl::string_view payload);
  // Writes what the local tier and the packs hold as a pack; with `used_only`, only what this store
  // was asked for or given. Flushes first.
  absl::StatusOr<PackReport> Export(const PackWriteOptions& options, bool used_only);
  // Sets the check that Import, Inspect and the verification of packs run on each record whose
  // envelope is sound. Call it before them.
  void CheckWith(RecordCheck check) { check_ = std::move(check); }
  const RecordCheck& check() const { return check_; }
  // Imports into the local tier. UNAVAILABLE without one that may be written.
  absl::StatusOr<ImportReport> Import(const PackReader& pack);
  // As LocalTier's.
  void CountRecords() {
    if (local_ != nullptr) local_->CountRecords();
  }
  // Sets what Trim asks for the kernels that a plan names.
  void KernelsWith(KernelsOfPlan kernels_of) { kernels_of_ = std::move(kernels_of); }
  // Runs the janitor now, down to `max_bytes`. UNAVAILABLE as Import.
  absl::StatusOr<SweepReport> Trim(uint64_t max_bytes);
  // Writes the records of the local tier that the remote lacks and for which `wanted` is true to
  // it. FAILED_PRECONDITION without a remote that may be written.
  absl::StatusOr<PushReport> Push(const RecordFilter& wanted);
  // Which of the records that this store was asked for or given lie in the local tier or a pack.
  // UNAVAILABLE as Import.
  absl::StatusOr<KeptReport> Kept();
  // As local_store.h says. PERMISSION_DENIED for a folder that was refused, UNAVAILABLE without a
  // local tier. Each flushes first.
  absl::StatusOr<LocalReport> Inspect();
  absl::Status ListLocal(const ListedRecord& visit);
  absl::StatusOr<ClearReport> Clear(bool dry_run);

 private:
  using Counter = std::atomic<uint64_t>;
  using Id = MemoryCache::Id;

  void OpenLocal(TierOptions options);
  Lookup Find(const Id& id, absl::string_view key);
  // Turns a hit that was refused before into a miss.
  Lookup Sift(const Id& id, Lookup found);
  Lookup FindOutside(const Id& id, absl::string_view key, Lookup local);
  void StartPrefetch();
  bool WorthKeeping(absl::string_view payload) const;
  void Keep(const Id& id, absl::string_view key, absl::string_view payload);
  // Quarantines a record here and in the local tier. Returns the status of writing the tombstone.
  absl::Status PutAway(const Id& id, absl::string_view why);
  void CountHit(const Id& id, const Lookup& hit);
  // The local tier's store, or the reason why there is none.
  absl::StatusOr<LocalStore*> Records() const;
  absl::StatusOr<LocalStore*> Writable() const;
  // Whether this process quarantined the key; whether any process did (a tombstone).
  bool IsQuarantinedHere(const Id& id, std::string* why) const;
  bool IsQuarantined(const Id& id, std::string* why) const;
  static void Count(Counter* counter, uint64_t by = 1) {
    counter->fetch_add(by, std::memory_order_relaxed);
  }

  // What KindStats reports.
  struct KindCounters {
    void AddTo(KindStats* stats) const;
    Counter memory_hits{0}, local_hits{0}, prefetched_hits{0}, pack_hits{0}, remote_hits{0};
    std::array<Counter, static_cast<int>(MissReason::kCount)> misses{};
    Counter puts{0}, hit_bytes{0}, put_bytes{0};
    Latency lookups;
  };
  KindCounters& Of(RecordKind kind) { return kind == RecordKind::kPlan ? plans_ : kernels_; }

  const LogSink log_;
  const bool read_only_;
  const uint64_t local_bytes_;
  const PackList packs_;
  const uint64_t packs_refused_;
  MemoryCache memory_;
  std::unique_ptr<LocalTier> local_;  // null: off
  RecordCheck check_;
  KernelsOfPlan kernels_of_;
  MissReason off_reason_ = MissReason::kDisabled;
  std::string off_detail_ = "no local tier";

  mutable ForkLocal<std::map<Id, std::string>> quarantined_;  // works without a local tier too
  ForkLocal<std::map<Id, std::set<Digest>>> refused_;         // digests of payloads
  ForkLocal<std::set<Id>> used_;                              // what was hit or put
  ForkLocal<std::set<Id>> prefetched_;  // what the remote tier gave without being asked
  KindCounters plans_, kernels_;
  Counter put_failures_{0}, quarantines_{0};
  std::shared_ptr<RemoteTier> remote_;  // null: none. Its thread uses all of the above
};

// Nearest: finds the entry closest to a key that missed, and what differs, for the error of a
// look-up that had to hit.

// Takes keys one by one and remembers the closest. Thread-compatible.
class Nearest {
 public:
  Nearest(RecordKind kind, absl::string_view key) : kind_(kind), key_(key) {}

  // `where` names the tier. Keys of another kind are ignored.
  void Offer(RecordKind kind, absl::string_view key, absl::string_view where);
  // One line: the entry, its tier, and each field that differs with both values.
  std::string Explain() const;

 private:
  struct Difference {
    int distance = 0;
    std::string text;
  };
  static Difference Compare(RecordKind kind, absl::string_view got, absl::string_view want);

  const RecordKind kind_;
  const std::string key_;
  uint64_t offered_ = 0;
  int distance_ = 1 << 30;
  std::string best_;
};

}  // namespace sinter

#endif  // SINTER_CACHE_TIERS_TIERS_H_
