// The local tier: one sealed table per record, in a folder that processes share. Readers take no
// lock and write nothing.
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
#include "cache/record/record.h"
#include "cache/store/directory.h"
#include "src/base/digest.h"
#include "src/base/fields.h"
#include "src/base/fork_local.h"
#include "src/base/ports.h"

namespace sinter {

// A larger file counts as damaged, and a larger record is not stored.
constexpr uint64_t kMaxRecordFileBytes = uint64_t{256} << 20;

// OUT_OF_RANGE for a larger record.
absl::Status CheckRecordSize(uint64_t bytes);

// One record as the janitor sees it.
struct StoredEntry {
  RecordKind kind = RecordKind::kPlan;
  Digest digest;
  uint64_t bytes = 0;           // on disk
  int64_t last_use_unix_s = 0;  // accurate to the touch interval
  struct stat seen {};  // of the file, so that a later file of that name is not taken for it
};

// Callbacks of ForEach. An empty one is not called; a status that is not OK ends the walk.
struct RecordVisitor {
  std::function<absl::Status(const Digest&, const Envelope&)> record;
  std::function<absl::Status(RecordKind, const Digest&, absl::string_view why)> tombstone;
  std::function<absl::Status(absl::string_view name, absl::string_view cause)> unsound;
  std::function<absl::Status(RecordKind, const Digest&)> other_format;  // of another version
};

struct LocalStoreOptions {
  std::string root;      // absolute; made with mode 0700 if missing
  std::string producer;  // library version, in every record's envelope
  // Waits for the disk before a record gets its name. Without it a power cut can leave damaged
  // files, which are misses.
  bool sync = true;
  // A hit sets its file's modification time, unless that was done within this interval, so that
  // nearly all hits write nothing. Negative: never.
  int64_t touch_interval_s = 600;
  std::vector<std::string> lock_folders;  // see DirectoryOptions
  std::shared_ptr<FileOps> ops;           // null: the real system calls
  RecordFormat format;  // written and read; records of another one are kOtherFormat misses
};

// Thread-safe. If the folder is unusable or disappears, every method still works: look-ups miss,
// others return a status. A put makes a removed folder again. Usable in a child after fork().
class LocalStore {
 public:
  explicit LocalStore(LocalStoreOptions options);
  LocalStore(const LocalStore&) = delete;
  LocalStore& operator=(const LocalStore&) = delete;

  // OK when the store can be used; PERMISSION_DENIED for an untrusted folder, else UNAVAILABLE. Set
  // once, at construction.
  const absl::Status& usable() const { return usable_; }

  // A hit's payload passed the verifier. A damaged file is moved to bad/.
  Lookup Get(RecordKind kind, absl::string_view key, const Digest& digest);

  // Publishes atomically: the whole record or nothing. A sound record with other bytes is replaced,
  // except a verified kernel by an unverified one. FAILED_PRECONDITION for a quarantined key;
  // OUT_OF_RANGE for a record that is too large; RESOURCE_EXHAUSTED when memory runs out;
  // UNAVAILABLE for I/O trouble.
  absl::Status PutRecord(const Digest& digest, const Envelope& envelope);
  // Marks the record as used now, as a hit does.
  void Use(RecordKind kind, const Digest& digest) const;
  // As PutRecord, with a new envelope of this producer.
  absl::Status Put(RecordKind kind, absl::string_view key, const Digest& digest,
                   absl::string_view payload);

  // Moves the record to bad/ as damaged if its payload has one of these digests. Returns whether it
  // did.
  bool PutAway(RecordKind kind, absl::string_view key, const Digest& digest,
               const std::set<Digest>& payloads);

  // From then on the key is a kQuarantined miss for everybody who uses the folder, permanently.
  absl::Status Quarantine(RecordKind kind, const Digest& digest, absl::string_view why);
  // False also when it cannot be determined. `why` may be null.
  bool IsQuarantined(RecordKind kind, const Digest& digest, std::string* why) const;

  // Single flight, as LockKey of directory.h; null at once when nothing can be locked.
  std::shared_ptr<void> LockForBuild(RecordKind kind, const Digest& digest,
                                     int64_t budget_us) const;

  // Visits every record and tombstone in no order. Changes made meanwhile may or may not be seen.
  absl::Status ForEach(const RecordVisitor& visitor);

  // For the janitor. List reads only names and sizes. Evict removes a record if it is still the one
  // that was listed, and returns whether it did. RemoveOrphans removes what killed writers left
  // more than `min_age_s` ago and returns how many; CountOrphans counts them whatever their age.
  // LockJanitor is null while another janitor works.
  absl::StatusOr<std::vector<StoredEntry>> List();
  // Reads one listed record, which counts as no use.
  absl::Status Visit(const StoredEntry& entry, const RecordVisitor& visitor);
  bool Evict(const StoredEntry& entry);
  uint64_t RemoveOrphans(int64_t min_age_s);
  uint64_t CountOrphans();
  std::shared_ptr<void> LockJanitor() const;
  // Whether everything in the folder may be removed, as CheckOurs of directory.h.
  absl::Status CheckFolder();

  // How many damaged files were moved to bad/.
  uint64_t moved_aside() const { return moved_aside_.load(std::memory_order_relaxed); }

 private:
  using DirectoryPtr = std::shared_ptr<const StoreDirectory>;

  // The folder, or null. A local copy keeps it alive through the call.
  DirectoryPtr Directory() const;
  absl::StatusOr<DirectoryPtr> Open() const;
  void Reopen();
  void Touch(const StoreDirectory& dir, RecordKind kind, const Digest& digest,
             const struct stat& seen) const;
  // Whether this process already verified this very file: the same inode, size and times.
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

// Verifies one record file: table, entry name, envelope, key. `verdict.envelope` points into
// `file`.
EnvelopeVerdict VerifyRecordFile(absl::string_view file, RecordKind kind, const Digest& digest,
                                 absl::string_view key, const RecordFormat& format = {});
// As above, without the SHA-256, for a file that this process has verified before. The table's
// checksums are still checked.
EnvelopeVerdict VerifyKnownRecordFile(absl::string_view file, RecordKind kind, const Digest& digest,
                                      absl::string_view key, const RecordFormat& format = {});

// As above for a record file whose key is not known: the key in it must have the digest that the
// file's name says.
EnvelopeVerdict ReadRecordFile(absl::string_view file, RecordKind kind, const Digest& digest,
                               const RecordFormat& format = {});

// Reports: what calls on a cache found or did. Names of fields are keys of what the command prints
// with --json.

struct LocalReport {
  uint64_t plans = 0, kernels = 0;  // sound records
  uint64_t verified_kernels = 0;    // kernels that were checked on a device
  uint64_t other_format = 0;        // records of another version of the library
  uint64_t bytes = 0;               // of all records
  uint64_t unsound = 0;             // records that a lookup would refuse
  uint64_t quarantined = 0;         // keys with a tombstone
  uint64_t temporary = 0;           // left by killed writers
  std::vector<std::string>
      findings;  // "name: cause" for unsound records and tombstones, at most 100
  SINTER_FIELDS(LocalReport, plans, kernels, verified_kernels, other_format, bytes, unsound,
                quarantined, temporary, findings);
};

struct ClearReport {
  uint64_t records = 0, bytes = 0;  // removed, or to be removed
  uint64_t failed = 0;              // those that could not be removed
  SINTER_FIELDS(ClearReport, records, bytes, failed);
};

struct SweepReport {
  bool busy = false;                // another janitor was at work, so nothing was done
  uint64_t records = 0, bytes = 0;  // before
  uint64_t evicted = 0, evicted_bytes = 0;
  uint64_t orphans = 0;
  SINTER_FIELDS(SweepReport, busy, records, bytes, evicted, evicted_bytes, orphans);
};

struct PackReport {
  uint64_t plans = 0, kernels = 0, bytes = 0;  // of the pack that was written
  uint64_t skipped = 0;  // items that were gone, unsound or not wanted when they were to be written
  SINTER_FIELDS(PackReport, plans, kernels, bytes, skipped);
};

struct ImportReport {
  uint64_t stored = 0;   // in the store afterwards, whoever put them there
  uint64_t refused = 0;  // quarantined there, too large, damaged in the pack, or refused by a check
  SINTER_FIELDS(ImportReport, stored, refused);
};

struct PushReport {
  uint64_t records = 0;                   // looked at
  uint64_t present = 0;                   // the remote store had them
  uint64_t pushed = 0, pushed_bytes = 0;  // written now
  uint64_t withdrawn = 0;                 // found wrong somewhere in the fleet: not written
  uint64_t skipped = 0;                   // not wanted, unsound or too large
  SINTER_FIELDS(PushReport, records, present, pushed, pushed_bytes, withdrawn, skipped);
};

// What became of the records that this process asked for or made.
struct KeptReport {
  uint64_t records = 0, lost = 0;  // lost: in neither the local tier nor a pack
  uint64_t evicted = 0;            // records that this process removed because of the cap
  uint64_t bytes = 0;              // of all records in the local tier
  uint64_t cap = 0;                // of the local tier; 0: none
  uint64_t needed_bytes = 0;       // a cap that keeps everything, with a sixteenth to spare
  SINTER_FIELDS(KeptReport, records, lost, evicted, bytes, cap, needed_bytes);
};

// Upkeep of a local store: counts and lists its records, empties it, and keeps it under its cap by
// removing the longest unused records and what killed writers left.

// Reads every record, changes nothing. Records that `check` refuses are unsound too. Returns the
// error of a store that cannot be used, or of the walk.
absl::StatusOr<LocalReport> InspectStore(LocalStore* store, const RecordCheck& check = nullptr);

// Calls `visit` for each record, in no order. `envelope` is valid only during the call; it is null
// for a record that a lookup would refuse or that another version wrote. Returns the error of the
// store, of the walk, or of `visit`. Holds one record at a time.
using ListedRecord = std::function<void(const StoredEntry& entry, const Envelope* envelope)>;
absl::Status ListStore(LocalStore* store, const ListedRecord& visit);

// Removes every record of the store; tombstones stay. With `dry_run` it only reports what it would
// remove. FAILED_PRECONDITION or PERMISSION_DENIED, with nothing removed, for a folder that holds
// something that is not the library's (CheckOurs).
absl::StatusOr<ClearReport> ClearStore(LocalStore* store, bool dry_run);

// The kernels that a plan's record names, by their digests; none where this library cannot tell.
using KernelsOfPlan =
    std::function<std::vector<Digest>(absl::string_view key, absl::string_view payload)>;

struct SweepLimits {
  uint64_t max_bytes = uint64_t{2} << 30;  // of all records on disk; 0: no cap
  int64_t orphan_age_s = 900;              // longer than any writer takes
  // If set, a kernel stays as long as a plan that names it.
  KernelsOfPlan kernels_of;
};

// One sweep. Above the cap, the longest unused records are removed until nine tenths of the cap are
// left, so that the next sweep does not follow at once. With `limits.kernels_of` a kernel goes only
// after every plan that names it, and with the last of them. Tombstones stay. Readers
// are not disturbed: a reader that has a removed record open goes on, a later one misses. Only one
// janitor of all processes works at a time. Blocks while it looks at every name (about 3 us each).
// UNAVAILABLE when the store cannot be listed.
absl::StatusOr<SweepReport> Sweep(LocalStore* store, const SweepLimits& limits);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_LOCAL_STORE_H_
