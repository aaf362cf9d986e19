// The local tier: one sealed table a record, in a folder that processes share. Readers take no lock
// and write nothing.
#ifndef SINTER_CACHE_STORE_LOCAL_STORE_H_
#define SINTER_CACHE_STORE_LOCAL_STORE_H_

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/record/envelope.h"
#include "cache/store/directory.h"
#include "src/base/digest.h"
#include "src/base/fork_local.h"
#include "src/base/ports.h"

namespace sinter {

// A larger file is damage when it is read, and a larger record is not stored.
constexpr uint64_t kMaxRecordFileBytes = uint64_t{256} << 20;

// OUT_OF_RANGE for more.
absl::Status CheckRecordSize(uint64_t bytes);

// One record as the janitor sees it.
struct StoredEntry {
  RecordKind kind = RecordKind::kPlan;
  Digest digest;
  uint64_t bytes = 0;           // on disk
  int64_t last_use_unix_s = 0;  // exact to the touch interval
  struct stat seen {};          // of its file, so that its successor is not taken for it
};

// What ForEach finds. A callback that is empty is not called; a status that is not OK ends the
// walk.
struct RecordVisitor {
  std::function<absl::Status(const Digest&, const Envelope&)> record;
  std::function<absl::Status(RecordKind, const Digest&, absl::string_view why)> tombstone;
  std::function<absl::Status(absl::string_view name, absl::string_view cause)> unsound;
  std::function<absl::Status(RecordKind, const Digest&)> other_format;  // of another version
};

struct LocalStoreOptions {
  std::string root;      // absolute; made with mode 0700 if missing
  std::string producer;  // goes into every record's envelope: library version
  // Waits for the disk before a record gets its name. Without it a power cut can leave damaged
  // files, which are misses.
  bool sync = true;
  // A hit marks its file as used (its modification time) unless that was done this recently, so
  // that nearly all hits write nothing. Negative: never.
  int64_t touch_interval_s = 600;
  std::vector<std::string> lock_folders;  // see DirectoryOptions
  std::shared_ptr<FileOps> ops;           // null: the real system calls
  RecordFormat format;  // written and read; records of another one are kOtherFormat misses
};

// Thread-safe. Every method works, by missing or by a status, when the folder is unusable or goes
// away; a folder that was removed is made again by the next put. Usable in a child after fork().
class LocalStore {
 public:
  explicit LocalStore(LocalStoreOptions options);
  LocalStore(const LocalStore&) = delete;
  LocalStore& operator=(const LocalStore&) = delete;

  // OK when the store can be used, else why not: PERMISSION_DENIED for an untrusted folder,
  // UNAVAILABLE else. Set once, at construction.
  const absl::Status& usable() const { return usable_; }

  // A hit's payload passed the verifier. A damaged file is moved to bad/ on the way.
  Lookup Get(RecordKind kind, absl::string_view key, const Digest& digest);

  // Publishes atomically: all of the record, or nothing. A sound record with other bytes is
  // replaced, but a verified kernel never by an unverified one. FAILED_PRECONDITION for a
  // quarantined key; OUT_OF_RANGE for a record that is too large; RESOURCE_EXHAUSTED when memory
  // runs out; UNAVAILABLE for I/O trouble.
  absl::Status PutRecord(const Digest& digest, const Envelope& envelope);
  // As PutRecord, in an envelope made now by this producer.
  absl::Status Put(RecordKind kind, absl::string_view key, const Digest& digest,
                   absl::string_view payload);

  // Moves the record to bad/ as a damaged one, if its payload has one of these digests; whether it
  // did.
  bool PutAway(RecordKind kind, absl::string_view key, const Digest& digest,
               const std::set<Digest>& payloads);

  // From then on the key is a kQuarantined miss for everybody who uses the folder, for good.
  absl::Status Quarantine(RecordKind kind, const Digest& digest, absl::string_view why);
  // False when it cannot be known. `why` may be null.
  bool IsQuarantined(RecordKind kind, const Digest& digest, std::string* why) const;

  // Single flight, as LockKey of build_locks.h; null at once when nothing can be locked.
  std::shared_ptr<void> LockForBuild(RecordKind kind, const Digest& digest,
                                     int64_t budget_us) const;

  // Visits every record and tombstone in no order. Sees or misses what changes meanwhile.
  absl::Status ForEach(const RecordVisitor& visitor);

  // For the janitor. List looks at names and sizes only. Evict removes a record if it still is the
  // one that was listed, and says whether it did. RemoveOrphans removes what killed writers left
  // more than `min_age_s` ago and says how many; CountOrphans counts them whatever their age.
  // LockJanitor: null while another one is at work.
  absl::StatusOr<std::vector<StoredEntry>> List();
  bool Evict(const StoredEntry& entry);
  uint64_t RemoveOrphans(int64_t min_age_s);
  uint64_t CountOrphans();
  std::shared_ptr<void> LockJanitor() const;
  // Whether all of the folder may be removed, as CheckOurs of directory.h.
  absl::Status CheckFolder();

  // Damaged files that were moved to bad/.
  uint64_t moved_aside() const { return moved_aside_.load(std::memory_order_relaxed); }

 private:
  using DirectoryPtr = std::shared_ptr<const StoreDirectory>;

  // The folder, or null. A local copy keeps it alive through the call.
  DirectoryPtr Directory() const;
  absl::StatusOr<DirectoryPtr> Open() const;
  void Reopen();
  void Touch(const StoreDirectory& dir, RecordKind kind, const Digest& digest,
             const struct stat& seen) const;
  // Whether this process verified this very file before: the same inode, size and times.
  bool IsKnown(RecordKind kind, const Digest& digest, const struct stat& st) const;
  void Know(RecordKind kind, const Digest& digest, const struct stat& st) const;
  bool PutAside(const StoreDirectory& dir, RecordKind kind, const Digest& digest,
                const struct stat& seen);
  bool KeepsWhatIsThere(const StoreDirectory& dir, const Digest& digest, const Envelope& envelope);
  absl::Status PutOnce(const Digest& digest, const Envelope& envelope);

  LocalStoreOptions options_;
  absl::Status usable_;
  mutable ForkLocal<DirectoryPtr> directory_;
  mutable ForkLocal<std::map<std::pair<RecordKind, Digest>, struct stat>> known_;
  std::atomic<uint64_t> moved_aside_{0};
};

// The verifier of one record file: table, entry name, envelope, key echo. `verdict.envelope` views
// into `file`.
EnvelopeVerdict VerifyRecordFile(absl::string_view file, RecordKind kind, const Digest& digest,
                                 absl::string_view key, const RecordFormat& format = {});
// As above for a file whose bytes this process has verified before: all but the SHA-256. The
// table's checksums are asked again.
EnvelopeVerdict VerifyKnownRecordFile(absl::string_view file, RecordKind kind, const Digest& digest,
                                      absl::string_view key, const RecordFormat& format = {});

// What a record file holds, asked for by its name alone: as above, with the key that it echoes,
// which must have the digest that the name says.
EnvelopeVerdict ReadRecordFile(absl::string_view file, RecordKind kind, const Digest& digest,
                               const RecordFormat& format = {});

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_LOCAL_STORE_H_
