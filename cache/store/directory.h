// The folder of the local tier: opened by descriptor, checked for who may write it; the names
// inside it; and how a file appears there, whole or not at all.
//
//   <root>/v1/obj/<2 hex>/<62 hex>.ldb   one kernel record; .bad beside it: quarantined
//   <root>/v1/plan/<2 hex>/<62 hex>.ldb  one plan record; .bad likewise
//   <root>/v1/locks                      0 bytes; byte ranges are single-flight locks
//   <root>/v1/bad/                       damaged and quarantined files, bounded
//   <root>/v1/db/, v1/db.lock            of versions that could keep a leveldb::DB here; left alone
#ifndef SINTER_CACHE_STORE_DIRECTORY_H_
#define SINTER_CACHE_STORE_DIRECTORY_H_

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

// Immutable, thread-safe. Keeps pointing at the same folder if its path is renamed or removed.
class StoreDirectory {
 public:
  // Creates what is missing with mode 0700. Trust is sshd's: PERMISSION_DENIED when somebody else
  // could have written the folder or put another one in its place, that is unless the root, v1, the
  // folders in it and every folder above them, as the path spells them and as they really lie, is
  // owned by us or root and writable by neither group nor others; one in v1 that is a link is
  // refused too. Above the root a folder may be writable if it is sticky. UNAVAILABLE when it
  // cannot be made or opened.
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

// "obj/ab/cdef....ldb" or "plan/...". Only hex that we made reaches a path.
std::string RecordPath(RecordKind kind, const Digest& digest);
std::string TombstonePath(RecordKind kind, const Digest& digest);
std::string FolderOf(const std::string& path);  // "obj/ab"
const char* TopFolder(RecordKind kind);         // "obj"
constexpr char kLocksPath[] = "locks";
constexpr char kBadFolder[] = "bad";

// What is in the fan-out folders of one kind: "obj/ab/<name>", tombstones and temporaries included.
// Folders that cannot be read are left out; NOT_FOUND or UNAVAILABLE only for the top one.
absl::StatusOr<std::vector<std::string>> ListFanOut(const StoreDirectory& dir, RecordKind kind);
// The record that a path of that list names by its digits; false for any other file.
bool DigestOfPath(const std::string& path, absl::string_view suffix, Digest* digest);

// OK when the folder holds what the library makes and nothing else: names, real folders, judged as
// the root is. FAILED_PRECONDITION naming what is not ours; PERMISSION_DENIED for a folder that is
// a link, or that somebody else may write. Asked before all of it is removed.
absl::Status CheckOurs(const StoreDirectory& dir);

// Makes `path` (one or more levels below v1), mode 0700. OK when it is there.
absl::Status MakeFolders(const StoreDirectory& dir, const std::string& path);

enum class PublishMode {
  kNew,      // ALREADY_EXISTS when the name is taken; the file there is left alone
  kReplace,  // takes the place of whatever has the name
};

// Writes all of a file, and again where the first try came to nothing.
using FileWriter = std::function<absl::Status(int fd)>;

// Has `write` fill an unnamed file (O_TMPFILE) beside `path` and links it; where the file system
// knows no unnamed files or /proc is absent, and on network file systems, to a file with a random
// name that is linked and removed. Makes the folder. Readers with the old file open keep it. A
// killed writer leaves nothing, or at worst one ".tmp-" name, which the janitor removes. On failure
// nothing is published.
constexpr char kTempPrefix[] = ".tmp-";
absl::Status Publish(const StoreDirectory& dir, const std::string& path, const FileWriter& write,
                     PublishMode mode, bool sync);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_DIRECTORY_H_
