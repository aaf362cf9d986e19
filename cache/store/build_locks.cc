#include "cache/store/build_locks.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

namespace sinter {
namespace {

using Clock = std::chrono::steady_clock;
using Microseconds = std::chrono::microseconds;

constexpr Microseconds kFirstPause(50);
constexpr Microseconds kLongestPause(5000);
constexpr int64_t kLongestBudgetUs = int64_t{24} * 3600 * 1000000;
constexpr mode_t kFileMode = 0600;

struct flock ByteRange(int16_t type, off_t offset) {
  struct flock range {};
  range.l_type = type;
  range.l_whence = SEEK_SET;
  range.l_start = offset;
  range.l_len = 1;
  return range;
}

class HeldByte {
 public:
  HeldByte(std::shared_ptr<const StoreDirectory> dir, Fd fd, off_t offset)
      : dir_(std::move(dir)), fd_(std::move(fd)), offset_(offset), pid_(getpid()) {}
  ~HeldByte() {
    // A forked child shares the descriptor: closing ours would not release while it lives,
    // unlocking does. In the child itself unlocking would take the lock from the parent.
    if (getpid() != pid_) return;
    struct flock range = ByteRange(F_UNLCK, offset_);
    fcntl(fd_.get(), F_OFD_SETLK, &range);
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

enum class Attempt { kHeld, kBusy, kBroken };

Attempt TryLock(int fd, off_t offset) {
  struct flock range = ByteRange(F_WRLCK, offset);
  if (fcntl(fd, F_OFD_SETLK, &range) == 0) return Attempt::kHeld;
  const bool busy = errno == EAGAIN || errno == EACCES || errno == EINTR;
  return busy ? Attempt::kBusy : Attempt::kBroken;
}

}  // namespace

std::shared_ptr<void> LockKey(std::shared_ptr<const StoreDirectory> dir, RecordKind kind,
                              const Digest& digest, int64_t budget_us) {
  Fd fd(dir->ops(),
        dir->ops()->OpenAt(dir->fd(), kLocksPath, O_RDWR | O_CREAT | O_NOFOLLOW, kFileMode));
  if (!fd.valid()) return nullptr;
  const off_t offset = OffsetOf(kind, digest);
  const auto deadline =
      Clock::now() + Microseconds(std::clamp<int64_t>(budget_us, 0, kLongestBudgetUs));
  for (Microseconds pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    const Attempt attempt = TryLock(fd.get(), offset);
    if (attempt == Attempt::kHeld) {
      return std::make_shared<HeldByte>(std::move(dir), std::move(fd), offset);
    }
    const auto left = std::chrono::duration_cast<Microseconds>(deadline - Clock::now());
    if (attempt == Attempt::kBroken || left.count() <= 0) return nullptr;
    std::this_thread::sleep_for(std::min(pause, left));
  }
}

}  // namespace sinter
