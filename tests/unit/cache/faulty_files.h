// File systems of tests: FaultyFiles fails, counts or delays chosen system calls of the real one,
// and a StringFile is one file in memory.
#pragma once

#include "cache/store/files.h"
#include "tests/support/common.h"

namespace sinter {
namespace cache_testing {

enum class FileCall {
  kOpen,
  kStat,
  kRead,
  kWrite,
  kSync,
  kLinkFd,
  kLinkAt,
  kRename,
  kUnlink,
  kMkdir,
  kRmdir,
  kTouch,
  kList,
  kFileSystem,
  kLock,
};

// A call that is about to be made.
struct AskedCall {
  FileCall kind;
  int flags = 0;     // of kOpen
  size_t bytes = 0;  // of kRead and kWrite; made less, the call takes less
  bool IsOpenOfUnnamed() const {
    return kind == FileCall::kOpen && (flags & O_TMPFILE) == O_TMPFILE;
  }
};

// Asks `fault` before each call for the error to fail it with; 0: the call is made. On the threads
// that make the calls.
class FaultyFiles : public FileOps {
 public:
  using Fault = std::function<int(AskedCall& call)>;
  explicit FaultyFiles(Fault fault) : fault_(std::move(fault)) {}

  int OpenAt(int d, const char* p, int f, mode_t m) override {
    return Fails({FileCall::kOpen, f}) ? -1 : FileOps::OpenAt(d, p, f, m);
  }
  int Stat(int fd, struct stat* out) override {
    return Fails({FileCall::kStat}) ? -1 : FileOps::Stat(fd, out);
  }
  int StatAt(int d, const char* p, struct stat* out) override {
    return Fails({FileCall::kStat}) ? -1 : FileOps::StatAt(d, p, out);
  }
  ssize_t PRead(int fd, void* to, size_t n, off_t at) override {
    AskedCall call{FileCall::kRead, 0, n};
    return Fails(call) ? -1 : FileOps::PRead(fd, to, call.bytes, at);
  }
  ssize_t Write(int fd, const void* from, size_t n) override {
    AskedCall call{FileCall::kWrite, 0, n};
    return Fails(call) ? -1 : FileOps::Write(fd, from, call.bytes);
  }
  int Sync(int fd) override { return Fails({FileCall::kSync}) ? -1 : FileOps::Sync(fd); }
  int LinkFd(int fd, int d, const char* p) override {
    return Fails({FileCall::kLinkFd}) ? -1 : FileOps::LinkFd(fd, d, p);
  }
  int LinkAt(int d, const char* a, const char* b) override {
    return Fails({FileCall::kLinkAt}) ? -1 : FileOps::LinkAt(d, a, b);
  }
  int RenameAt(int d, const char* a, const char* b, unsigned f) override {
    return Fails({FileCall::kRename}) ? -1 : FileOps::RenameAt(d, a, b, f);
  }
  int UnlinkAt(int d, const char* p) override {
    return Fails({FileCall::kUnlink}) ? -1 : FileOps::UnlinkAt(d, p);
  }
  int MkdirAt(int d, const char* p, mode_t m) override {
    return Fails({FileCall::kMkdir}) ? -1 : FileOps::MkdirAt(d, p, m);
  }
  int RmdirAt(int d, const char* p) override {
    return Fails({FileCall::kRmdir}) ? -1 : FileOps::RmdirAt(d, p);
  }
  int TouchAt(int d, const char* p) override {
    return Fails({FileCall::kTouch}) ? -1 : FileOps::TouchAt(d, p);
  }
  int List(int d, const char* p, std::vector<std::string>* names) override {
    return Fails({FileCall::kList}) ? -1 : FileOps::List(d, p, names);
  }
  int FileSystemType(int fd, int64_t* magic) override {
    return Fails({FileCall::kFileSystem}) ? -1 : FileOps::FileSystemType(fd, magic);
  }
  int LockByte(int fd, off_t at) override {
    return Fails({FileCall::kLock}) ? -1 : FileOps::LockByte(fd, at);
  }

 private:
  bool Fails(AskedCall&& call) { return Fails(call); }
  bool Fails(AskedCall& call) {
    const int error = fault_(call);
    if (error != 0) errno = error;
    return error != 0;
  }
  const Fault fault_;
};

// Calls of one kind get `fault`'s error.
inline std::shared_ptr<FaultyFiles> FilesWhose(FileCall kind, std::function<int()> fault) {
  return std::make_shared<FaultyFiles>([kind, fault = std::move(fault)](const AskedCall& call) {
    return call.kind == kind ? fault() : 0;
  });
}

// Serves `bytes` under every name, read-only, as owned by `uid`.
class StringFile : public FileOps {
 public:
  explicit StringFile(std::string b) : bytes(std::move(b)) {}
  int OpenAt(int, const char*, int, mode_t) override { return 1 << 20; }
  int Close(int) override { return 0; }
  int Stat(int, struct stat* out) override {
    *out = {};
    out->st_mode = S_IFREG | mode;
    out->st_uid = uid;
    out->st_size = static_cast<off_t>(bytes.size());
    return 0;
  }
  ssize_t PRead(int, void* to, size_t size, off_t offset) override {
    if (--good_reads < 0) {
      errno = error;
      return -1;
    }
    const auto at = static_cast<size_t>(offset);
    if (at >= bytes.size()) return 0;
    const size_t n = std::min({size, bytes.size() - at, most});
    std::memcpy(to, bytes.data() + at, n);
    return static_cast<ssize_t>(n);
  }
  std::string bytes;
  mode_t mode = 0444;
  uid_t uid = 0;
  size_t most = SIZE_MAX;    // bytes a read gives at most
  int good_reads = 1 << 30;  // later ones fail
  int error = EIO;           // of a read that fails
};

}  // namespace cache_testing
}  // namespace sinter
