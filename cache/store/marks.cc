#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cache/store/directory.h"
#include "src/base/status.h"

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE 1
#endif

namespace sinter {

bool SameFile(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_dev == b.st_dev && a.st_size == b.st_size &&
         a.st_mtim.tv_sec == b.st_mtim.tv_sec && a.st_mtim.tv_nsec == b.st_mtim.tv_nsec;
}

namespace {

struct BadFile {
  std::string path;
  uint64_t size = 0;
  struct timespec time {};
};

// Whether BadPath made this name. Files with other names in bad/ are never removed.
bool IsBadName(absl::string_view name) {
  const bool kind = absl::ConsumePrefix(&name, "k-") || absl::ConsumePrefix(&name, "p-");
  return kind && absl::ConsumeSuffix(&name, ".ldb") && name.size() == 64 + 1 + 32 &&
         name[64] == '.' && name.find_first_not_of("0123456789abcdef.") == name.npos;
}

std::vector<BadFile> ListBad(const StoreDirectory& dir) {
  std::vector<BadFile> files;
  std::vector<std::string> names;
  (void)dir.ops()->List(dir.fd(), kBadFolder, &names);
  for (const std::string& name : names) {
    if (!IsBadName(name)) continue;
    BadFile file;
    file.path = absl::StrCat(kBadFolder, "/", name);
    struct stat st;
    if (dir.ops()->StatAt(dir.fd(), file.path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) continue;
    file.size = static_cast<uint64_t>(st.st_size);
    file.time = st.st_ctim;  // set by the move
    files.push_back(file);
  }
  return files;
}

void TrimBad(const StoreDirectory& dir) {
  std::vector<BadFile> files = ListBad(dir);
  std::sort(files.begin(), files.end(), [](const BadFile& a, const BadFile& b) {
    if (a.time.tv_sec != b.time.tv_sec) return a.time.tv_sec > b.time.tv_sec;
    return a.time.tv_nsec > b.time.tv_nsec;
  });
  uint64_t bytes = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    bytes += files[i].size;
    if (i >= kMaxBadFiles || bytes > kMaxBadBytes) {
      dir.ops()->UnlinkAt(dir.fd(), files[i].path.c_str());
    }
  }
}

std::string BadPath(RecordKind kind, const Digest& digest) {
  return absl::StrCat(kBadFolder, "/", kind == RecordKind::kKernel ? "k-" : "p-", digest.Hex(), ".",
                      RandomName(), ".ldb");
}

}  // namespace

absl::Status MoveAside(const StoreDirectory& dir, RecordKind kind, const Digest& digest,
                       const struct stat& seen) {
  const std::string path = RecordPath(kind, digest);
  struct stat now;
  if (dir.ops()->StatAt(dir.fd(), path.c_str(), &now) != 0) return ErrnoStatus(errno, "stat", path);
  if (!SameFile(now, seen)) return NotFound(path, ": replaced meanwhile");
  SINTER_RETURN_IF_ERROR(MakeFolders(dir, kBadFolder));
  const std::string bad = BadPath(kind, digest);
  if (dir.ops()->RenameAt(dir.fd(), path.c_str(), bad.c_str(), RENAME_NOREPLACE) != 0 &&
      dir.ops()->RenameAt(dir.fd(), path.c_str(), bad.c_str(), 0) != 0) {
    return ErrnoStatus(errno, "rename", path);
  }
  if (dir.ops()->StatAt(dir.fd(), bad.c_str(), &now) == 0 && !SameFile(now, seen)) {
    // A good file was put there in between: move it back unless a third one has the name.
    dir.ops()->RenameAt(dir.fd(), bad.c_str(), path.c_str(), RENAME_NOREPLACE);
    return NotFound(path, ": replaced meanwhile");
  }
  TrimBad(dir);
  return absl::OkStatus();
}

absl::Status Bury(const StoreDirectory& dir, RecordKind kind, const Digest& digest,
                  absl::string_view why) {
  const std::string text = absl::StrCat(why.substr(0, kMaxTombstoneBytes - 1), "\n");
  const std::string tombstone = TombstonePath(kind, digest);
  const auto write = [&](int fd) {
    return WriteAll(dir.ops(), fd, text, /*sync=*/false, tombstone);
  };
  const absl::Status made = Publish(dir, tombstone, write, PublishMode::kNew, /*sync=*/true);
  if (!made.ok() && !absl::IsAlreadyExists(made)) return made;
  const std::string path = RecordPath(kind, digest);
  struct stat st;
  if (dir.ops()->StatAt(dir.fd(), path.c_str(), &st) == 0) {
    (void)MoveAside(dir, kind, digest, st);  // only kept as evidence
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> IsBuried(const StoreDirectory& dir, RecordKind kind, const Digest& digest,
                              std::string* why) {
  const std::string path = TombstonePath(kind, digest);
  struct stat st;
  if (dir.ops()->StatAt(dir.fd(), path.c_str(), &st) != 0) {
    if (errno == ENOENT) return false;  // the usual case, so no text is made
    const absl::Status status = ErrnoStatus(errno, "stat", path);
    if (absl::IsNotFound(status)) return false;
    return status;
  }
  if (why != nullptr) {
    const auto file = ReadWholeFile(dir.ops(), dir.fd(), path, kMaxTombstoneBytes);
    *why = file.ok() ? file->bytes.str() : std::string(file.status().message());
  }
  return true;
}

absl::Status ForEachTombstone(
    const StoreDirectory& dir,
    const std::function<absl::Status(RecordKind, const Digest&, absl::string_view)>& visit) {
  return ForEachFile(dir, [&](RecordKind kind, const std::string& path) {
    Digest digest;
    std::string why;
    const bool buried =
        DigestOfPath(path, ".bad", &digest) && IsBuried(dir, kind, digest, &why).value_or(false);
    return buried ? visit(kind, digest, why) : absl::OkStatus();
  });
}

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
