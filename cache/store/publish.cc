#include "cache/store/publish.h"

#include <fcntl.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr mode_t kFileMode = 0600;

absl::StatusOr<std::string> TempPath(const std::string& folder) {
  const std::string name = RandomName();
  if (name.empty()) return absl::UnavailableError("no random source for a file name");
  return absl::StrCat(folder, "/", kTempPrefix, name);
}

// A network file system may do what was asked, lose the answer, ask again and report a failure. The
// count of names tells.
bool WasLinked(const StoreDirectory& dir, int fd) {
  struct stat st;
  return dir.ops()->Stat(fd, &st) == 0 && st.st_nlink == 2;
}

// Gives the finished temp file `temp`, open as `fd`, its name. `temp` is gone afterwards, whatever
// happens.
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

absl::Status PublishNamed(const StoreDirectory& dir, const std::string& path,
                          absl::string_view bytes, PublishMode mode, bool sync) {
  SINTER_RETURN_IF_ERROR(MakeFolders(dir, FolderOf(path)));
  SINTER_ASSIGN_OR_RETURN(const std::string temp, TempPath(FolderOf(path)));
  Fd fd(dir.ops(), dir.ops()->OpenAt(dir.fd(), temp.c_str(),
                                     O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, kFileMode));
  if (!fd.valid()) return ErrnoStatus(errno, "create", temp);
  const absl::Status written = WriteAll(dir.ops(), fd.get(), bytes, sync, temp);
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

absl::Status Publish(const StoreDirectory& dir, const std::string& path, absl::string_view bytes,
                     PublishMode mode, bool sync) {
  if (dir.on_network()) return PublishNamed(dir, path, bytes, mode, sync);
  const std::string folder = FolderOf(path);
  const auto create = [&] {
    const int flags = O_WRONLY | O_TMPFILE;
    return Fd(dir.ops(), dir.ops()->OpenAt(dir.fd(), folder.c_str(), flags, kFileMode));
  };
  Fd fd = create();
  if (!fd.valid() && errno == ENOENT) {  // most often it is there
    SINTER_RETURN_IF_ERROR(MakeFolders(dir, folder));
    fd = create();
  }
  if (!fd.valid()) {
    const int error = errno;
    if (NoUnnamedFiles(error)) return PublishNamed(dir, path, bytes, mode, sync);
    return ErrnoStatus(error, "create in", folder);
  }
  SINTER_RETURN_IF_ERROR(WriteAll(dir.ops(), fd.get(), bytes, sync, path));
  const absl::Status linked = LinkUnnamed(dir, fd.get(), path, mode);
  if (absl::IsNotFound(linked)) return PublishNamed(dir, path, bytes, mode, sync);
  return linked;
}

}  // namespace sinter
