#include "cache/store/build_locks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sinter {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::microseconds;

constexpr Microseconds kFirstPause(50);
constexpr Microseconds kLongestPause(5000);
constexpr int kWaitShare = 8;  // a pause lasts an eighth of the wait so far
constexpr int64_t kLongestBudgetUs = int64_t{24} * 3600 * 1000000;
constexpr mode_t kFileMode = 0600;
constexpr off_t kJanitorByte = off_t{1} << 62;  // above every hash

class HeldByte {
 public:
  HeldByte(std::shared_ptr<const StoreDirectory> dir, Fd fd, off_t offset)
      : dir_(std::move(dir)), fd_(std::move(fd)), offset_(offset), pid_(getpid()) {}
  ~HeldByte() {
    // Closing our descriptor would not release the lock while a forked child shares it; unlocking
    // does. In the child itself, unlocking would take the lock from the parent.
    if (getpid() == pid_) dir_->ops()->UnlockByte(fd_.get(), offset_);
  }
  HeldByte(const HeldByte&) = delete;
  HeldByte& operator=(const HeldByte&) = delete;

 private:
  std::shared_ptr<const StoreDirectory> dir_;
  Fd fd_;
  off_t offset_;
  pid_t pid_;
};

off_t OffsetOf(RecordKind kind, const Digest& digest) {
  uint64_t hash = 0;
  for (int i = 0; i < 8; ++i) hash = hash << 8 | digest.bytes[i];
  hash ^= static_cast<uint64_t>(kind) << 32;
  return static_cast<off_t>(hash & ((uint64_t{1} << 62) - 1));
}

// Opens <base>/sinter-<user>, which is private to us whoever may write `base`.
Fd OpenNodeFolder(FileOps* ops, const std::string& base) {
  const std::string path = absl::StrCat(base, "/sinter-", geteuid());
  (void)ops->MkdirAt(AT_FDCWD, path.c_str(), 0700);
  Fd fd(ops, ops->OpenAt(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0));
  struct stat st;
  if (!fd.valid() || ops->Stat(fd.get(), &st) != 0) return Fd();
  if (st.st_uid != geteuid() || !CheckOwner(st, path).ok()) return Fd();
  return fd;
}

// The folder's inode number names the file, so that two paths or mounts of one folder share it.
Fd OpenNodeLocks(const StoreDirectory& dir) {
  FileOps* ops = dir.ops();
  struct stat st;
  if (ops->Stat(dir.fd(), &st) != 0) return Fd();
  const std::string name = absl::StrCat("locks-", absl::Hex(st.st_ino));
  for (const std::string& base : dir.lock_folders()) {
    const Fd folder = OpenNodeFolder(ops, base);
    if (!folder.valid()) continue;
    Fd fd(ops, ops->OpenAt(folder.get(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW, kFileMode));
    if (fd.valid()) return fd;
  }
  return Fd();
}

Fd OpenLocks(const StoreDirectory& dir) {
  if (dir.on_network()) return OpenNodeLocks(dir);
  return Fd(dir.ops(),
            dir.ops()->OpenAt(dir.fd(), kLocksPath, O_RDWR | O_CREAT | O_NOFOLLOW, kFileMode));
}

std::shared_ptr<void> LockOffset(std::shared_ptr<const StoreDirectory> dir, off_t offset,
                                 int64_t budget_us) {
  Fd fd = OpenLocks(*dir);
  if (!fd.valid()) return nullptr;
  const auto start = Clock::now();
  const auto deadline = start + Microseconds(std::clamp<int64_t>(budget_us, 0, kLongestBudgetUs));
  for (;;) {
    if (dir->ops()->LockByte(fd.get(), offset) == 0) {
      return std::make_shared<HeldByte>(std::move(dir), std::move(fd), offset);
    }
    const bool busy = errno == EAGAIN || errno == EINTR;
    const auto now = Clock::now();
    const auto left = std::chrono::duration_cast<Microseconds>(deadline - now);
    if (!busy || left.count() <= 0) return nullptr;
    const auto waited = std::chrono::duration_cast<Microseconds>(now - start);
    std::this_thread::sleep_for(
        std::min(std::clamp(waited / kWaitShare, kFirstPause, kLongestPause), left));
  }
}

}  // namespace

std::shared_ptr<void> LockKey(std::shared_ptr<const StoreDirectory> dir, RecordKind kind,
                              const Digest& digest, int64_t budget_us) {
  return LockOffset(std::move(dir), OffsetOf(kind, digest), budget_us);
}

std::shared_ptr<void> LockJanitorByte(std::shared_ptr<const StoreDirectory> dir) {
  return LockOffset(std::move(dir), kJanitorByte, 0);
}

}  // namespace sinter
