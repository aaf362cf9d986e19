// Quarantine: bad files are moved to bad/ for a bug report, and a tombstone keeps a wrong record
// from ever being used again.
#ifndef SINTER_CACHE_STORE_MARKS_H_
#define SINTER_CACHE_STORE_MARKS_H_

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/store/directory.h"
#include "src/base/digest.h"
#include "src/base/ports.h"

namespace sinter {

// bad/ keeps at most this many; the oldest are removed first.
constexpr int kMaxBadFiles = 16;
constexpr uint64_t kMaxBadBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxTombstoneBytes = 4096;

// Whether both are the same file, unchanged: inode, size and time.
bool SameFile(const struct stat& a, const struct stat& b);

// Moves the record file of (kind, digest) to bad/ if it is still the file that `seen` describes
// (inode, size, time), so that a new good file stays. NOT_FOUND when it is not; UNAVAILABLE when it
// cannot be moved.
absl::Status MoveAside(const StoreDirectory& dir, RecordKind kind, const Digest& digest,
                       const struct stat& seen);

// Writes a tombstone, then moves the record file aside if there is one. A record whose tombstone
// exists is quarantined, whatever the tombstone holds. OK once the tombstone exists.
absl::Status Bury(const StoreDirectory& dir, RecordKind kind, const Digest& digest,
                  absl::string_view why);

// Whether a tombstone exists; `why` (may be null) receives its text. UNAVAILABLE when that cannot
// be determined.
absl::StatusOr<bool> IsBuried(const StoreDirectory& dir, RecordKind kind, const Digest& digest,
                              std::string* why);

// Calls `visit` with the key and text of every tombstone, in no order, until it returns an error.
absl::Status ForEachTombstone(
    const StoreDirectory& dir,
    const std::function<absl::Status(RecordKind, const Digest&, absl::string_view why)>& visit);

// Single flight: who builds a key, and who tidies up. It only saves work: a lost lock costs one
// duplicate build, never a wrong record.
//
// One byte per key in one empty file, at a 62-bit hash of the key's digest, is locked by an
// open-file-description lock. Each holder has its own descriptor, so threads, stores and processes
// all exclude one another in the same way, and the kernel releases the lock when the holder dies.
// The file is <root>/v1/locks. On a network file system, where locks can hang and the locks of dead
// clients stay, the file is in a folder of this host and excludes only this host's processes.

// Tries, then sleeps with growing pauses (an eighth of the wait so far, 50 us to 5 ms), until this
// caller holds the key or `budget_us` has passed. The handle holds the lock. Null: not held,
// because the budget passed, or at once because the folder cannot be locked. A copy of the handle
// in the child of a fork releases nothing.
std::shared_ptr<void> LockKey(std::shared_ptr<const StoreDirectory> dir, RecordKind kind,
                              const Digest& digest, int64_t budget_us);

// Held while one process tidies the folder. Null at once if another process holds it.
std::shared_ptr<void> LockJanitorByte(std::shared_ptr<const StoreDirectory> dir);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_MARKS_H_
