// The folder of the local tier: it is opened by descriptor, and checked for who may write it; the
// names in it; and how a file appears in it, whole or not at all.
//
//   <root>/v1/obj/<2 hex>/<62 hex>.ldb   one kernel record; .bad next to it: quarantined
//   <root>/v1/plan/<2 hex>/<62 hex>.ldb  one plan record; .bad as for a kernel
//   <root>/v1/locks                      0 bytes; byte ranges are single-flight locks
//   <root>/v1/bad/                       damaged and quarantined files, bounded
//   <root>/v1/db/, v1/db.lock            of versions that could keep a leveldb::DB here; left alone
#ifndef SINTER_CACHE_STORE_DIRECTORY_H_
#define SINTER_CACHE_STORE_DIRECTORY_H_

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/store/files.h"
#include "src/base/digest.h"
#include "src/base/ports.h"

namespace sinter {

struct DirectoryOptions {
  std::string root;  // absolute; made with mode 0700 if missing
  // Where lock files go when the root is on a network file system: the first of these folders of
  // this host that works. Empty: the user's run-time folder, then /dev/shm.
  std::vector<std::string> lock_folders;
};

// Immutable, thread-safe. It stays with the same folder if its path is renamed or removed.
class StoreDirectory {
 public:
  // Creates missing folders with mode 0700. As sshd does, it refuses a folder that somebody else
  // could have written or replaced. That is PERMISSION_DENIED unless the root, v1, the folders in
  // v1 and every folder above them (in the path as given and as links resolve it) are owned by us
  // or root and writable by neither group nor others. Folders in v1 must not be links. Folders
  // above the root may be writable if they are sticky. UNAVAILABLE when the folder cannot be made
  // or opened.
  static absl::StatusOr<std::shared_ptr<const StoreDirectory>> Open(
      std::shared_ptr<FileOps> ops, const DirectoryOptions& options);
  static absl::StatusOr<std::shared_ptr<const StoreDirectory>> Open(std::shared_ptr<FileOps> ops,
                                                                    const std::string& root) {
    return Open(std::move(ops), DirectoryOptions{root, {}});
  }

  FileOps* ops() const { return ops_.get(); }
  std::shared_ptr<FileOps> shared_ops() const { return ops_; }
  int fd() const { return v1_.get(); }  // of <root>/v1; all paths below are relative to it
  const std::string& root() const { return options_.root; }
  bool on_network() const { return on_network_; }
  const std::vector<std::string>& lock_folders() const { return options_.lock_folders; }

 private:
  StoreDirectory(std::shared_ptr<FileOps> ops, DirectoryOptions options, Fd v1, bool on_network)
      : ops_(std::move(ops)),
        options_(std::move(options)),
        v1_(std::move(v1)),
        on_network_(on_network) {}

  std::shared_ptr<FileOps> ops_;
  DirectoryOptions options_;
  Fd v1_;
  bool on_network_;
};

// "obj/ab/cdef....ldb" or "plan/...". Such paths hold only hex digits that we made.
std::string RecordPath(RecordKind kind, const Digest& digest);
std::string TombstonePath(RecordKind kind, const Digest& digest);
std::string FolderOf(const std::string& path);  // "obj/ab"
const char* TopFolder(RecordKind kind);         // "obj"
constexpr char kLocksPath[] = "locks";
constexpr char kBadFolder[] = "bad";

// Calls `visit` for each file in the two-digit folders, "obj/ab/<name>", tombstones and temporary
// files included, until it returns an error. Folders that cannot be read are left out; UNAVAILABLE,
// at the end, only for a top one.
absl::Status ForEachFile(
    const StoreDirectory& dir,
    const std::function<absl::Status(RecordKind kind, const std::string& path)>& visit);
// The digest in the name of such a file of a record; false for any other file.
bool DigestOfPath(const std::string& path, absl::string_view suffix, Digest* digest);

// OK when the folder holds only what the library makes: by its name, in real folders with the owner
// and mode that Open requires of the root. FAILED_PRECONDITION names a file that is not ours;
// PERMISSION_DENIED for a folder that is a link or that somebody else may write. Asked before
// everything is removed.
absl::Status CheckOurs(const StoreDirectory& dir);

// Makes `path` (one or more levels below v1), mode 0700. OK when it exists.
absl::Status MakeFolders(const StoreDirectory& dir, const std::string& path);

enum class PublishMode {
  kNew,      // ALREADY_EXISTS when the name is taken; that file stays
  kReplace,  // takes the place of whatever has the name
};

// Writes all of a file. Called again if the first try failed.
using FileWriter = std::function<absl::Status(int fd)>;

// Lets `write` fill an unnamed file (O_TMPFILE) in `path`'s folder, then links it to `path`. If the
// file system has no unnamed files, /proc is missing, or the file system is a network one, a file
// with a random name is written, linked and removed instead. Makes the folder. Readers that have
// the old file open keep it. A killed writer leaves nothing, or at worst one ".tmp-" file, which
// the janitor removes. On failure nothing is published.
constexpr char kTempPrefix[] = ".tmp-";
absl::Status Publish(const StoreDirectory& dir, const std::string& path, const FileWriter& write,
                     PublishMode mode, bool sync);

// Quarantine: bad files are moved to bad/ for a bug report, and a tombstone keeps a wrong record
// from ever being used again.

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

#endif  // SINTER_CACHE_STORE_DIRECTORY_H_
