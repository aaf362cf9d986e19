// The parts of DatabaseStore that walk the records and what is known of their use: for the janitor,
// for conversion.
#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include "absl/strings/str_cat.h"
#include "cache/store/database_files.h"
#include "cache/store/database_handle.h"
#include "cache/store/database_store.h"
#include "cache/store/quarantine.h"
#include "cache/store/table.h"
#include "src/base/status.h"

namespace sinter {
namespace {

bool SplitName(absl::string_view name, RecordKind* kind, Digest* digest) {
  if (name.size() != 2 + digest->bytes.size()) return false;
  *kind = name[0] == 'k' ? RecordKind::kKernel : RecordKind::kPlan;
  for (size_t i = 0; i < digest->bytes.size(); ++i) {
    digest->bytes[i] = static_cast<uint8_t>(name[2 + i]);
  }
  return TableUserKey(*kind, *digest) == name;
}

}  // namespace

absl::Status DatabaseStore::ForEach(const RecordVisitor& visitor) {
  SINTER_RETURN_IF_ERROR(Refusal());
  if (visitor.tombstone) SINTER_RETURN_IF_ERROR(ForEachTombstone(*dir_, visitor.tombstone));
  RecordKind kind;
  Digest digest;
  std::shared_lock<std::shared_mutex> lock(handle_mutex_);
  if (handle_ == nullptr) return absl::UnavailableError("database: not open");
  const std::unique_ptr<leveldb::Iterator> it(handle_->db->NewIterator(Reading(false)));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    const absl::string_view name = ToView(it->key());
    if (!SplitName(name, &kind, &digest)) continue;
    const EnvelopeVerdict verdict = ReadEnvelope(ToView(it->value()), format());
    if (!verdict.ok && verdict.reason == MissReason::kOtherFormat) {
      if (!visitor.other_format) continue;
      SINTER_RETURN_IF_ERROR(visitor.other_format(kind, digest, ToView(it->value())));
      continue;
    }
    const bool sound =
        verdict.ok && verdict.envelope.kind == kind && Sha256(verdict.envelope.key) == digest;
    if (sound && visitor.record) {
      SINTER_RETURN_IF_ERROR(visitor.record(digest, verdict.envelope));
    } else if (!sound && visitor.unsound) {
      const std::string cause = verdict.ok ? "record of another key" : verdict.detail;
      SINTER_RETURN_IF_ERROR(visitor.unsound(digest.Hex(), cause));
    }
  }
  if (it->status().ok() || !visitor.unsound) return absl::OkStatus();
  return visitor.unsound(kDatabaseFolder, it->status().ToString());
}

absl::StatusOr<std::vector<StoredEntry>> DatabaseStore::List() {
  SINTER_RETURN_IF_ERROR(Refusal());
  std::vector<StoredEntry> entries;
  std::lock_guard<std::mutex> lock(index_mutex_);
  for (const auto& [name, use] : uses_) {
    StoredEntry entry;
    if (!SplitName(name, &entry.kind, &entry.digest)) continue;
    entry.bytes = use.bytes;
    entry.last_use_unix_s = use.last;
    entries.push_back(entry);
  }
  return entries;
}

bool DatabaseStore::Evict(const StoredEntry& entry) {
  if (!Refusal().ok()) return false;
  const std::string name = TableUserKey(entry.kind, entry.digest);
  {
    std::lock_guard<std::mutex> lock(index_mutex_);
    const auto use = uses_.find(name);
    if (use == uses_.end() || use->second.last != entry.last_use_unix_s) return false;
  }
  return Forget(name);
}

absl::Status DatabaseStore::CheckFolder() {
  SINTER_RETURN_IF_ERROR(Refusal());
  return CheckOurs(*dir_);
}

std::shared_ptr<void> DatabaseStore::LockJanitor() const {
  return Refusal().ok() ? std::make_shared<int>(0) : nullptr;  // no other process is in here
}

void DatabaseStore::Evicted() {
  if (!Refusal().ok()) return;
  StoreUses();
  std::shared_lock<std::shared_mutex> lock(handle_mutex_);
  if (handle_ != nullptr) handle_->db->CompactRange(nullptr, nullptr);
}

void DatabaseStore::StoreUses() {
  std::lock_guard<std::mutex> write(write_mutex_);
  leveldb::WriteBatch batch;
  bool any = false;
  {
    std::lock_guard<std::mutex> lock(index_mutex_);
    for (auto& [name, use] : uses_) {
      if (use.last - use.stored <= options_.touch_interval_s) continue;
      batch.Put(absl::StrCat(kUsePrefix, name), EncodeUse(use.bytes, use.last));
      use.stored = use.last;
      any = true;
    }
  }
  if (any) (void)Write(&batch);
}

}  // namespace sinter
