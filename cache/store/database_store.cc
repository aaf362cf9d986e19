#include "cache/store/database_store.h"

#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include <ctime>
#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cache/store/build_locks.h"
#include "cache/store/database_handle.h"
#include "cache/store/quarantine.h"
#include "cache/store/table.h"
#include "src/base/status.h"

namespace sinter {
namespace {

int64_t NowUnixSeconds() { return static_cast<int64_t>(time(nullptr)); }

}  // namespace

absl::Status DatabaseStore::Refusal() const {
  if (!mine()) return absl::UnavailableError("the database belongs to the parent of this fork");
  return usable_;
}

// write_mutex_ is held.
absl::Status DatabaseStore::Write(leveldb::WriteBatch* batch) {
  if (broken_ && !ReopenIfDue(/*put_aside=*/false)) {
    return absl::UnavailableError("database: broken, to be opened again later");
  }
  leveldb::WriteOptions options;
  options.sync = options_.sync;
  absl::Status status;
  {
    std::shared_lock<std::shared_mutex> lock(handle_mutex_);
    if (handle_ == nullptr) return absl::UnavailableError("database: not open");
    status = ToStatus(handle_->db->Write(options, batch));
  }
  if (status.ok()) return status;
  broken_ = true;
  // A damaged table stops compaction, and with it every write, for good.
  if (absl::IsDataLoss(status)) (void)ReopenIfDue(/*put_aside=*/true);
  return absl::UnavailableError(status.message());
}

Lookup DatabaseStore::Find(RecordKind kind, absl::string_view key, const std::string& name) {
  std::string value;
  absl::Status status;
  {
    std::shared_lock<std::shared_mutex> lock(handle_mutex_);
    if (handle_ == nullptr) return Lookup::Miss(MissReason::kIoError, "database: not open");
    status = ToStatus(handle_->db->Get(Reading(false), name, &value));
  }
  if (absl::IsNotFound(status)) return Lookup::Miss(MissReason::kAbsent, "");
  if (absl::IsUnavailable(status)) {
    return Lookup::Miss(MissReason::kIoError, std::string(status.message()));
  }
  if (!status.ok()) return Lookup::Miss(MissReason::kDamaged, std::string(status.message()));
  EnvelopeVerdict verdict = ReadEnvelopeFor(value, kind, key, format());
  if (!verdict.ok) return Lookup::Miss(verdict.reason, absl::StrCat("database: ", verdict.detail));
  Lookup hit;
  hit.hit = true;
  hit.payload = std::string(verdict.envelope.payload);
  hit.tier = "local";
  return hit;
}

Lookup DatabaseStore::Get(RecordKind kind, absl::string_view key, const Digest& digest) {
  const absl::Status refusal = Refusal();
  if (!refusal.ok()) {
    const bool foreign = absl::IsPermissionDenied(refusal);
    return Lookup::Miss(foreign ? MissReason::kRefusedOwner : MissReason::kDisabled,
                        std::string(refusal.message()));
  }
  try {
    const std::string name = TableUserKey(kind, digest);
    std::string why;
    const absl::StatusOr<bool> buried = IsBuried(*dir_, kind, digest, &why);
    if (!buried.ok())
      return Lookup::Miss(MissReason::kIoError, std::string(buried.status().message()));
    if (*buried) return Lookup::Miss(MissReason::kQuarantined, std::move(why));
    Heal();
    Lookup lookup = Find(kind, key, name);
    if (lookup.hit) {
      std::lock_guard<std::mutex> lock(index_mutex_);
      const auto use = uses_.find(name);
      if (use != uses_.end()) use->second.last = NowUnixSeconds();
    } else if (lookup.reason == MissReason::kDamaged && Forget(name)) {
      moved_aside_.fetch_add(1, std::memory_order_relaxed);
    }
    return lookup;
  } catch (const std::bad_alloc&) {
    return Lookup::Miss(MissReason::kIoError, "out of memory");
  }
}

// A record that cannot be read is shadowed by its deletion, so that it can be put again.
bool DatabaseStore::Forget(const std::string& name) {
  std::lock_guard<std::mutex> write(write_mutex_);
  leveldb::WriteBatch batch;
  batch.Delete(name);
  batch.Delete(absl::StrCat(kUsePrefix, name));
  if (!Write(&batch).ok()) return false;
  std::lock_guard<std::mutex> lock(index_mutex_);
  uses_.erase(name);
  return true;
}

// A handle that writes no more still reads: only where there is none is a new one sought.
void DatabaseStore::Heal() {
  if (!broken_) return;
  {
    std::shared_lock<std::shared_mutex> lock(handle_mutex_);
    if (handle_ != nullptr) return;
  }
  std::lock_guard<std::mutex> write(write_mutex_);
  if (broken_) (void)ReopenIfDue(/*put_aside=*/false);
}

bool DatabaseStore::KeepsWhatIsThere(const std::string& name, const Envelope& envelope) {
  std::string value;
  std::shared_lock<std::shared_mutex> lock(handle_mutex_);
  if (handle_ == nullptr || !handle_->db->Get(Reading(false), name, &value).ok()) return false;
  const EnvelopeVerdict old = ReadEnvelopeFor(value, envelope.kind, envelope.key, format());
  if (!old.ok) return false;
  const bool better = old.envelope.verified && !envelope.verified;
  return better || old.envelope.payload == envelope.payload;
}

absl::Status DatabaseStore::PutRecord(const Digest& digest, const Envelope& envelope) {
  SINTER_RETURN_IF_ERROR(Refusal());
  try {
    const std::string name = TableUserKey(envelope.kind, digest);
    const std::string value = EncodeEnvelope(envelope, format());
    SINTER_RETURN_IF_ERROR(CheckRecordSize(value.size()));
    std::lock_guard<std::mutex> write(write_mutex_);
    SINTER_ASSIGN_OR_RETURN(const bool buried, IsBuried(*dir_, envelope.kind, digest, nullptr));
    if (buried) {
      return absl::FailedPreconditionError("put: key is quarantined");
    }
    if (!broken_ && KeepsWhatIsThere(name, envelope)) return absl::OkStatus();
    return Store(name, value);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("put: out of memory");
  }
}

// write_mutex_ is held.
absl::Status DatabaseStore::Store(const std::string& name, const std::string& value) {
  const int64_t now = NowUnixSeconds();
  leveldb::WriteBatch batch;
  batch.Put(name, value);
  batch.Put(absl::StrCat(kUsePrefix, name), EncodeUse(value.size(), now));
  SINTER_RETURN_IF_ERROR(Write(&batch));
  std::lock_guard<std::mutex> lock(index_mutex_);
  uses_[name] = Use{value.size(), now, now};
  return absl::OkStatus();
}

absl::Status DatabaseStore::PutUnread(RecordKind kind, const Digest& digest,
                                      absl::string_view envelope) {
  SINTER_RETURN_IF_ERROR(Refusal());
  SINTER_RETURN_IF_ERROR(CheckRecordSize(envelope.size()));
  const std::string name = TableUserKey(kind, digest);
  std::lock_guard<std::mutex> write(write_mutex_);
  SINTER_ASSIGN_OR_RETURN(const bool buried, IsBuried(*dir_, kind, digest, nullptr));
  if (buried) return absl::FailedPreconditionError("put: key is quarantined");
  {
    std::lock_guard<std::mutex> lock(index_mutex_);
    if (uses_.count(name) != 0) return absl::OkStatus();
  }
  return Store(name, std::string(envelope));
}

bool DatabaseStore::PutAway(RecordKind kind, absl::string_view key, const Digest& digest,
                            const std::set<Digest>& payloads) {
  if (!Refusal().ok()) return false;
  try {
    const std::string name = TableUserKey(kind, digest);
    const Lookup there = Find(kind, key, name);
    if (!there.hit || payloads.count(Sha256(there.payload)) == 0 || !Forget(name)) return false;
    moved_aside_.fetch_add(1, std::memory_order_relaxed);
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

absl::Status DatabaseStore::Quarantine(RecordKind kind, const Digest& digest,
                                       absl::string_view why) {
  SINTER_RETURN_IF_ERROR(Refusal());
  SINTER_RETURN_IF_ERROR(Bury(*dir_, kind, digest, why));
  Forget(TableUserKey(kind, digest));  // for the room; the tombstone alone decides
  return absl::OkStatus();
}

bool DatabaseStore::IsQuarantined(RecordKind kind, const Digest& digest, std::string* why) const {
  return Refusal().ok() && IsBuried(*dir_, kind, digest, why).value_or(false);
}

std::shared_ptr<void> DatabaseStore::LockForBuild(RecordKind kind, const Digest& digest,
                                                  int64_t budget_us) const {
  return Refusal().ok() ? LockKey(dir_, kind, digest, budget_us) : nullptr;
}

}  // namespace sinter
