// The store's only access to the file system: one class of system calls, so that tests can make
// each of them fail, and small helpers on top. Nothing is mapped: if a file shrinks while it is
// read, that must be an error and not a signal.
#ifndef SINTER_CACHE_STORE_FILES_H_
#define SINTER_CACHE_STORE_FILES_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "src/base/codec.h"

namespace sinter {

// Plain system calls: -1 and errno on failure. Thread-safe. Descriptors are always close-on-exec.
// Below a folder's descriptor, no call that opens or changes something follows a link, and only
// OpenAt can leave the folder, by the path "..", its parent. A call that changes something opens
// each folder on the way and refuses one that somebody else may write (EACCES). List and StatAt
// change nothing, and a link in the middle of StatAt's path is followed.
class FileOps {
 public:
  virtual ~FileOps() = default;
  virtual int OpenAt(int dir, const char* path, int flags, mode_t mode);
  virtual int Close(int fd);
  virtual int Stat(int fd, struct stat* out);
  virtual int StatAt(int dir, const char* path, struct stat* out);  // never follows a link
  virtual ssize_t PRead(int fd, void* to, size_t size, off_t offset);
  virtual ssize_t Write(int fd, const void* from, size_t size);
  virtual int Sync(int fd);
  virtual int LinkFd(int fd, int dir,
                     const char* path);  // gives an unnamed file a name; never replaces a file
  virtual int LinkAt(int dir, const char* from, const char* to);  // adds a name; never replaces
  virtual int RenameAt(int dir, const char* from, const char* to, unsigned flags);
  virtual int UnlinkAt(int dir, const char* path);
  virtual int MkdirAt(int dir, const char* path, mode_t mode);
  virtual int RmdirAt(int dir, const char* path);
  virtual int TouchAt(int dir, const char* path);  // sets the modification time to now
  // The names in a folder, without "." and "..", in no order.
  virtual int List(int dir, const char* path, std::vector<std::string>* names);
  virtual int FileSystemType(int fd, int64_t* magic);
  // One byte of an open-file-description lock. Taking it fails with EAGAIN when it is held.
  virtual int LockByte(int fd, off_t offset);
  virtual int UnlockByte(int fd, off_t offset);
};

// System calls that only look, as on a read-only file system. Calls that would change a file or a
// folder fail with EROFS and do not reach `below`.
class ReadOnlyFiles : public FileOps {
 public:
  explicit ReadOnlyFiles(std::shared_ptr<FileOps> below) : below_(std::move(below)) {}
  int OpenAt(int dir, const char* path, int flags, mode_t mode) override;
  int Close(int fd) override { return below_->Close(fd); }
  int Stat(int fd, struct stat* out) override { return below_->Stat(fd, out); }
  int StatAt(int dir, const char* path, struct stat* out) override {
    return below_->StatAt(dir, path, out);
  }
  ssize_t PRead(int fd, void* to, size_t size, off_t offset) override {
    return below_->PRead(fd, to, size, offset);
  }
  int List(int dir, const char* path, std::vector<std::string>* names) override {
    return below_->List(dir, path, names);
  }
  int FileSystemType(int fd, int64_t* magic) override { return below_->FileSystemType(fd, magic); }
  ssize_t Write(int, const void*, size_t) override;
  int Sync(int) override;
  int LinkFd(int, int, const char*) override;
  int LinkAt(int, const char*, const char*) override;
  int RenameAt(int, const char*, const char*, unsigned) override;
  int UnlinkAt(int, const char*) override;
  int MkdirAt(int, const char*, mode_t) override;
  int RmdirAt(int, const char*) override;
  int TouchAt(int, const char*) override;
  int LockByte(int, off_t) override;

 private:
  std::shared_ptr<FileOps> below_;
};

// Owns one descriptor of `ops`.
class Fd {
 public:
  Fd() = default;
  Fd(FileOps* ops, int fd) : ops_(ops), fd_(fd) {}
  Fd(Fd&& o) noexcept : ops_(o.ops_), fd_(o.fd_) { o.fd_ = -1; }
  Fd& operator=(Fd&& o) noexcept;
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  FileOps* ops_ = nullptr;
  int fd_ = -1;
};

// errno as a status: NOT_FOUND for ENOENT, ENOTDIR and ESTALE, ALREADY_EXISTS for EEXIST,
// UNAVAILABLE else. "op path: cause".
absl::Status ErrnoStatus(int error, absl::string_view op, absl::string_view path);

// OK for a file that can be trusted: owned by this process's effective user or root, and writable
// by neither group nor others. PERMISSION_DENIED naming `path` otherwise.
absl::Status CheckOwner(const struct stat& st, absl::string_view path);

// The bytes of one file, and its identity when it was opened.
struct FileBytes {
  SharedBytes bytes;
  struct stat st {};
};

// Reads `path` below `dir`. NOT_FOUND, PERMISSION_DENIED (owner, mode, not a regular file, a
// symlink), DATA_LOSS (empty, above `max_bytes`, shorter than its size), UNAVAILABLE (the system
// call failed).
absl::StatusOr<FileBytes> ReadWholeFile(FileOps* ops, int dir, const std::string& path,
                                        uint64_t max_bytes);

// Reads up to `size` bytes at `offset`; fewer only at the end of the file. Returns how many; -1
// with errno.
ssize_t PReadAll(FileOps* ops, int fd, uint64_t offset, char* to, size_t size);

// Reads `size` bytes from `offset`. DATA_LOSS when the file ends before; UNAVAILABLE and the like
// when the system call failed. `path` is for messages. May throw bad_alloc.
absl::StatusOr<SharedBytes> ReadExactly(FileOps* ops, int fd, uint64_t offset, size_t size,
                                        absl::string_view path);

// Writes all of `bytes`, however the kernel splits it; `sync` waits for the disk.
absl::Status WriteAll(FileOps* ops, int fd, absl::string_view bytes, bool sync,
                      absl::string_view path);

// Whether `magic` is a file system shared over a network, where locks and clocks are not this
// host's.
bool IsNetworkFileSystem(int64_t magic);

// 32 hex digits from the kernel's random source; "" if there is none.
std::string RandomName();

}  // namespace sinter

#endif  // SINTER_CACHE_STORE_FILES_H_
