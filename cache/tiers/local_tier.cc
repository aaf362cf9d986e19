#include <algorithm>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/store/local_store.h"
#include "cache/tiers/tiers.h"

namespace sinter {
namespace {

constexpr uint64_t kSweepShare = 32;  // part of the cap that this process writes between two sweeps
// Each lock takes a descriptor of the host process, and the queue may get long if the disk does not
// answer. Jobs queued beyond this many let their lock go, at the risk of a build done twice.
constexpr size_t kMostHeldLocks = 256;

}  // namespace

LocalTier::LocalTier(const TierOptions& options)
    : options_(options), unswept_bytes_(options.local_bytes) {
  if (options_.local_root.empty()) {
    usable_ = absl::UnavailableError("no local tier");
    return;
  }
  OpenStore();
  if (usable_.ok() && options_.write_behind) {
    writer_ = std::make_unique<WorkQueue>(options_.queue_bytes, options_.queue_jobs);
  }
}

LocalTier::~LocalTier() = default;

void LocalTier::OpenStore() {
  LocalStoreOptions options;
  options.root = options_.local_root;
  options.producer = options_.producer;
  options.sync = options_.sync;
  options.ops = options_.ops;
  options.format = options_.format;
  store_ = std::make_unique<LocalStore>(std::move(options));
  usable_ = store_->usable();
}

Lookup LocalTier::Get(const Id& id, absl::string_view key) {
  Payload waiting;
  if (writer_ != nullptr) {
    const auto state = waiting_.Lock();
    const auto write = state->writes.find(id);
    if (write != state->writes.end()) waiting = write->second;
  }
  if (waiting == nullptr || IsQuarantined(id, nullptr))
    return store_->Get(id.first, key, id.second);
  Lookup hit;
  hit.hit = true;
  hit.payload = SharedBytes(waiting, *waiting);
  hit.tier = "local";
  return hit;
}

void LocalTier::Put(const Id& id, absl::string_view key, Payload payload,
                    const std::set<Digest>& refused) {
  if (writer_ == nullptr) return Write(id, key, *payload, refused);
  bool queued = false;
  try {
    waiting_.Lock()->writes[id] = payload;
    const auto write = [this, id, name = std::string(key), payload, refused, lock = HeldLock(id)] {
      Write(id, name, *payload, refused);
      StopWaiting(id, payload);
    };
    queued = writer_->Push(payload->size() + key.size(), write);
  } catch (const std::bad_alloc&) {
    // Dropped, like one that does not fit.
  }
  if (queued) return;
  dropped_.fetch_add(1, std::memory_order_relaxed);
  StopWaiting(id, payload);
}

void LocalTier::StopWaiting(const Id& id, const Payload& payload) {
  const auto state = waiting_.Lock();
  const auto write = state->writes.find(id);
  if (write != state->writes.end() && write->second == payload) state->writes.erase(write);
}

void LocalTier::Write(const Id& id, absl::string_view key, const std::string& payload,
                      const std::set<Digest>& refused) {
  try {
    if (!refused.empty()) store_->PutAway(id.first, key, id.second, refused);
    const absl::Status status = store_->Put(id.first, key, id.second, payload);
    if (status.ok()) return SweepIfDue(payload.size());
    failures_.fetch_add(1, std::memory_order_relaxed);
    const LogLevel level = warned_.exchange(true) ? LogLevel::kDebug : LogLevel::kWarn;
    options_.log.Log(level, absl::StrCat("cache: record not stored: ", status.message()));
  } catch (const std::bad_alloc&) {
    failures_.fetch_add(1, std::memory_order_relaxed);
  }
}

void LocalTier::SweepIfDue(uint64_t bytes) {
  const uint64_t cap = options_.local_bytes;
  if (cap == 0 || unswept_bytes_.fetch_add(bytes) + bytes < cap / kSweepShare) return;
  unswept_bytes_ = 0;
  SweepLimits limits;
  limits.max_bytes = cap;
  const auto report = Sweep(store_.get(), limits);
  if (report.ok()) evicted_.fetch_add(report->evicted, std::memory_order_relaxed);
}

absl::Status LocalTier::Quarantine(const Id& id, absl::string_view why) {
  waiting_.Lock()->writes.erase(id);
  return store_->Quarantine(id.first, id.second, why);
}

bool LocalTier::IsQuarantined(const Id& id, std::string* why) const {
  return store_->IsQuarantined(id.first, id.second, why);
}

std::shared_ptr<void> LocalTier::LockForBuild(const Id& id, int64_t budget_us) {
  std::shared_ptr<void> lock = store_->LockForBuild(id.first, id.second, budget_us);
  if (lock == nullptr || writer_ == nullptr) return lock;
  const auto state = waiting_.Lock();
  for (auto it = state->locks.begin(); it != state->locks.end();) {
    it = it->second.expired() ? state->locks.erase(it) : std::next(it);
  }
  state->locks[id] = lock;
  return lock;
}

bool LocalTier::IsBeingBuilt(const Id& id) const {
  return store_->LockForBuild(id.first, id.second, 0) == nullptr;
}

std::shared_ptr<void> LocalTier::HeldLock(const Id& id) {
  const auto state = waiting_.Lock();
  if (state->writes.size() > kMostHeldLocks) return nullptr;
  const auto lock = state->locks.find(id);
  return lock == state->locks.end() ? nullptr : lock->second.lock();
}

void LocalTier::Flush() {
  if (writer_ != nullptr) writer_->Flush();
}

void LocalTier::AddTo(StoreStats* stats) const {
  stats->put_failures += failures_.load(std::memory_order_relaxed);
  stats->puts_dropped += dropped_.load(std::memory_order_relaxed);
  stats->evicted += evicted_.load(std::memory_order_relaxed);
  if (store_ != nullptr) stats->quarantined += store_->moved_aside();
}

}  // namespace sinter
