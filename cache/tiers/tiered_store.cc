#include <array>
#include <atomic>
#include <map>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/memory/memory_cache.h"
#include "cache/tiers/local_tier.h"
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

class Tiers : public TieredStore {
 public:
  explicit Tiers(const TierOptions& options);

  Lookup Get(RecordKind kind, absl::string_view key) override;
  void Put(RecordKind kind, absl::string_view key, absl::string_view payload) override;
  void Quarantine(RecordKind kind, absl::string_view key, absl::string_view why) override;
  std::shared_ptr<void> LockForBuild(RecordKind kind, absl::string_view key,
                                     int64_t budget_us) override;
  StoreStats Stats() const override;
  void Flush() override;

 private:
  using Counter = std::atomic<uint64_t>;
  using Id = MemoryCache::Id;

  Lookup Find(const Id& id, absl::string_view key);
  // Whether this process has put the key away; whether any has, by a tombstone.
  bool IsQuarantinedHere(const Id& id, std::string* why) const;
  bool IsQuarantined(const Id& id, std::string* why) const;
  static void Count(Counter* counter) { counter->fetch_add(1, std::memory_order_relaxed); }

  const LogSink log_;
  MemoryCache memory_;
  std::unique_ptr<LocalTier> local_;  // null: off
  MissReason off_reason_ = MissReason::kDisabled;
  std::string off_detail_ = "no local tier";

  mutable ForkLocal<std::map<Id, std::string>> quarantined_;  // holds without a local tier too
  Counter memory_hits_{0}, local_hits_{0}, puts_{0}, put_failures_{0}, quarantines_{0};
  std::array<Counter, kReasons> misses_{};
};

Tiers::Tiers(const TierOptions& options) : log_(options.log), memory_(options.memory_bytes) {
  if (options.local_root.empty()) {
    log_.Log(LogLevel::kWarn, "cache: no local folder; records live in memory only");
    return;
  }
  local_ = std::make_unique<LocalTier>(options);
  if (local_->usable().ok()) return;
  off_detail_ = std::string(local_->usable().message());
  if (absl::IsPermissionDenied(local_->usable())) off_reason_ = MissReason::kRefusedOwner;
  local_.reset();
  log_.Log(LogLevel::kWarn, absl::StrCat("cache: local folder is off: ", off_detail_));
}

bool Tiers::IsQuarantinedHere(const Id& id, std::string* why) const {
  const auto quarantined = quarantined_.Lock();
  const auto it = quarantined->find(id);
  if (it == quarantined->end()) return false;
  *why = it->second;
  return true;
}

bool Tiers::IsQuarantined(const Id& id, std::string* why) const {
  return IsQuarantinedHere(id, why) || (local_ != nullptr && local_->IsQuarantined(id, why));
}

// What memory lacks the local tier looks up, tombstone included: a lookup asks for it once.
Lookup Tiers::Find(const Id& id, absl::string_view key) {
  std::string why;
  if (IsQuarantinedHere(id, &why)) return MissOf(MissReason::kQuarantined, std::move(why));
  if (const MemoryCache::Payload payload = memory_.Get(id)) {
    if (IsQuarantined(id, &why)) {
      memory_.Erase(id);
      return MissOf(MissReason::kQuarantined, std::move(why));
    }
    Lookup hit;
    hit.hit = true;
    hit.payload = *payload;
    hit.tier = "memory";
    return hit;
  }
  if (local_ == nullptr) return MissOf(off_reason_, off_detail_);
  Lookup lookup = local_->Get(id, key);
  if (lookup.hit) memory_.Put(id, lookup.payload);
  return lookup;
}

Lookup Tiers::Get(RecordKind kind, absl::string_view key) {
  Lookup lookup;
  try {
    lookup = Find(Id(kind, Sha256(key)), key);
  } catch (const std::bad_alloc&) {
    lookup = Lookup();
    lookup.reason = MissReason::kIoError;
    lookup.detail = "out of memory";  // short enough to need none
  }
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

void Tiers::Put(RecordKind kind, absl::string_view key, absl::string_view payload) {
  Count(&puts_);
  try {
    const Id id(kind, Sha256(key));
    std::string why;
    if (IsQuarantined(id, &why)) {
      Count(&put_failures_);
      return;
    }
    const auto copy = std::make_shared<const std::string>(payload);
    memory_.Put(id, copy);
    if (local_ != nullptr) local_->Put(id, key, copy);
  } catch (const std::bad_alloc&) {
    Count(&put_failures_);
  }
}

void Tiers::Quarantine(RecordKind kind, absl::string_view key, absl::string_view why) {
  const Id id(kind, Sha256(key));
  Count(&quarantines_);
  (*quarantined_.Lock())[id] = std::string(why);
  memory_.Erase(id);
  log_.Log(LogLevel::kWarn, absl::StrCat("cache: quarantined ", id.second.Hex(), ": ", why));
  if (local_ == nullptr) return;
  const absl::Status status = local_->Quarantine(id, why);
  if (!status.ok()) {
    log_.Log(LogLevel::kWarn,
             absl::StrCat("cache: quarantine holds in this process only: ", status.message()));
  }
}

std::shared_ptr<void> Tiers::LockForBuild(RecordKind kind, absl::string_view key,
                                          int64_t budget_us) {
  if (local_ == nullptr) return nullptr;
  return local_->LockForBuild(Id(kind, Sha256(key)), budget_us);
}

void Tiers::Flush() {
  if (local_ != nullptr) local_->Flush();
}

StoreStats Tiers::Stats() const {
  StoreStats stats;
  stats.memory_hits = memory_hits_.load(std::memory_order_relaxed);
  stats.local_hits = local_hits_.load(std::memory_order_relaxed);
  stats.puts = puts_.load(std::memory_order_relaxed);
  stats.put_failures = put_failures_.load(std::memory_order_relaxed);
  stats.quarantined = quarantines_.load(std::memory_order_relaxed);
  for (int i = 0; i < kReasons; ++i) stats.misses[i] = misses_[i].load(std::memory_order_relaxed);
  if (local_ != nullptr) local_->AddTo(&stats);
  return stats;
}

}  // namespace

std::unique_ptr<TieredStore> MakeTieredStore(const TierOptions& options) {
  return std::make_unique<Tiers>(options);
}

}  // namespace sinter
