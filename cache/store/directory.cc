#include "cache/store/directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr char kVersionFolder[] = "v1";
constexpr mode_t kFolderMode = 0700;
constexpr mode_t kRecordFileMode = 0600;

absl::Status NotUsable(const absl::Status& status) { return Unavailable(status.message()); }

// "/a", "/a/b", "/a/b/c" of "/a/b/c"; the leading "/" alone is left out.
std::vector<std::string> Prefixes(const std::string& path) {
  std::vector<std::string> out;
  for (size_t i = 1; i <= path.size(); ++i) {
    if ((i == path.size() || path[i] == '/') && path[i - 1] != '/')
      out.push_back(path.substr(0, i));
  }
  return out;
}

// A user who may write a folder above the root can replace the root. A sticky folder lets only an
// entry's owner replace the entry, and the next check is of that entry.
absl::Status CheckParentMode(const struct stat& st, absl::string_view path) {
  if ((st.st_mode & S_ISVTX) == 0) return CheckOwner(st, path);
  struct stat unwritable = st;
  unwritable.st_mode &= ~static_cast<mode_t>(S_IWGRP | S_IWOTH);
  return CheckOwner(unwritable, path);
}

absl::Status CheckParent(FileOps* ops, const std::string& path) {
  Fd fd(ops, ops->OpenAt(AT_FDCWD, path.c_str(), O_PATH | O_DIRECTORY, 0));
  if (!fd.valid()) return NotUsable(ErrnoStatus(errno, "open", path));
  struct stat st;
  if (ops->Stat(fd.get(), &st) != 0) return NotUsable(ErrnoStatus(errno, "stat", path));
  return CheckParentMode(st, path);
}

// Checks every folder that really lies above `dir`, wherever links in the path led.
absl::Status CheckAncestors(FileOps* ops, int dir, const std::string& root) {
  constexpr int kMaxDepth = 256;
  struct stat below;
  if (ops->Stat(dir, &below) != 0) return NotUsable(ErrnoStatus(errno, "stat", root));
  Fd here;
  std::string path = root;
  for (int depth = 0; depth < kMaxDepth; ++depth) {
    absl::StrAppend(&path, "/..");
    Fd up(ops, ops->OpenAt(here.valid() ? here.get() : dir, "..", O_PATH | O_DIRECTORY, 0));
    if (!up.valid()) return NotUsable(ErrnoStatus(errno, "open", path));
    struct stat st;
    if (ops->Stat(up.get(), &st) != 0) return NotUsable(ErrnoStatus(errno, "stat", path));
    if (st.st_ino == below.st_ino && st.st_dev == below.st_dev) return absl::OkStatus();
    SINTER_RETURN_IF_ERROR(CheckParentMode(st, path));
    below = st;
    here = std::move(up);
  }
  return Unavailable(root, ": more than ", kMaxDepth, " folders deep");
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
    if (ops->StatAt(AT_FDCWD, prefix.c_str(), &st) == 0) continue;  // opened and checked later
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

// Checks a folder below v1; OK when it does not exist.
absl::Status CheckBelow(FileOps* ops, int v1, const std::string& path) {
  const Fd fd(ops, ops->OpenAt(v1, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0));
  if (!fd.valid() && errno == ENOENT) return absl::OkStatus();
  const std::string shown = absl::StrCat(kVersionFolder, "/", path);
  if (!fd.valid() && (errno == ELOOP || errno == ENOTDIR)) {
    return PermissionDenied(shown, ": is a link, or no folder");
  }
  if (!fd.valid()) return NotUsable(ErrnoStatus(errno, "open", shown));
  struct stat st;
  if (ops->Stat(fd.get(), &st) != 0) return NotUsable(ErrnoStatus(errno, "stat", shown));
  return CheckOwner(st, shown);
}

constexpr const char* kTopFolders[] = {"obj", "plan", kBadFolder, "db"};

bool IsFanName(const std::string& name) {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return name.size() == 2 && is_hex(name[0]) && is_hex(name[1]);
}

absl::Status CheckFanOut(const StoreDirectory& dir, const std::string& top) {
  std::vector<std::string> fans;
  if (dir.ops()->List(dir.fd(), top.c_str(), &fans) != 0) {
    return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "list", top);
  }
  for (const std::string& fan : fans) {
    const std::string path = absl::StrCat(top, "/", fan);
    if (!IsFanName(fan)) {
      return FailedPrecondition(dir.root(), "/", kVersionFolder, "/", path,
                                " is not of this library");
    }
    SINTER_RETURN_IF_ERROR(CheckBelow(dir.ops(), dir.fd(), path));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOurs(const StoreDirectory& dir) {
  std::vector<std::string> names;
  if (dir.ops()->List(dir.fd(), ".", &names) != 0) return ErrnoStatus(errno, "list", dir.root());
  for (const std::string& name : names) {
    const bool folder =
        std::find(std::begin(kTopFolders), std::end(kTopFolders), name) != std::end(kTopFolders);
    if (folder) {
      SINTER_RETURN_IF_ERROR(CheckBelow(dir.ops(), dir.fd(), name));
    } else if (name != kLocksPath && name != "db.lock") {
      return FailedPrecondition(dir.root(), "/", kVersionFolder, "/", name,
                                " is not of this library");
    }
  }
  SINTER_RETURN_IF_ERROR(CheckFanOut(dir, TopFolder(RecordKind::kPlan)));
  return CheckFanOut(dir, TopFolder(RecordKind::kKernel));
}

absl::StatusOr<std::shared_ptr<const StoreDirectory>> StoreDirectory::Open(
    std::shared_ptr<FileOps> ops, const DirectoryOptions& wanted) {
  DirectoryOptions options = wanted;
  const std::string& root = options.root;
  if (root.empty() || root[0] != '/') {
    return Unavailable("cache folder \"", root, "\" is not an absolute path");
  }
  if (options.lock_folders.empty()) {
    options.lock_folders = {absl::StrCat("/run/user/", geteuid()), "/dev/shm"};
  }
  SINTER_RETURN_IF_ERROR(MakeRoot(ops.get(), root));
  SINTER_ASSIGN_OR_RETURN(Fd root_fd, OpenTrusted(ops.get(), AT_FDCWD, root, 0));
  SINTER_RETURN_IF_ERROR(CheckAncestors(ops.get(), root_fd.get(), root));
  if (ops->MkdirAt(root_fd.get(), kVersionFolder, kFolderMode) != 0 && errno != EEXIST &&
      errno != EROFS && errno != EACCES) {
    return NotUsable(ErrnoStatus(errno, "mkdir", absl::StrCat(root, "/", kVersionFolder)));
  }
  SINTER_ASSIGN_OR_RETURN(Fd v1, OpenTrusted(ops.get(), root_fd.get(), kVersionFolder, O_NOFOLLOW));
  for (const char* folder : kTopFolders) {
    SINTER_RETURN_IF_ERROR(CheckBelow(ops.get(), v1.get(), folder));
  }
  int64_t magic = 0;
  const bool on_network = ops->FileSystemType(v1.get(), &magic) == 0 && IsNetworkFileSystem(magic);
  return std::shared_ptr<const StoreDirectory>(
      new StoreDirectory(std::move(ops), std::move(options), std::move(v1), on_network));
}

const char* TopFolder(RecordKind kind) { return kind == RecordKind::kKernel ? "obj" : "plan"; }

namespace {

std::string PathOf(RecordKind kind, const Digest& digest, absl::string_view suffix) {
  const std::string hex = digest.Hex();
  return absl::StrCat(TopFolder(kind), "/", hex.substr(0, 2), "/", hex.substr(2), suffix);
}

absl::StatusOr<std::vector<std::string>> ListFanOut(const StoreDirectory& dir, RecordKind kind) {
  const std::string top = TopFolder(kind);
  std::vector<std::string> folders, paths;
  if (dir.ops()->List(dir.fd(), top.c_str(), &folders) != 0) return ErrnoStatus(errno, "list", top);
  for (const std::string& fan : folders) {
    const std::string folder = absl::StrCat(top, "/", fan);
    std::vector<std::string> names;
    (void)dir.ops()->List(dir.fd(), folder.c_str(), &names);
    for (const std::string& name : names) paths.push_back(absl::StrCat(folder, "/", name));
  }
  return paths;
}

}  // namespace

absl::Status ForEachFile(
    const StoreDirectory& dir,
    const std::function<absl::Status(RecordKind kind, const std::string& path)>& visit) {
  absl::Status unlisted;
  for (const RecordKind kind : {RecordKind::kPlan, RecordKind::kKernel}) {
    const auto paths = ListFanOut(dir, kind);
    if (!absl::IsNotFound(paths.status())) unlisted.Update(paths.status());
    if (!paths.ok()) continue;
    for (const std::string& path : *paths) SINTER_RETURN_IF_ERROR(visit(kind, path));
  }
  return unlisted;
}

bool DigestOfPath(const std::string& path, absl::string_view suffix, Digest* digest) {
  absl::string_view name = path;
  if (!absl::EndsWith(name, suffix)) return false;
  name.remove_suffix(suffix.size());
  const size_t slash = name.rfind('/');
  if (slash == absl::string_view::npos || slash < 2) return false;
  auto parsed = Digest::FromHex(absl::StrCat(name.substr(slash - 2, 2), name.substr(slash + 1)));
  if (!parsed.ok()) return false;
  *digest = *parsed;
  return true;
}

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

namespace {

absl::StatusOr<std::string> TempPath(const std::string& folder) {
  const std::string name = RandomName();
  if (name.empty()) return Unavailable("no random source for a file name");
  return absl::StrCat(folder, "/", kTempPrefix, name);
}

// A network file system may make the link, lose the answer, try again and report a failure. The
// file's link count tells.
bool WasLinked(const StoreDirectory& dir, int fd) {
  struct stat st;
  return dir.ops()->Stat(fd, &st) == 0 && st.st_nlink == 2;
}

// Gives the finished temporary file `temp`, open as `fd`, its name. Afterwards `temp` is gone, in
// any case.
absl::Status MoveIntoPlace(const StoreDirectory& dir, int fd, const std::string& temp,
                           const std::string& path, PublishMode mode) {
  if (mode == PublishMode::kReplace) {
    if (dir.ops()->RenameAt(dir.fd(), temp.c_str(), path.c_str(), 0) == 0) return absl::OkStatus();
  } else if (dir.ops()->LinkAt(dir.fd(), temp.c_str(), path.c_str()) == 0) {
    dir.ops()->UnlinkAt(dir.fd(), temp.c_str());
    return absl::OkStatus();
  }
  const int error = errno;
  const bool linked = mode == PublishMode::kNew && error == EEXIST && WasLinked(dir, fd);
  dir.ops()->UnlinkAt(dir.fd(), temp.c_str());
  return linked ? absl::OkStatus() : ErrnoStatus(error, "name", path);
}

absl::Status Fill(const StoreDirectory& dir, int fd, const std::string& path,
                  const FileWriter& write, bool sync) {
  SINTER_RETURN_IF_ERROR(write(fd));
  if (sync && dir.ops()->Sync(fd) != 0) return ErrnoStatus(errno, "sync", path);
  return absl::OkStatus();
}

absl::Status PublishNamed(const StoreDirectory& dir, const std::string& path,
                          const FileWriter& write, PublishMode mode, bool sync) {
  SINTER_RETURN_IF_ERROR(MakeFolders(dir, FolderOf(path)));
  SINTER_ASSIGN_OR_RETURN(const std::string temp, TempPath(FolderOf(path)));
  Fd fd(dir.ops(), dir.ops()->OpenAt(dir.fd(), temp.c_str(),
                                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, kRecordFileMode));
  if (!fd.valid()) return ErrnoStatus(errno, "create", temp);
  const absl::Status written = Fill(dir, fd.get(), temp, write, sync);
  if (!written.ok()) {
    dir.ops()->UnlinkAt(dir.fd(), temp.c_str());
    return written;
  }
  return MoveIntoPlace(dir, fd.get(), temp, path, mode);
}

// OK, ALREADY_EXISTS, or NOT_FOUND when linking by /proc does not work here.
absl::Status LinkUnnamed(const StoreDirectory& dir, int fd, const std::string& path,
                         PublishMode mode) {
  if (mode == PublishMode::kNew) {
    if (dir.ops()->LinkFd(fd, dir.fd(), path.c_str()) == 0) return absl::OkStatus();
    return ErrnoStatus(errno, "link", path);
  }
  SINTER_ASSIGN_OR_RETURN(const std::string temp, TempPath(FolderOf(path)));
  if (dir.ops()->LinkFd(fd, dir.fd(), temp.c_str()) != 0) return ErrnoStatus(errno, "link", temp);
  return MoveIntoPlace(dir, fd, temp, path, mode);
}

bool NoUnnamedFiles(int error) {
  return error == EOPNOTSUPP || error == EISDIR || error == EINVAL || error == ENOSYS;
}

}  // namespace

absl::Status Publish(const StoreDirectory& dir, const std::string& path, const FileWriter& write,
                     PublishMode mode, bool sync) {
  if (dir.on_network()) return PublishNamed(dir, path, write, mode, sync);
  const std::string folder = FolderOf(path);
  const auto create = [&] {
    const int flags = O_WRONLY | O_TMPFILE;
    return Fd(dir.ops(), dir.ops()->OpenAt(dir.fd(), folder.c_str(), flags, kRecordFileMode));
  };
  Fd fd = create();
  if (!fd.valid() && errno == ENOENT) {  // most often the folder exists
    SINTER_RETURN_IF_ERROR(MakeFolders(dir, folder));
    fd = create();
  }
  if (!fd.valid()) {
    const int error = errno;
    if (NoUnnamedFiles(error)) return PublishNamed(dir, path, write, mode, sync);
    return ErrnoStatus(error, "create in", folder);
  }
  SINTER_RETURN_IF_ERROR(Fill(dir, fd.get(), path, write, sync));
  const absl::Status linked = LinkUnnamed(dir, fd.get(), path, mode);
  if (absl::IsNotFound(linked)) return PublishNamed(dir, path, write, mode, sync);
  return linked;
}

}  // namespace sinter
