// The folder of the local tier: opened by descriptor, checked for who may write it, and the names
// inside it.
//
//   <root>/v1/obj/<2 hex>/<62 hex>.ldb   one kernel record; .bad beside it: quarantined, holds the
//   reason <root>/v1/plan/<2 hex>/<62 hex>.ldb  one plan record; .bad likewise <root>/v1/locks 0
//   bytes; byte ranges are single-flight locks <root>/v1/bad/                       damaged and
//   quarantined files, bounded
#ifndef SINTER_CACHE_STORE_DIRECTORY_H_
#define SINTER_CACHE_STORE_DIRECTORY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "cache/store/files.h"
#include "src/base/digest.h"
#include "src/base/ports.h"

namespace sinter {

// Immutable, thread-safe. Keeps pointing at the same folder if its path is renamed or removed.
class StoreDirectory {
 public:
  // Creates what is missing with mode 0700. PERMISSION_DENIED when somebody else could have written
  // the folder: its owner is neither we nor root, group or others may write it, or a folder above
  // it is world-writable and not sticky. UNAVAILABLE when it cannot be made or opened.
  static absl::StatusOr<std::shared_ptr<const StoreDirectory>> Open(std::shared_ptr<FileOps> ops,
                                                                    const std::string& root);

  FileOps* ops() const { return ops_.get(); }
  int fd() const { return v1_.get(); }  // of <root>/v1; all paths below are relative to it
  const std::string& root() const { return root_; }

 private:
  StoreDirectory(std::shared_ptr<FileOps> ops, std::string root, Fd v1)
      : ops_(std::move(ops)), root_(std::move(root)), v1_(std::move(v1)) {}

  std::shared_ptr<FileOps> ops_;
  std::string root_;
  Fd v1_;
};

// "obj/ab/cdef....ldb" or "plan/...". Only hex that we made reaches a path.
std::string RecordPath(RecordKind kind, const Digest& digest);
std::string TombstonePath(RecordKind kind, const Digest& digest);
std::string FolderOf(const std::string& path);  // "obj/ab"
constexpr char kLocksPath[] = "locks";
constexpr char kBadFolder[] = "bad";

// Makes `path` (one or more levels below v1), mode 0700. OK when it is there.
absl::Status MakeFolders(const StoreDirectory& dir, const std::string& path);

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_DIRECTORY_H_
