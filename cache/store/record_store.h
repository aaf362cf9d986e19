// RecordStore: what a local tier does, whichever way it keeps its records. Two keep them: sealed
// tables that processes share (LocalStore) and one leveldb::DB of an owning process (DbStore). The
// README of cache/ says which promise each keeps.
#ifndef SINTER_CACHE_STORE_RECORD_STORE_H_
#define SINTER_CACHE_STORE_RECORD_STORE_H_

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/record/envelope.h"
#include "src/base/digest.h"
#include "src/base/ports.h"

namespace sinter {

// Larger records are damage on the way in and not stored on the way out.
constexpr uint64_t kMaxRecordFileBytes = uint64_t{256} << 20;

// OUT_OF_RANGE for more.
absl::Status CheckRecordSize(uint64_t bytes);

// One record as the janitor sees it.
struct StoredEntry {
  RecordKind kind = RecordKind::kPlan;
  Digest digest;
  uint64_t bytes = 0;           // on disk
  int64_t last_use_unix_s = 0;  // exact to the touch interval
  struct stat seen {};          // of a record file; guards against removing its successor
};

// What ForEach finds. A callback that is empty is not called; a status that is not OK ends the
// walk.
struct RecordVisitor {
  std::function<absl::Status(const Digest&, const Envelope&)> record;
  std::function<absl::Status(RecordKind, const Digest&, absl::string_view why)> tombstone;
  std::function<absl::Status(absl::string_view name, absl::string_view cause)> unsound;
  // A whole record that another version of the library wrote, as its envelope's bytes.
  std::function<absl::Status(RecordKind, const Digest&, absl::string_view envelope)> other_format;
};

// Thread-safe. Every method works, by missing or by a status, when the store is unusable.
class RecordStore {
 public:
  // `format`: what this store writes and reads. Records of another one are kOtherFormat misses.
  RecordStore(std::string producer, const RecordFormat& format)
      : producer_(std::move(producer)), format_(format) {}
  virtual ~RecordStore() = default;
  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;

  // OK when the store can be used, else why not: PERMISSION_DENIED for an untrusted folder, ABORTED
  // for a store that another process owns, UNAVAILABLE else. Set once, at construction.
  virtual const absl::Status& usable() const = 0;
  // False in the child of a fork, for a store that only the parent may touch.
  virtual bool mine() const { return true; }

  // A hit's payload passed the verifier. What is damaged is put away on the way.
  virtual Lookup Get(RecordKind kind, absl::string_view key, const Digest& digest) = 0;

  // Publishes atomically: all of the record, or nothing. A sound record with other bytes is
  // replaced, but a verified kernel never by an unverified one. FAILED_PRECONDITION for a
  // quarantined key; OUT_OF_RANGE for a record that is too large; RESOURCE_EXHAUSTED when memory
  // runs out; UNAVAILABLE for I/O trouble.
  virtual absl::Status PutRecord(const Digest& digest, const Envelope& envelope) = 0;
  // As PutRecord, in an envelope made now by this producer.
  absl::Status Put(RecordKind kind, absl::string_view key, const Digest& digest,
                   absl::string_view payload);

  // Keeps a record of another version of the library unread; one that is there under that name
  // stays. Errors as above.
  virtual absl::Status PutUnread(RecordKind kind, const Digest& digest,
                                 absl::string_view envelope) = 0;

  // Puts the record away as a damaged one, if its payload has one of these digests; whether it did.
  virtual bool PutAway(RecordKind kind, absl::string_view key, const Digest& digest,
                       const std::set<Digest>& payloads) = 0;

  // From then on the key is a kQuarantined miss for everybody who uses the store, for good.
  virtual absl::Status Quarantine(RecordKind kind, const Digest& digest, absl::string_view why) = 0;
  // False when it cannot be known. `why` may be null.
  virtual bool IsQuarantined(RecordKind kind, const Digest& digest, std::string* why) const = 0;

  // Single flight, as LockKey of build_locks.h; null at once when nothing can be locked.
  virtual std::shared_ptr<void> LockForBuild(RecordKind kind, const Digest& digest,
                                             int64_t budget_us) const = 0;

  // Visits every record and tombstone in no order. Sees or misses what changes meanwhile.
  virtual absl::Status ForEach(const RecordVisitor& visitor) = 0;

  // For the janitor. List looks at names and sizes only. Evict removes a record if it still is the
  // one that was listed, and says whether it did. RemoveOrphans removes what killed writers left
  // more than `min_age_s` ago and says how many. LockJanitor: null while another one is at work.
  // Evicted is called once after some Evict calls, so that the store can give the room back.
  virtual absl::StatusOr<std::vector<StoredEntry>> List() = 0;
  virtual bool Evict(const StoredEntry& entry) = 0;
  virtual uint64_t RemoveOrphans(int64_t min_age_s) = 0;
  virtual std::shared_ptr<void> LockJanitor() const = 0;
  virtual void Evicted() {}
  // What killed writers left.
  virtual uint64_t CountOrphans() { return 0; }
  // Whether all of the folder may be removed, as CheckOurs.
  virtual absl::Status CheckFolder() = 0;

  // Damaged records (of a database: databases) that were put away.
  virtual uint64_t moved_aside() const = 0;

  const RecordFormat& format() const { return format_; }

 private:
  const std::string producer_;
  const RecordFormat format_;
};

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_RECORD_STORE_H_
