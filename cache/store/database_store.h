// The local tier as one leveldb::DB of one owning process: for who asks for it. Another process, or
// a second store in this one, is refused and told so.
#ifndef SINTER_CACHE_STORE_DATABASE_STORE_H_
#define SINTER_CACHE_STORE_DATABASE_STORE_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "cache/store/directory.h"
#include "cache/store/record_store.h"
#include "src/base/log.h"

namespace leveldb {
class WriteBatch;
class Status;
}  // namespace leveldb

namespace sinter {

struct DatabaseStoreOptions {
  std::string root;  // absolute; made with mode 0700 if missing. The database is <root>/v1/db
  std::string producer;
  bool sync = true;                       // a put returns once it is on disk
  int64_t touch_interval_s = 600;         // how exactly uses are remembered over a restart
  int64_t first_retry_ms = 1000;          // a broken database is opened again this late, then twice
  std::vector<std::string> lock_folders;  // see DirectoryOptions
  std::shared_ptr<FileOps> ops;           // null: the real system calls
  RecordFormat format;
  LogSink log;  // one warning for a database that was put aside
};

// Guards around leveldb::DB, each against a loss that was seen:
//  - <root>/v1/db.lock is held before LevelDB touches anything: a loser changes nothing, not even a
//    log file, and cannot drop the owner's lock.
//  - The child of a fork never touches the database; everything misses there (kDisabled).
//  - All checksums are on, files are read and not mapped, there is no LOG file (see DatabaseEnv).
//  - A database that is not sound is put aside whole and begun anew; never repaired. Tombstones are
//    files beside it, as LocalStore's: they outlive it, and who falls back to tables sees them.
//  - After a failed write the handle may be stuck: it is closed and opened again, not more often
//    than the retry time.
// Memory that runs out inside LevelDB is not survived.
class DatabaseStore : public RecordStore {
 public:
  explicit DatabaseStore(DatabaseStoreOptions options);
  ~DatabaseStore() override;

  const absl::Status& usable() const override { return usable_; }
  bool mine() const override;
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
  uint64_t RemoveOrphans(int64_t) override { return 0; }  // LevelDB removes its own
  std::shared_ptr<void> LockJanitor() const override;
  absl::Status CheckFolder() override;
  void Evicted() override;  // rewrites the tables without what was evicted
  uint64_t moved_aside() const override { return moved_aside_.load(std::memory_order_relaxed); }

 private:
  struct Handle;  // the open database and what it borrows
  struct Use {
    uint64_t bytes = 0;
    int64_t last = 0, stored = 0;  // unix seconds: now, and in the database
  };

  absl::Status Claim();
  absl::Status Open();         // handle_mutex_ held for writing, or nobody else there yet
  absl::Status OpenChecked();  // DATA_LOSS: must be put aside
  absl::Status LoadIndex();
  bool DiskHasRoom() const;
  bool ReopenIfDue(bool put_aside);
  absl::Status Write(leveldb::WriteBatch* batch);
  absl::Status Refusal() const;  // of a put: not usable, not mine
  Lookup Find(RecordKind kind, absl::string_view key, const std::string& name);
  bool KeepsWhatIsThere(const std::string& name, const Envelope& envelope);
  absl::Status Store(const std::string& name, const std::string& value);
  bool Forget(const std::string& name);
  void Heal();
  void StoreUses();

  DatabaseStoreOptions options_;
  const pid_t pid_;
  absl::Status usable_;
  std::shared_ptr<const StoreDirectory> dir_;
  Fd claim_;  // holds db.lock

  std::shared_mutex handle_mutex_;
  std::unique_ptr<Handle> handle_;  // null: could not be opened again yet

  std::mutex write_mutex_;  // one put at a time: look, then write
  std::atomic<bool> broken_{false};
  std::chrono::steady_clock::time_point next_try_;  // guarded by write_mutex_
  int64_t retry_ms_ = 0;                            // guarded by write_mutex_

  mutable std::mutex index_mutex_;
  std::map<std::string, Use> uses_;  // by user key
  std::atomic<uint64_t> moved_aside_{0};
};

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_DATABASE_STORE_H_
