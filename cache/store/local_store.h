// The local tier: one sealed table per record in a folder that processes share. Readers take no
// lock and write nothing.
#ifndef SINTER_CACHE_STORE_LOCAL_STORE_H_
#define SINTER_CACHE_STORE_LOCAL_STORE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/record/envelope.h"
#include "cache/store/directory.h"
#include "cache/store/record_store.h"
#include "src/base/digest.h"
#include "src/base/fork_local.h"
#include "src/base/ports.h"

namespace sinter {

struct LocalStoreOptions {
  std::string root;      // absolute; made with mode 0700 if missing
  std::string producer;  // goes into every record's envelope: library version
  bool sync =
      true;  // wait for the disk before a record gets its name; correctness does not need it
  // A hit marks its file as used (its modification time) unless that was done this recently, so
  // that nearly all hits write nothing. Negative: never.
  int64_t touch_interval_s = 600;
  std::vector<std::string> lock_folders;  // see DirectoryOptions
  std::shared_ptr<FileOps> ops;           // null: the real system calls
  RecordFormat format;
};

// Thread-safe. Every method works, by missing, when the folder is unusable or goes away; a folder
// that was removed is made again by the next Put. Usable in a child after fork().
class LocalStore : public RecordStore {
 public:
  explicit LocalStore(LocalStoreOptions options);

  const absl::Status& usable() const override { return usable_; }

  // A damaged file is moved to bad/ on the way.
  Lookup Get(RecordKind kind, absl::string_view key, const Digest& digest) override;
  absl::Status PutRecord(const Digest& digest, const Envelope& envelope) override;
  absl::Status PutUnread(RecordKind kind, const Digest& digest,
                         absl::string_view envelope) override;
  bool PutAway(RecordKind kind, absl::string_view key, const Digest& digest,
               const std::set<Digest>& payloads) override;
  absl::Status Quarantine(RecordKind kind, const Digest& digest, absl::string_view why) override;
  bool IsQuarantined(RecordKind kind, const Digest& digest, std::string* why) const override;
  std::shared_ptr<void> LockForBuild(RecordKind kind, const Digest& digest,
                                     int64_t budget_us) const override;

  absl::Status ForEach(const RecordVisitor& visitor) override;
  absl::StatusOr<std::vector<StoredEntry>> List() override;
  bool Evict(const StoredEntry& entry) override;
  uint64_t RemoveOrphans(int64_t min_age_s) override;
  uint64_t CountOrphans() override;
  absl::Status CheckFolder() override;
  std::shared_ptr<void> LockJanitor() const override;

  uint64_t moved_aside() const override { return moved_aside_.load(std::memory_order_relaxed); }

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
  absl::Status PutOnce(const Digest& digest, const Envelope& envelope, std::string* table);

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
