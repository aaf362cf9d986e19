#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/memory/memory_cache.h"
#include "cache/store/local_store.h"
#include "cache/tiers/tiers.h"

namespace sinter {
namespace {

constexpr int kReasons = static_cast<int>(MissReason::kCount);

Lookup MissOf(MissReason reason, std::string detail) {
  Lookup lookup;
  lookup.reason = reason;
  lookup.detail = std::move(detail);
  return lookup;
}

class TieredStore : public Store {
 public:
  explicit TieredStore(const TierOptions& options);

  Lookup Get(RecordKind kind, absl::string_view key) override;
  void Put(RecordKind kind, absl::string_view key, absl::string_view payload) override;
  void Quarantine(RecordKind kind, absl::string_view key, absl::string_view why) override;
  std::shared_ptr<void> LockForBuild(RecordKind kind, absl::string_view key,
                                     int64_t budget_us) override;
  StoreStats Stats() const override;

 private:
  using Counter = std::atomic<uint64_t>;
  using Id = MemoryCache::Id;

  Lookup Find(const Id& id, absl::string_view key);
  // Whether this process or, by a tombstone, any other has put the key away.
  bool IsQuarantined(const Id& id, std::string* why) const;
  static void Count(Counter* counter) { counter->fetch_add(1, std::memory_order_relaxed); }

  const LogSink log_;
  MemoryCache memory_;
  std::unique_ptr<LocalStore> local_;  // null: off
  MissReason off_reason_ = MissReason::kDisabled;
  std::string off_detail_ = "no local tier";

  mutable std::mutex mutex_;
  std::map<Id, std::string> quarantined_;  // guarded by mutex_; holds without a local tier too

  Counter memory_hits_{0}, local_hits_{0}, puts_{0}, put_failures_{0}, quarantines_{0};
  std::array<Counter, kReasons> misses_{};
  std::atomic<bool> warned_put_{false};
};

TieredStore::TieredStore(const TierOptions& options)
    : log_(options.log), memory_(options.memory_bytes) {
  if (options.local_root.empty()) {
    log_.Log(LogLevel::kWarn, "cache: no local folder; records live in memory only");
    return;
  }
  LocalStoreOptions local;
  local.root = options.local_root;
  local.producer = options.producer;
  local.sync = options.sync;
  local_ = std::make_unique<LocalStore>(std::move(local));
  if (local_->usable().ok()) return;
  off_detail_ = std::string(local_->usable().message());
  if (absl::IsPermissionDenied(local_->usable())) off_reason_ = MissReason::kRefusedOwner;
  local_.reset();
  log_.Log(LogLevel::kWarn, absl::StrCat("cache: local folder is off: ", off_detail_));
}

bool TieredStore::IsQuarantined(const Id& id, std::string* why) const {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto it = quarantined_.find(id);
    if (it != quarantined_.end()) {
      *why = it->second;
      return true;
    }
  }
  return local_ != nullptr && local_->IsQuarantined(id.first, id.second, why);
}

Lookup TieredStore::Find(const Id& id, absl::string_view key) {
  std::string why;
  if (IsQuarantined(id, &why)) {
    memory_.Erase(id);
    return MissOf(MissReason::kQuarantined, std::move(why));
  }
  if (const std::shared_ptr<const std::string> payload = memory_.Get(id)) {
    Lookup hit;
    hit.hit = true;
    hit.payload = *payload;
    hit.tier = "memory";
    return hit;
  }
  if (local_ == nullptr) return MissOf(off_reason_, off_detail_);
  Lookup lookup = local_->Get(id.first, key, id.second);
  if (lookup.hit) memory_.Put(id, lookup.payload);
  return lookup;
}

Lookup TieredStore::Get(RecordKind kind, absl::string_view key) {
  Lookup lookup = Find(Id(kind, Sha256(key)), key);
  if (lookup.hit) {
    Count(lookup.tier == absl::string_view("memory") ? &memory_hits_ : &local_hits_);
    return lookup;
  }
  Count(&misses_[static_cast<int>(lookup.reason)]);
  const bool off = local_ == nullptr && lookup.reason == off_reason_;  // said once, at the start
  if (lookup.reason != MissReason::kAbsent && !off) {
    log_.Log(LogLevel::kWarn,
             absl::StrCat("cache: miss, ", NameOf(lookup.reason), ": ", lookup.detail));
  }
  return lookup;
}

void TieredStore::Put(RecordKind kind, absl::string_view key, absl::string_view payload) {
  const Id id(kind, Sha256(key));
  Count(&puts_);
  std::string why;
  if (IsQuarantined(id, &why)) {
    Count(&put_failures_);
    return;
  }
  memory_.Put(id, payload);
  if (local_ == nullptr) return;
  const absl::Status status = local_->Put(kind, key, id.second, payload);
  if (status.ok()) return;
  Count(&put_failures_);
  const LogLevel level = warned_put_.exchange(true) ? LogLevel::kDebug : LogLevel::kWarn;
  log_.Log(level, absl::StrCat("cache: record not stored: ", status.message()));
}

void TieredStore::Quarantine(RecordKind kind, absl::string_view key, absl::string_view why) {
  const Id id(kind, Sha256(key));
  Count(&quarantines_);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    quarantined_[id] = std::string(why);
  }
  memory_.Erase(id);
  log_.Log(LogLevel::kWarn, absl::StrCat("cache: quarantined ", id.second.Hex(), ": ", why));
  if (local_ == nullptr) return;
  const absl::Status status = local_->Quarantine(kind, id.second, why);
  if (!status.ok()) {
    log_.Log(LogLevel::kWarn,
             absl::StrCat("cache: quarantine holds in this process only: ", status.message()));
  }
}

std::shared_ptr<void> TieredStore::LockForBuild(RecordKind kind, absl::string_view key,
                                                int64_t budget_us) {
  if (local_ == nullptr) return nullptr;
  return local_->LockForBuild(kind, Sha256(key), budget_us);
}

StoreStats TieredStore::Stats() const {
  StoreStats stats;
  stats.memory_hits = memory_hits_.load(std::memory_order_relaxed);
  stats.local_hits = local_hits_.load(std::memory_order_relaxed);
  stats.puts = puts_.load(std::memory_order_relaxed);
  stats.put_failures = put_failures_.load(std::memory_order_relaxed);
  stats.quarantined = quarantines_.load(std::memory_order_relaxed);
  if (local_ != nullptr) stats.quarantined += local_->moved_aside();
  for (int i = 0; i < kReasons; ++i) stats.misses[i] = misses_[i].load(std::memory_order_relaxed);
  return stats;
}

}  // namespace

std::unique_ptr<Store> MakeTieredStore(const TierOptions& options) {
  return std::make_unique<TieredStore>(options);
}

}  // namespace sinter
