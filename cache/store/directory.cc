#include "cache/store/directory.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr char kVersionFolder[] = "v1";
constexpr mode_t kFolderMode = 0700;

absl::Status NotUsable(const absl::Status& status) {
  return absl::UnavailableError(status.message());
}

// "/a", "/a/b", "/a/b/c" of "/a/b/c"; the leading "/" alone is left out.
std::vector<std::string> Prefixes(const std::string& path) {
  std::vector<std::string> out;
  for (size_t i = 1; i <= path.size(); ++i) {
    if ((i == path.size() || path[i] == '/') && path[i - 1] != '/')
      out.push_back(path.substr(0, i));
  }
  return out;
}

// A folder above the root that anybody may write and that is not sticky lets anybody swap the root.
absl::Status CheckParent(FileOps* ops, const std::string& path) {
  Fd fd(ops, ops->OpenAt(AT_FDCWD, path.c_str(), O_PATH | O_DIRECTORY, 0));
  if (!fd.valid()) return NotUsable(ErrnoStatus(errno, "open", path));
  struct stat st;
  if (ops->Stat(fd.get(), &st) != 0) return NotUsable(ErrnoStatus(errno, "stat", path));
  if ((st.st_mode & S_IWOTH) != 0 && (st.st_mode & S_ISVTX) == 0) {
    return absl::PermissionDeniedError(absl::StrCat(path, ": world-writable and not sticky"));
  }
  return absl::OkStatus();
}

absl::Status MakeRoot(FileOps* ops, const std::string& root) {
  const std::vector<std::string> prefixes = Prefixes(root);
  for (size_t i = 0; i < prefixes.size(); ++i) {
    const std::string& prefix = prefixes[i];
    if (i + 1 < prefixes.size()) {
      const absl::Status parent = CheckParent(ops, prefix);
      if (parent.ok()) continue;
      if (absl::IsPermissionDenied(parent)) return parent;
    }
    struct stat st;
    if (ops->StatAt(AT_FDCWD, prefix.c_str(), &st) == 0) continue;  // opened, and judged, later
    if (ops->MkdirAt(AT_FDCWD, prefix.c_str(), kFolderMode) != 0 && errno != EEXIST) {
      return NotUsable(ErrnoStatus(errno, "mkdir", prefix));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Fd> OpenTrusted(FileOps* ops, int dir, const std::string& path, int flags) {
  Fd fd(ops, ops->OpenAt(dir, path.c_str(), O_RDONLY | O_DIRECTORY | flags, 0));
  if (!fd.valid()) return NotUsable(ErrnoStatus(errno, "open", path));
  struct stat st;
  if (ops->Stat(fd.get(), &st) != 0) return NotUsable(ErrnoStatus(errno, "stat", path));
  SINTER_RETURN_IF_ERROR(CheckOwner(st, path));
  return fd;
}

}  // namespace

absl::StatusOr<std::shared_ptr<const StoreDirectory>> StoreDirectory::Open(
    std::shared_ptr<FileOps> ops, const std::string& root) {
  if (root.empty() || root[0] != '/') {
    return absl::UnavailableError(
        absl::StrCat("cache folder \"", root, "\" is not an absolute path"));
  }
  SINTER_RETURN_IF_ERROR(MakeRoot(ops.get(), root));
  SINTER_ASSIGN_OR_RETURN(Fd root_fd, OpenTrusted(ops.get(), AT_FDCWD, root, 0));
  if (ops->MkdirAt(root_fd.get(), kVersionFolder, kFolderMode) != 0 && errno != EEXIST &&
      errno != EROFS && errno != EACCES) {
    return NotUsable(ErrnoStatus(errno, "mkdir", absl::StrCat(root, "/", kVersionFolder)));
  }
  SINTER_ASSIGN_OR_RETURN(Fd v1, OpenTrusted(ops.get(), root_fd.get(), kVersionFolder, O_NOFOLLOW));
  return std::shared_ptr<const StoreDirectory>(
      new StoreDirectory(std::move(ops), root, std::move(v1)));
}

namespace {

std::string PathOf(RecordKind kind, const Digest& digest, absl::string_view suffix) {
  const std::string hex = digest.Hex();
  return absl::StrCat(kind == RecordKind::kKernel ? "obj/" : "plan/", hex.substr(0, 2), "/",
                      hex.substr(2), suffix);
}

}  // namespace

std::string RecordPath(RecordKind kind, const Digest& digest) {
  return PathOf(kind, digest, ".ldb");
}

std::string TombstonePath(RecordKind kind, const Digest& digest) {
  return PathOf(kind, digest, ".bad");
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

absl::Status MakeFolders(const StoreDirectory& dir, const std::string& path) {
  if (dir.ops()->MkdirAt(dir.fd(), path.c_str(), kFolderMode) == 0 || errno == EEXIST) {
    return absl::OkStatus();
  }
  const int error = errno;
  const std::string parent = FolderOf(path);
  if (error != ENOENT || parent.empty()) return ErrnoStatus(error, "mkdir", path);
  SINTER_RETURN_IF_ERROR(MakeFolders(dir, parent));
  if (dir.ops()->MkdirAt(dir.fd(), path.c_str(), kFolderMode) == 0 || errno == EEXIST) {
    return absl::OkStatus();
  }
  return ErrnoStatus(errno, "mkdir", path);
}

}  // namespace sinter
