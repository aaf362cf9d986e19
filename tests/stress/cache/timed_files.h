// What the time of a store goes into: system calls that add what each takes to parts that processes
// share.
#pragma once

#include "cache/store/files.h"
#include "tests/support/common.h"

namespace sinter {

inline double ThreadCpuMs() {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

enum Part { kCreate, kWrite, kLink, kFolders, kOpen, kRead, kLocks, kParts };
constexpr const char* kPartNames[kParts] = {"create", "write", "link", "folders",
                                            "open",   "read",  "locks"};
struct Parts {
  std::array<std::atomic<uint64_t>, kParts> ns{}, calls{};  // ns: of processor time
};

// Adds what each call takes of its thread's processor time to parts that processes share.
class TimedFiles : public FileOps {
  static uint64_t Now() { return static_cast<uint64_t>(ThreadCpuMs() * 1e6); }
  template <typename Call>
  auto Add(Part part, const Call& call) {
    const uint64_t start = Now();
    const auto result = call();
    const int error = errno;
    parts_.ns[part] += Now() - start;
    ++parts_.calls[part];
    errno = error;
    return result;
  }

 public:
  explicit TimedFiles(Parts* parts) : parts_(*parts) {}
  int OpenAt(int dir, const char* path, int flags, mode_t mode) override {
    const bool makes = (flags & O_TMPFILE) == O_TMPFILE || (flags & O_CREAT) != 0;
    return Add(makes ? kCreate : kOpen, [&] { return FileOps::OpenAt(dir, path, flags, mode); });
  }
  int Close(int fd) override {
    return Add(kOpen, [&] { return FileOps::Close(fd); });
  }
  int Stat(int fd, struct stat* out) override {
    return Add(kOpen, [&] { return FileOps::Stat(fd, out); });
  }
  int StatAt(int dir, const char* path, struct stat* out) override {
    return Add(kOpen, [&] { return FileOps::StatAt(dir, path, out); });
  }
  ssize_t PRead(int fd, void* to, size_t size, off_t offset) override {
    return Add(kRead, [&] { return FileOps::PRead(fd, to, size, offset); });
  }
  ssize_t Write(int fd, const void* from, size_t size) override {
    return Add(kWrite, [&] { return FileOps::Write(fd, from, size); });
  }
  int LinkFd(int fd, int dir, const char* path) override {
    return Add(kLink, [&] { return FileOps::LinkFd(fd, dir, path); });
  }
  int MkdirAt(int dir, const char* path, mode_t mode) override {
    return Add(kFolders, [&] { return FileOps::MkdirAt(dir, path, mode); });
  }
  int LockByte(int fd, off_t offset) override {
    return Add(kLocks, [&] { return FileOps::LockByte(fd, offset); });
  }
  int UnlockByte(int fd, off_t offset) override {
    return Add(kLocks, [&] { return FileOps::UnlockByte(fd, offset); });
  }

 private:
  Parts& parts_;
};

}  // namespace sinter
