// The store behind MakeTieredStore. tiered_store.cc defines the Store port, tiered_upkeep.cc the
// rest.
#ifndef SINTER_CACHE_TIERS_TIERED_STORE_IMPL_H_
#define SINTER_CACHE_TIERS_TIERED_STORE_IMPL_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/tiers/local_tier.h"
#include "cache/tiers/memory_cache.h"
#include "cache/tiers/tiers.h"

namespace sinter {

class Tiers : public TieredStore {
 public:
  explicit Tiers(const TierOptions& options);
  ~Tiers() override;

  Lookup Get(RecordKind kind, absl::string_view key) override;
  void Put(RecordKind kind, absl::string_view key, absl::string_view payload) override;
  void Quarantine(RecordKind kind, absl::string_view key, absl::string_view why) override;
  std::shared_ptr<void> LockForBuild(RecordKind kind, absl::string_view key,
                                     int64_t budget_us) override;
  StoreStats Stats() const override;
  std::string ExplainMiss(RecordKind kind, absl::string_view key) override;
  bool Refuse(RecordKind kind, absl::string_view key, absl::string_view payload) override;
  void Flush() override;
  absl::StatusOr<PackReport> Export(const PackWriteOptions& options, bool used_only) override;
  void CheckWith(RecordCheck check) override { check_ = std::move(check); }
  const RecordCheck& check() const override { return check_; }
  absl::StatusOr<ImportReport> Import(const PackReader& pack) override;
  absl::StatusOr<SweepReport> Trim(uint64_t max_bytes) override;
  absl::StatusOr<LocalReport> Inspect() override;
  absl::Status ListLocal(const ListedRecord& visit) override;
  absl::StatusOr<ClearReport> Clear(bool dry_run) override;

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
  void CountHit(const Id& id, absl::string_view tier);
  // The local tier's store, or the reason why there is none.
  absl::StatusOr<LocalStore*> Records() const;
  absl::StatusOr<LocalStore*> Writable() const;
  // Whether this process quarantined the key; whether any process did (a tombstone).
  bool IsQuarantinedHere(const Id& id, std::string* why) const;
  bool IsQuarantined(const Id& id, std::string* why) const;
  static void Count(Counter* counter) { counter->fetch_add(1, std::memory_order_relaxed); }

  const LogSink log_;
  const bool read_only_;
  const PackList packs_;
  const uint64_t packs_refused_;
  MemoryCache memory_;
  std::unique_ptr<LocalTier> local_;  // null: off
  RecordCheck check_;
  MissReason off_reason_ = MissReason::kDisabled;
  std::string off_detail_ = "no local tier";

  mutable ForkLocal<std::map<Id, std::string>> quarantined_;  // works without a local tier too
  ForkLocal<std::map<Id, std::set<Digest>>> refused_;         // digests of payloads
  ForkLocal<std::set<Id>> used_;                              // what was hit or put
  Counter memory_hits_{0}, local_hits_{0}, pack_hits_{0}, remote_hits_{0}, puts_{0},
      put_failures_{0}, quarantines_{0};
  std::array<Counter, static_cast<int>(MissReason::kCount)> misses_{};
  std::shared_ptr<RemoteTier> remote_;  // null: none. Its thread uses all of the above
};

}  // namespace sinter

#endif  // SINTER_CACHE_TIERS_TIERED_STORE_IMPL_H_
