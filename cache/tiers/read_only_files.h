// ReadOnlyFiles: system calls that look and never change anything, as on a read-only file system.
#ifndef SINTER_CACHE_TIERS_READ_ONLY_FILES_H_
#define SINTER_CACHE_TIERS_READ_ONLY_FILES_H_

#include <memory>
#include <utility>

#include "cache/store/files.h"

namespace sinter {

// Everything that would change a file or a folder fails with EROFS before it reaches `below`.
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

}  // namespace sinter

#endif  // SINTER_CACHE_TIERS_READ_ONLY_FILES_H_
