// The parts of LocalStore that walk the folder: for the janitor, for conversion, for people.
#include <cerrno>
#include <ctime>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/store/local_store.h"
#include "cache/store/publish.h"
#include "cache/store/quarantine.h"
#include "cache/store/table.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr RecordKind kKinds[] = {RecordKind::kPlan, RecordKind::kKernel};

absl::Status NoFolder() { return absl::UnavailableError("the cache folder cannot be opened"); }

absl::Status VisitUnsound(const RecordVisitor& visitor, absl::string_view path,
                          absl::string_view cause) {
  return visitor.unsound ? visitor.unsound(path, cause) : absl::OkStatus();
}

absl::Status VisitOtherFormat(const RecordVisitor& visitor, RecordKind kind, const Digest& digest,
                              absl::string_view file) {
  const absl::StatusOr<TableEntry> entry = ReadTable(file);
  if (!entry.ok() || !visitor.other_format) return absl::OkStatus();
  return visitor.other_format(kind, digest, entry->value);
}

absl::Status VisitRecord(const StoreDirectory& dir, RecordKind kind, const Digest& digest,
                         const std::string& path, const RecordFormat& format,
                         const RecordVisitor& visitor) {
  const auto file = ReadWholeFile(dir.ops(), dir.fd(), path, kMaxRecordFileBytes);
  if (absl::IsNotFound(file.status())) return absl::OkStatus();  // gone meanwhile
  if (!file.ok()) return VisitUnsound(visitor, path, file.status().message());
  const EnvelopeVerdict verdict = ReadRecordFile(file->bytes, kind, digest, format);
  if (!verdict.ok && verdict.reason == MissReason::kOtherFormat) {
    return VisitOtherFormat(visitor, kind, digest, file->bytes);
  }
  if (!verdict.ok) return VisitUnsound(visitor, path, verdict.detail);
  return visitor.record ? visitor.record(digest, verdict.envelope) : absl::OkStatus();
}

std::vector<std::string> Orphans(const StoreDirectory& dir) {
  std::vector<std::string> orphans;
  for (const RecordKind kind : kKinds) {
    const auto paths = ListFanOut(dir, kind);
    if (!paths.ok()) continue;
    for (const std::string& path : *paths) {
      if (absl::StrContains(path, absl::StrCat("/", kTempPrefix))) orphans.push_back(path);
    }
  }
  return orphans;
}

}  // namespace

absl::Status LocalStore::ForEach(const RecordVisitor& visitor) {
  SINTER_RETURN_IF_ERROR(usable_);
  const DirectoryPtr dir = Directory();
  if (dir == nullptr) return NoFolder();
  for (const RecordKind kind : kKinds) {
    const auto paths = ListFanOut(*dir, kind);
    if (absl::IsNotFound(paths.status())) continue;
    SINTER_RETURN_IF_ERROR(paths.status());
    for (const std::string& path : *paths) {
      Digest digest;
      if (!absl::EndsWith(path, ".ldb")) continue;
      if (!DigestOfPath(path, ".ldb", &digest)) {
        SINTER_RETURN_IF_ERROR(VisitUnsound(visitor, path, "its name is no record's"));
        continue;
      }
      SINTER_RETURN_IF_ERROR(VisitRecord(*dir, kind, digest, path, format(), visitor));
    }
  }
  return visitor.tombstone ? ForEachTombstone(*dir, visitor.tombstone) : absl::OkStatus();
}

absl::StatusOr<std::vector<StoredEntry>> LocalStore::List() {
  SINTER_RETURN_IF_ERROR(usable_);
  const DirectoryPtr dir = Directory();
  if (dir == nullptr) return NoFolder();
  std::vector<StoredEntry> entries;
  for (const RecordKind kind : kKinds) {
    const auto paths = ListFanOut(*dir, kind);
    if (absl::IsNotFound(paths.status())) continue;
    SINTER_RETURN_IF_ERROR(paths.status());
    for (const std::string& path : *paths) {
      StoredEntry entry;
      entry.kind = kind;
      if (!DigestOfPath(path, ".ldb", &entry.digest)) continue;
      if (dir->ops()->StatAt(dir->fd(), path.c_str(), &entry.seen) != 0) continue;
      entry.bytes = static_cast<uint64_t>(entry.seen.st_size);
      entry.last_use_unix_s = static_cast<int64_t>(entry.seen.st_mtim.tv_sec);
      entries.push_back(entry);
    }
  }
  return entries;
}

bool LocalStore::Evict(const StoredEntry& entry) {
  const DirectoryPtr dir = Directory();
  if (dir == nullptr) return false;
  const std::string path = RecordPath(entry.kind, entry.digest);
  struct stat now;
  if (dir->ops()->StatAt(dir->fd(), path.c_str(), &now) != 0) return false;
  return SameFile(now, entry.seen) && dir->ops()->UnlinkAt(dir->fd(), path.c_str()) == 0;
}

uint64_t LocalStore::RemoveOrphans(int64_t min_age_s) {
  const DirectoryPtr dir = Directory();
  if (dir == nullptr) return 0;
  const int64_t now = static_cast<int64_t>(time(nullptr));
  uint64_t removed = 0;
  for (const std::string& path : Orphans(*dir)) {
    struct stat st;
    if (dir->ops()->StatAt(dir->fd(), path.c_str(), &st) != 0) continue;
    if (now - static_cast<int64_t>(st.st_mtim.tv_sec) < min_age_s) continue;
    if (dir->ops()->UnlinkAt(dir->fd(), path.c_str()) == 0) ++removed;
  }
  return removed;
}

uint64_t LocalStore::CountOrphans() {
  const DirectoryPtr dir = Directory();
  return dir == nullptr ? 0 : Orphans(*dir).size();
}

absl::Status LocalStore::CheckFolder() {
  SINTER_RETURN_IF_ERROR(usable_);
  const DirectoryPtr dir = Directory();
  return dir == nullptr ? NoFolder() : CheckOurs(*dir);
}

}  // namespace sinter
