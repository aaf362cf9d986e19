#include <chrono>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/tiers/tiers.h"

namespace sinter {
namespace {

constexpr uint64_t kPrefetchBurst = 16;
// most bytes of a record that memory keeps in addition to its file
constexpr uint64_t kMostKept = 16 << 10;

}  // namespace

TieredStore::~TieredStore() {
  if (remote_ != nullptr) remote_->Stop();
}

TieredStore::TieredStore(const TierOptions& options)
    : log_(options.log),
      read_only_(options.read_only),
      local_bytes_(options.local_bytes),
      packs_(options.packs),
      packs_refused_(options.packs_refused),
      memory_(options.memory_bytes),
      remote_(options.remote) {
  OpenLocal(options);
  if (remote_ == nullptr) return;
  remote_->OnWithdrawn([this](RecordKind kind, const Digest& digest, absl::string_view why) {
    try {
      (void)PutAway(Id(kind, digest), why);
    } catch (const std::bad_alloc&) {  // it is noticed again later
    }
  });
  StartPrefetch();
}

// Prefetches what neither the local tier nor a pack has.
void TieredStore::StartPrefetch() {
  const auto have = std::make_shared<std::set<Id>>();
  const auto listed = std::make_shared<bool>(false);
  const auto wanted = [this, have, listed](RecordKind kind, const Digest& digest) {
    if (!std::exchange(*listed, true) && local_ != nullptr) {
      const auto entries = local_->records()->List();
      if (entries.ok()) {
        for (const StoredEntry& entry : *entries) have->emplace(entry.kind, entry.digest);
      }
    }
    for (const auto& pack : packs_) {
      if (pack->Has(kind, digest)) return false;
    }
    return have->count(Id(kind, digest)) == 0;
  };
  const auto kept = std::make_shared<uint64_t>(0);
  remote_->Prefetch(wanted, [this, kept](const Digest& digest, const Envelope& envelope) {
    const Id id(envelope.kind, digest);
    Keep(id, envelope.key, envelope.payload);
    prefetched_.Lock()->insert(id);
    if (++*kept % kPrefetchBurst == 0) Flush();  // leaves room in the queue of writes for others
  });
}

// Copies a record of the remote tier to where the next lookup finds it without the remote.
void TieredStore::Keep(const Id& id, absl::string_view key, absl::string_view payload) {
  std::string why;
  if (IsQuarantined(id, &why)) return;
  const auto copy = std::make_shared<const std::string>(payload);
  if (local_ != nullptr && !read_only_) {
    local_->Put(id, key, copy);
  } else {
    memory_.Put(id, SharedBytes(copy, *copy));
  }
}

void TieredStore::OpenLocal(TierOptions options) {
  if (options.local_root.empty()) {
    log_.Log(packs_.empty() ? LogLevel::kWarn : LogLevel::kInfo,
             "cache: no local folder; records live in memory only");
    return;
  }
  options.remote = nullptr;  // only this store uses it
  if (options.read_only) {
    if (options.ops == nullptr) options.ops = std::make_shared<FileOps>();
    options.ops = std::make_shared<ReadOnlyFiles>(options.ops);
  }
  local_ = std::make_unique<LocalTier>(options);
  if (local_->usable().ok()) return;
  off_detail_ = std::string(local_->usable().message());
  if (absl::IsPermissionDenied(local_->usable())) off_reason_ = MissReason::kRefusedOwner;
  local_.reset();
  log_.Log(LogLevel::kWarn, absl::StrCat("cache: local folder is off: ", off_detail_));
}

bool TieredStore::IsQuarantinedHere(const Id& id, std::string* why) const {
  const auto quarantined = quarantined_.Lock();
  const auto it = quarantined->find(id);
  if (it == quarantined->end()) return false;
  *why = it->second;
  return true;
}

bool TieredStore::IsQuarantined(const Id& id, std::string* why) const {
  return IsQuarantinedHere(id, why) || (local_ != nullptr && local_->IsQuarantined(id, why));
}

// A large record costs more to keep than to read again: memory that is new to the process is slower
// than the page cache and the checks. Without a folder there is only memory.
bool TieredStore::WorthKeeping(absl::string_view payload) const {
  return local_ == nullptr || read_only_ || payload.size() <= kMostKept;
}

// Asks memory, then the local tier, then the others. The local tier checks the tombstone itself, so
// here it is checked only for hits in memory.
Lookup TieredStore::Find(const Id& id, absl::string_view key) {
  std::string why;
  if (IsQuarantinedHere(id, &why)) return Lookup::Miss(MissReason::kQuarantined, std::move(why));
  if (const MemoryCache::Payload payload = memory_.Get(id)) {
    if (IsQuarantined(id, &why)) {
      memory_.Erase(id);
      return Lookup::Miss(MissReason::kQuarantined, std::move(why));
    }
    if (local_ != nullptr) local_->Use(id);
    Lookup hit;
    hit.hit = true;
    hit.payload = *payload;
    hit.tier = "memory";
    return hit;
  }
  Lookup lookup =
      local_ != nullptr ? Sift(id, local_->Get(id, key)) : Lookup::Miss(off_reason_, off_detail_);
  if (!lookup.hit && lookup.reason != MissReason::kQuarantined) {
    lookup = FindOutside(id, key, std::move(lookup));
  }
  if (lookup.hit && WorthKeeping(lookup.payload)) memory_.Put(id, lookup.payload);
  return lookup;
}

// The engine counted and logged the refused record.
Lookup TieredStore::Sift(const Id& id, Lookup found) {
  if (!found.hit) return found;
  const auto refused = refused_.Lock();
  const auto it = refused->find(id);
  if (it == refused->end() || it->second.count(Sha256(found.payload)) == 0) return found;
  return Lookup::Miss(MissReason::kAbsent, absl::StrCat(found.tier, ": it was refused before"));
}

// A miss reports the local tier's reason, unless that is only "absent" or "off" and a later tier
// has a more specific one.
Lookup TieredStore::FindOutside(const Id& id, absl::string_view key, Lookup local) {
  const bool silent = local.reason == MissReason::kAbsent || local.reason == off_reason_;
  Lookup worst =
      silent && !packs_.empty() ? Lookup::Miss(MissReason::kAbsent, "") : std::move(local);
  for (const auto& pack : packs_) {
    Lookup lookup = Sift(id, pack->Get(id.first, key, id.second));
    if (lookup.hit) return lookup;
    if (lookup.reason != MissReason::kAbsent && silent) worst = std::move(lookup);
  }
  if (remote_ == nullptr) return worst;
  Lookup lookup = Sift(id, remote_->Get(id.first, key, id.second));
  if (lookup.hit) {
    Keep(id, key, lookup.payload);
    return lookup;
  }
  if (lookup.reason == MissReason::kQuarantined) {
    (void)PutAway(id, lookup.detail);  // permanently, whatever the server says later
    return lookup;
  }
  const bool nothing_said = worst.reason == MissReason::kAbsent || worst.reason == off_reason_;
  return nothing_said ? lookup : worst;
}

void TieredStore::CountHit(const Id& id, const Lookup& hit) {
  KindCounters& counters = Of(id.first);
  const absl::string_view tier = hit.tier;
  Count(tier == "memory"                     ? &counters.memory_hits
        : tier == "pack"                     ? &counters.pack_hits
        : tier == "remote"                   ? &counters.remote_hits
        : prefetched_.Lock()->count(id) != 0 ? &counters.prefetched_hits
                                             : &counters.local_hits);
  Count(&counters.hit_bytes, hit.payload.size());
  try {
    used_.Lock()->insert(id);
  } catch (const std::bad_alloc&) {  // an export of used records will lack this one
  }
}

Lookup TieredStore::Get(RecordKind kind, absl::string_view key) {
  const auto start = std::chrono::steady_clock::now();
  Lookup lookup;
  try {
    const Id id(kind, Sha256(key));
    lookup = Find(id, key);
    if (lookup.hit) CountHit(id, lookup);
  } catch (const std::bad_alloc&) {
    lookup = Lookup();
    lookup.reason = MissReason::kIoError;
    lookup.detail = "out of memory";  // a text this short is not allocated
  }
  Of(kind).lookups.Add(std::chrono::steady_clock::now() - start);
  if (lookup.hit) return lookup;
  Count(&Of(kind).misses[static_cast<size_t>(lookup.reason)]);
  const bool off = local_ == nullptr && lookup.reason == off_reason_;  // logged once, at the start
  if (lookup.reason == MissReason::kAbsent || off) return lookup;
  try {
    log_.Log(LogLevel::kWarn,
             absl::StrCat("cache: miss, ", NameOf(lookup.reason), ": ", lookup.detail));
  } catch (const std::bad_alloc&) {  // it is counted
  }
  return lookup;
}

void TieredStore::Put(RecordKind kind, absl::string_view key, absl::string_view payload) {
  Count(&Of(kind).puts);
  Count(&Of(kind).put_bytes, payload.size());
  try {
    const Id id(kind, Sha256(key));
    std::string why;
    if (IsQuarantined(id, &why)) {
      Count(&put_failures_);
      return;
    }
    const auto copy = std::make_shared<const std::string>(payload);
    if (WorthKeeping(payload)) memory_.Put(id, SharedBytes(copy, *copy));
    used_.Lock()->insert(id);
    std::set<Digest> refused;
    if (const auto all = refused_.Lock(); all->count(id) != 0) refused = (*all)[id];
    if (local_ != nullptr && !read_only_) local_->Put(id, key, copy, refused);
    if (remote_ != nullptr) remote_->Publish(kind, key, id.second, payload);
  } catch (const std::bad_alloc&) {
    Count(&put_failures_);
  }
}

void TieredStore::Used(RecordKind kind, absl::string_view key) {
  try {
    const Id id(kind, Sha256(key));
    if (local_ != nullptr) local_->Use(id);
  } catch (const std::bad_alloc&) {  // it may be trimmed earlier
  }
}

// The record on disk stays until the next put replaces it.
bool TieredStore::Refuse(RecordKind kind, absl::string_view key, absl::string_view payload) {
  try {
    const Id id(kind, Sha256(key));
    const bool news = (*refused_.Lock())[id].insert(Sha256(payload)).second;
    memory_.Erase(id);
    if (remote_ != nullptr) remote_->Refuse(kind, id.second);
    return news;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

absl::Status TieredStore::PutAway(const Id& id, absl::string_view why) {
  (*quarantined_.Lock())[id] = std::string(why);
  memory_.Erase(id);
  return local_ == nullptr || read_only_ ? absl::OkStatus() : local_->Quarantine(id, why);
}

void TieredStore::Quarantine(RecordKind kind, absl::string_view key, absl::string_view why) {
  const Id id(kind, Sha256(key));
  Count(&quarantines_);
  const absl::Status status = PutAway(id, why);
  log_.Log(LogLevel::kWarn, absl::StrCat("cache: quarantined ", id.second.Hex(), ": ", why));
  if (remote_ != nullptr) remote_->Withdraw(kind, id.second, why);
  if (!status.ok()) {
    log_.Log(LogLevel::kWarn,
             absl::StrCat("cache: quarantine holds in this process only: ", status.message()));
  }
}

std::shared_ptr<void> TieredStore::LockForBuild(RecordKind kind, absl::string_view key,
                                                int64_t budget_us) {
  const auto start = std::chrono::steady_clock::now();
  const Id id(kind, Sha256(key));
  std::shared_ptr<void> local;
  if (local_ != nullptr && !read_only_) local = local_->LockForBuild(id, budget_us);
  if (remote_ == nullptr) return local;
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
  std::shared_ptr<void> lease =
      remote_->Lease(kind, id.second, budget_us - static_cast<int64_t>(spent.count()));
  if (lease == nullptr) return local;
  return std::make_shared<std::pair<std::shared_ptr<void>, std::shared_ptr<void>>>(local, lease);
}

MemoryCache::Payload MemoryCache::Get(const Id& id) {
  const auto state = state_.Lock();
  const auto it = state->index.find(id);
  if (it == state->index.end()) return nullptr;
  state->order.splice(state->order.begin(), state->order, it->second);
  return it->second->payload;
}

void MemoryCache::Put(const Id& id, const SharedBytes& payload) {
  if (CostOf(payload.size()) > max_bytes_) return Erase(id);
  Put(id, std::make_shared<const SharedBytes>(payload));
}

void MemoryCache::Put(const Id& id, Payload payload) {
  const uint64_t cost = CostOf(payload->size());
  if (cost > max_bytes_) return Erase(id);
  std::list<Entry> fresh;
  fresh.push_front(Entry{id, std::move(payload)});
  const auto state = state_.Lock();
  EraseFrom(&*state, id);
  state->index[id] = fresh.begin();
  state->order.splice(state->order.begin(), fresh);
  state->bytes += cost;
  while (state->bytes > max_bytes_) EraseFrom(&*state, Id(state->order.back().id));
}

void MemoryCache::Erase(const Id& id) {
  const auto state = state_.Lock();
  EraseFrom(&*state, id);
}

void MemoryCache::EraseFrom(State* state, const Id& id) {
  const auto it = state->index.find(id);
  if (it == state->index.end()) return;
  state->bytes -= CostOf(it->second->payload->size());
  state->order.erase(it->second);
  state->index.erase(it);
}

uint64_t MemoryCache::bytes() const { return state_.Lock()->bytes; }

uint64_t MemoryCache::entries() const { return state_.Lock()->index.size(); }

}  // namespace sinter
