// The local tier: one sealed table per record in a folder that processes share. Readers take no
// lock and write nothing.
#ifndef SINTER_CACHE_STORE_LOCAL_STORE_H_
#define SINTER_CACHE_STORE_LOCAL_STORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/record/envelope.h"
#include "cache/store/directory.h"
#include "src/base/digest.h"
#include "src/base/ports.h"

namespace sinter {

// Larger files are damage; larger records are not stored.
constexpr uint64_t kMaxRecordFileBytes = uint64_t{256} << 20;

struct LocalStoreOptions {
  std::string root;      // absolute; made with mode 0700 if missing
  std::string producer;  // goes into every record's envelope: library version
  bool sync =
      true;  // wait for the disk before a record gets its name; correctness does not need it
  std::shared_ptr<FileOps> ops;  // null: the real system calls
};

// Thread-safe. Every method works, by missing, when the folder is unusable or goes away; a folder
// that was removed is made again by the next Put. Usable in a child after fork().
class LocalStore {
 public:
  explicit LocalStore(LocalStoreOptions options);

  // OK when the folder is usable, else why not. Set once, at construction.
  const absl::Status& usable() const { return usable_; }

  // A hit's payload passed the verifier. A damaged file is moved to bad/ on the way.
  Lookup Get(RecordKind kind, absl::string_view key, const Digest& digest);

  // Publishes atomically. A sound record with other bytes is replaced, but a verified kernel never
  // by an unverified one. FAILED_PRECONDITION for a quarantined key; UNAVAILABLE for I/O trouble,
  // after which nothing is published.
  absl::Status Put(RecordKind kind, absl::string_view key, const Digest& digest,
                   absl::string_view payload);

  // From then on the key is a kQuarantined miss in every process, for good.
  absl::Status Quarantine(RecordKind kind, const Digest& digest, absl::string_view why);
  // False when it cannot be known.
  bool IsQuarantined(RecordKind kind, const Digest& digest, std::string* why) const;

  // As LockKey of build_locks.h; null at once when the folder is unusable.
  std::shared_ptr<void> LockForBuild(RecordKind kind, const Digest& digest,
                                     int64_t budget_us) const;

  uint64_t moved_aside() const { return moved_aside_.load(std::memory_order_relaxed); }

 private:
  // The folder, or null. A local copy keeps it alive through the call.
  std::shared_ptr<const StoreDirectory> Directory() const;
  void Reopen();
  absl::Status PutOnce(RecordKind kind, const Digest& digest, absl::string_view table,
                       absl::string_view key, const Envelope& envelope);

  LocalStoreOptions options_;
  absl::Status usable_;
  mutable std::mutex mutex_;
  std::shared_ptr<const StoreDirectory> directory_;  // guarded by mutex_
  std::atomic<uint64_t> moved_aside_{0};
};

// The verifier of one record file: table, entry name, envelope, key echo. `verdict.envelope` views
// into `storage`.
EnvelopeVerdict VerifyRecordFile(absl::string_view file, RecordKind kind, const Digest& digest,
                                 absl::string_view key, std::string* storage);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_LOCAL_STORE_H_
