#include "cache/store/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/base/transfer.h"

namespace sinter {
namespace {

// Lets the kernel resolve the path and refuse links in it. Kernels before 5.6 and some sandboxes
// lack the call: ENOSYS or EPERM.
int OpenBeneath(int dir, const char* path, int flags, mode_t mode) {
  struct open_how how {};
  how.flags = static_cast<uint64_t>(flags);
  how.mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE ? mode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS;
  return static_cast<int>(syscall(SYS_openat2, dir, path, &how, sizeof(how)));
}

class OwnFd {
 public:
  explicit OwnFd(int fd) : fd_(fd) {}
  ~OwnFd() {
    const int error = errno;  // errno of the operation, which close must not change
    if (fd_ >= 0) close(fd_);
    errno = error;
  }
  OwnFd(const OwnFd&) = delete;
  OwnFd& operator=(const OwnFd&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

constexpr int kFolderFlags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Opens a folder; ELOOP for a link.
int OpenRealFolder(int dir, const char* name) {
  const int fd = openat(dir, name, kFolderFlags);
  struct stat st;
  if (fd >= 0 || errno != ENOTDIR) return fd;
  const bool link = fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode);
  errno = link ? ELOOP : ENOTDIR;
  return -1;
}

// The same for a folder in which something is to change: EACCES if somebody else may write it.
int OpenJudged(int dir, const char* name) {
  const int fd = OpenRealFolder(dir, name);
  struct stat st;
  if (fd < 0 || (fstat(fd, &st) == 0 && CheckOwner(st, name).ok())) return fd;
  close(fd);
  errno = EACCES;
  return -1;
}

// Calls `act(folder, name)` with the last name of `path` and the folder that holds it. The folder
// is opened name by name below `dir`, without following links, and checked if something in it is to
// change. A path that is not below a descriptor is the caller's own and is used as given. Returns
// what `act` returns, or -1 with errno.
template <typename Act>
int InFolder(int dir, const char* path, bool changes, const Act& act) {
  if (dir == AT_FDCWD || path[0] == '/') return act(dir, path);
  const char* slash = strchr(path, '/');
  if (slash == nullptr) return act(dir, path);
  const std::string first(path, slash);
  if (first.empty() || first == "." || first == "..") {
    errno = EINVAL;
    return -1;
  }
  const OwnFd folder(changes ? OpenJudged(dir, first.c_str()) : OpenRealFolder(dir, first.c_str()));
  return folder.get() < 0 ? -1 : InFolder(folder.get(), slash + 1, changes, act);
}

struct flock ByteRange(int16_t type, off_t offset) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = offset;
  range.l_len = 1;
  return range;
}

}  // namespace

int FileOps::OpenAt(int dir, const char* path, int flags, mode_t mode) {
  flags |= O_CLOEXEC;
  if (dir == AT_FDCWD || path[0] == '/' || strcmp(path, "..") == 0) {
    return openat(dir, path, flags, mode);
  }
  const bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & O_CREAT) != 0;
  if (!writes) {
    const int fd = OpenBeneath(dir, path, flags, mode);
    if (fd >= 0 || (errno != ENOSYS && errno != EPERM && errno != EAGAIN)) return fd;
  }
  // The last name may not be a link either, unless O_PATH asks for the link itself.
  const int last = flags | ((flags & O_PATH) != 0 ? 0 : O_NOFOLLOW);
  return InFolder(dir, path, writes, [&](int folder, const char* name) {
    if ((flags & O_TMPFILE) != O_TMPFILE) return openat(folder, name, last, mode);
    const OwnFd made_in(OpenJudged(folder, name));  // for an unnamed file the path is the folder
    return made_in.get() < 0 ? -1 : openat(made_in.get(), ".", flags, mode);
  });
}
int FileOps::Close(int fd) { return close(fd); }
int FileOps::Stat(int fd, struct stat* out) { return fstat(fd, out); }
int FileOps::StatAt(int dir, const char* path, struct stat* out) {
  return fstatat(dir, path, out, AT_SYMLINK_NOFOLLOW);
}
ssize_t FileOps::PRead(int fd, void* to, size_t size, off_t offset) {
  return pread(fd, to, size, offset);
}
ssize_t FileOps::Write(int fd, const void* from, size_t size) { return write(fd, from, size); }
int FileOps::Sync(int fd) { return fdatasync(fd); }
int FileOps::LinkFd(int fd, int dir, const char* path) {
  const std::string self = absl::StrCat("/proc/self/fd/", fd);
  return InFolder(dir, path, true, [&](int folder, const char* name) {
    return linkat(AT_FDCWD, self.c_str(), folder, name, AT_SYMLINK_FOLLOW);
  });
}
int FileOps::LinkAt(int dir, const char* from, const char* to) {
  return InFolder(dir, from, true, [&](int from_folder, const char* from_name) {
    return InFolder(dir, to, true, [&](int to_folder, const char* to_name) {
      return linkat(from_folder, from_name, to_folder, to_name, 0);
    });
  });
}
int FileOps::RenameAt(int dir, const char* from, const char* to, unsigned flags) {
  return InFolder(dir, from, true, [&](int from_folder, const char* from_name) {
    return InFolder(dir, to, true, [&](int to_folder, const char* to_name) {
      if (flags == 0) return renameat(from_folder, from_name, to_folder, to_name);
      return static_cast<int>(
          syscall(SYS_renameat2, from_folder, from_name, to_folder, to_name, flags));
    });
  });
}
int FileOps::UnlinkAt(int dir, const char* path) {
  return InFolder(dir, path, true,
                  [](int folder, const char* name) { return unlinkat(folder, name, 0); });
}
int FileOps::MkdirAt(int dir, const char* path, mode_t mode) {
  return InFolder(dir, path, true,
                  [&](int folder, const char* name) { return mkdirat(folder, name, mode); });
}
int FileOps::RmdirAt(int dir, const char* path) {
  return InFolder(dir, path, true, [](int folder, const char* name) {
    return unlinkat(folder, name, AT_REMOVEDIR);
  });
}
int FileOps::TouchAt(int dir, const char* path) {
  const struct timespec times[2] = {{0, UTIME_OMIT}, {0, UTIME_NOW}};
  return InFolder(dir, path, true, [&](int folder, const char* name) {
    return utimensat(folder, name, times, AT_SYMLINK_NOFOLLOW);
  });
}
int FileOps::List(int dir, const char* path, std::vector<std::string>* names) {
  const int fd = OpenAt(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
  if (fd < 0) return -1;
  DIR* opened = fdopendir(fd);
  if (opened == nullptr) {
    close(fd);
    return -1;
  }
  int error = 0;
  {
    const std::unique_ptr<DIR, int (*)(DIR*)> listing(opened, closedir);  // a name may not fit
    errno = 0;
    while (const dirent* entry = readdir(listing.get())) {
      const absl::string_view name = entry->d_name;
      if (name != "." && name != "..") names->emplace_back(name);
      errno = 0;
    }
    error = errno;
  }
  errno = error;
  return error == 0 ? 0 : -1;
}
int FileOps::FileSystemType(int fd, int64_t* magic) {
  struct statfs fs;
  if (fstatfs(fd, &fs) != 0) return -1;
  *magic = static_cast<int64_t>(fs.f_type);
  return 0;
}
int FileOps::LockByte(int fd, off_t offset) {
  struct flock range = ByteRange(F_WRLCK, offset);
  const int rc = fcntl(fd, F_OFD_SETLK, &range);
  if (rc != 0 && errno == EACCES) errno = EAGAIN;
  return rc;
}
int FileOps::UnlockByte(int fd, off_t offset) {
  struct flock range = ByteRange(F_UNLCK, offset);
  return fcntl(fd, F_OFD_SETLK, &range);
}

namespace {

int Refuse() {
  errno = EROFS;
  return -1;
}

}  // namespace

int ReadOnlyFiles::OpenAt(int dir, const char* path, int flags, mode_t mode) {
  const bool writes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
  return writes ? Refuse() : below_->OpenAt(dir, path, flags, mode);
}
ssize_t ReadOnlyFiles::Write(int, const void*, size_t) { return Refuse(); }
int ReadOnlyFiles::Sync(int) { return Refuse(); }
int ReadOnlyFiles::LinkFd(int, int, const char*) { return Refuse(); }
int ReadOnlyFiles::LinkAt(int, const char*, const char*) { return Refuse(); }
int ReadOnlyFiles::RenameAt(int, const char*, const char*, unsigned) { return Refuse(); }
int ReadOnlyFiles::UnlinkAt(int, const char*) { return Refuse(); }
int ReadOnlyFiles::MkdirAt(int, const char*, mode_t) { return Refuse(); }
int ReadOnlyFiles::RmdirAt(int, const char*) { return Refuse(); }
int ReadOnlyFiles::TouchAt(int, const char*) { return Refuse(); }
int ReadOnlyFiles::LockByte(int, off_t) { return Refuse(); }

Fd& Fd::operator=(Fd&& o) noexcept {
  if (this != &o) {
    if (fd_ >= 0) ops_->Close(fd_);
    ops_ = o.ops_;
    fd_ = o.fd_;
    o.fd_ = -1;
  }
  return *this;
}

Fd::~Fd() {
  if (fd_ >= 0) ops_->Close(fd_);
}

absl::Status ErrnoStatus(int error, absl::string_view op, absl::string_view path) {
  const std::string text = absl::StrCat(op, " ", path, ": ", strerror(error));
  if (error == ENOENT || error == ENOTDIR || error == ESTALE) return NotFound(text);
  if (error == EEXIST) return absl::AlreadyExistsError(text);
  return Unavailable(text);
}

absl::Status CheckOwner(const struct stat& st, absl::string_view path) {
  if (st.st_uid != geteuid() && st.st_uid != 0) {
    return PermissionDenied(path, ": owner is user ", st.st_uid, ", not user ", geteuid());
  }
  if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return PermissionDenied(path, ": writable by group or others");
  }
  return absl::OkStatus();
}

namespace {

absl::Status CheckFile(const struct stat& st, const std::string& path, uint64_t max_bytes) {
  if (!S_ISREG(st.st_mode)) return PermissionDenied(path, ": not a regular file");
  SINTER_RETURN_IF_ERROR(CheckOwner(st, path));
  const auto size = static_cast<uint64_t>(st.st_size);
  if (size == 0 || size > max_bytes) {
    return DataLoss(path, ": ", size, " bytes, allowed 1..", max_bytes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SharedBytes> ReadExactly(FileOps* ops, int fd, uint64_t offset, size_t size,
                                        absl::string_view path) {
  // Not zeroed: the bytes are used only if all of them were read.
  const std::shared_ptr<char[]> bytes(new char[size]);
  const ssize_t got = PReadAll(ops, fd, offset, bytes.get(), size);
  if (got < 0) return ErrnoStatus(errno, "read", path);
  if (static_cast<size_t>(got) < size) {
    return DataLoss(path, ": ended at ", offset + static_cast<size_t>(got), " of ", offset + size);
  }
  return SharedBytes(bytes, absl::string_view(bytes.get(), size));
}

ssize_t PReadAll(FileOps* ops, int fd, uint64_t offset, char* to, size_t size) {
  return TransferAll(size, [&](size_t done, size_t left) {
    return ops->PRead(fd, to + done, left, static_cast<off_t>(offset + done));
  });
}

absl::StatusOr<FileBytes> ReadWholeFile(FileOps* ops, int dir, const std::string& path,
                                        uint64_t max_bytes) {
  // O_NONBLOCK: a planted fifo must not hang the open; regular files ignore it.
  Fd fd(ops, ops->OpenAt(dir, path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0));
  if (!fd.valid()) {
    if (errno == ELOOP) return PermissionDenied(path, ": is a symlink");
    return ErrnoStatus(errno, "open", path);
  }
  FileBytes file;
  if (ops->Stat(fd.get(), &file.st) != 0) return ErrnoStatus(errno, "stat", path);
  SINTER_RETURN_IF_ERROR(CheckFile(file.st, path, max_bytes));
  SINTER_ASSIGN_OR_RETURN(
      file.bytes, ReadExactly(ops, fd.get(), 0, static_cast<size_t>(file.st.st_size), path));
  return file;
}

absl::Status WriteAll(FileOps* ops, int fd, absl::string_view bytes, bool sync,
                      absl::string_view path) {
  const FileSizeSignal none;
  const ssize_t put = TransferAll(bytes.size(), [&](size_t done, size_t left) {
    return ops->Write(fd, bytes.data() + done, left);
  });
  if (put < 0) return ErrnoStatus(errno, "write", path);
  if (static_cast<size_t>(put) < bytes.size()) {
    return Unavailable("write ", path, ": nothing was taken");
  }
  if (sync && ops->Sync(fd) != 0) return ErrnoStatus(errno, "sync", path);
  return absl::OkStatus();
}

bool IsNetworkFileSystem(int64_t magic) {
  // NFS, SMB, CIFS, SMB2, Lustre, GPFS, CephFS, 9P, AFS, CODA, OCFS2, FUSE (which may be any).
  constexpr uint32_t kMagics[] = {0x6969,     0x517b,     0xff534d42, 0xfe534d42,
                                  0x0bd00bd0, 0x47504653, 0x00c36400, 0x01021997,
                                  0x5346414f, 0x73757245, 0x7461636f, 0x65735546};
  for (const uint32_t known : kMagics) {
    if (static_cast<uint32_t>(magic) == known) return true;
  }
  return false;
}

std::string RandomName() {
  char raw[16];
  const ssize_t got = TransferAll(
      sizeof(raw), [&](size_t done, size_t left) { return getrandom(raw + done, left, 0); });
  if (got != ssize_t{sizeof(raw)}) return std::string();
  return absl::BytesToHexString(absl::string_view(raw, sizeof(raw)));
}

}  // namespace sinter
