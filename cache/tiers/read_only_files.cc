#include "cache/tiers/read_only_files.h"

#include <fcntl.h>

#include <cerrno>

namespace sinter {
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

}  // namespace sinter
