#include "cache/store/quarantine.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
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
  if (!SameFile(now, seen)) return absl::NotFoundError(absl::StrCat(path, ": replaced meanwhile"));
  SINTER_RETURN_IF_ERROR(MakeFolders(dir, kBadFolder));
  const std::string bad = BadPath(kind, digest);
  if (dir.ops()->RenameAt(dir.fd(), path.c_str(), bad.c_str(), RENAME_NOREPLACE) != 0 &&
      dir.ops()->RenameAt(dir.fd(), path.c_str(), bad.c_str(), 0) != 0) {
    return ErrnoStatus(errno, "rename", path);
  }
  if (dir.ops()->StatAt(dir.fd(), bad.c_str(), &now) == 0 && !SameFile(now, seen)) {
    // A good file was put there in between: move it back unless a third one has the name.
    dir.ops()->RenameAt(dir.fd(), bad.c_str(), path.c_str(), RENAME_NOREPLACE);
    return absl::NotFoundError(absl::StrCat(path, ": replaced meanwhile"));
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
  for (const RecordKind kind : {RecordKind::kPlan, RecordKind::kKernel}) {
    const auto paths = ListFanOut(dir, kind);
    if (absl::IsNotFound(paths.status())) continue;
    SINTER_RETURN_IF_ERROR(paths.status());
    for (const std::string& path : *paths) {
      Digest digest;
      std::string why;
      if (!DigestOfPath(path, ".bad", &digest)) continue;
      if (!IsBuried(dir, kind, digest, &why).value_or(false)) continue;
      SINTER_RETURN_IF_ERROR(visit(kind, digest, why));
    }
  }
  return absl::OkStatus();
}

}  // namespace sinter
