#include "cache/store/database_check.h"

#include <fcntl.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cache/store/database_files.h"
#include "cache/store/database_manifest.h"
#include "cache/store/log_records.h"
#include "cache/store/record_store.h"
#include "src/base/codec.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kMostManifestBytes = uint64_t{64} << 20;
constexpr uint64_t kMostEditBytes = uint64_t{4} << 20;
constexpr uint64_t kMostLogBytes = uint64_t{1} << 30;
constexpr uint64_t kBatchHeadBytes = 12;  // sequence, count

struct OpenedFile {
  Fd fd;
  uint64_t bytes = 0;
};

absl::StatusOr<OpenedFile> OpenDatabaseFile(const StoreDirectory& dir, const std::string& path,
                                            uint64_t most_bytes) {
  OpenedFile file;
  FileOps* ops = dir.ops();
  file.fd = Fd(ops, ops->OpenAt(dir.fd(), path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK, 0));
  struct stat st;
  if (!file.fd.valid()) return ErrnoStatus(errno, "open", path);
  if (ops->Stat(file.fd.get(), &st) != 0) return ErrnoStatus(errno, "stat", path);
  if (!S_ISREG(st.st_mode)) {
    return absl::PermissionDeniedError(absl::StrCat(path, ": not a regular file"));
  }
  SINTER_RETURN_IF_ERROR(CheckOwner(st, path));
  file.bytes = static_cast<uint64_t>(st.st_size);
  if (file.bytes <= most_bytes) return file;
  return absl::DataLossError(absl::StrCat(path, ": ", file.bytes, " bytes, at most ", most_bytes));
}

std::string InDatabase(absl::string_view name) { return absl::StrCat(kDatabaseFolder, "/", name); }

absl::Status ReadManifest(const StoreDirectory& dir, const std::string& path,
                          DatabaseManifest* out) {
  SINTER_ASSIGN_OR_RETURN(const OpenedFile file, OpenDatabaseFile(dir, path, kMostManifestBytes));
  const auto add = [&](absl::string_view edit, uint64_t) { return out->Add(edit); };
  SINTER_RETURN_IF_ERROR(VisitLogRecords(dir.ops(), file.fd.get(), file.bytes, path,
                                         LogLimits{kMostEditBytes, kMostEditBytes}, add));
  return out->Check();
}

absl::Status CheckEnds(FileOps* ops, const OpenedFile& file, const std::string& path,
                       const TableMap& map, const ManifestTable& table) {
  if (map.blocks().empty()) return absl::DataLossError(absl::StrCat(path, ": no block"));
  std::string first, last;
  const auto check = [&](size_t i, std::string* from, std::string* to) -> absl::Status {
    const BlockSpan& span = map.blocks()[i].span;
    SINTER_ASSIGN_OR_RETURN(
        const SharedBytes block,
        ReadExactly(ops, file.fd.get(), span.offset, span.size + kBlockTrailerSize, path));
    SINTER_RETURN_IF_ERROR(CheckBlockCrc(block, "data"));
    return map.CheckBlock(i, block, from, to);
  };
  const size_t end = map.blocks().size() - 1;
  SINTER_RETURN_IF_ERROR(check(0, &first, end == 0 ? &last : nullptr));
  if (end > 0) SINTER_RETURN_IF_ERROR(check(end, nullptr, &last));
  if (first == table.smallest && last == table.largest) return absl::OkStatus();
  return absl::DataLossError("the manifest names other keys than it holds");
}

absl::Status CheckTable(const StoreDirectory& dir, uint64_t number, const ManifestTable& table) {
  const std::string base = InDatabase(absl::StrFormat("%06d", number));
  std::string path = base + ".ldb";
  absl::StatusOr<OpenedFile> file = OpenDatabaseFile(dir, path, table.bytes);
  if (absl::IsNotFound(file.status())) {  // as LevelDB does, for databases of old
    path = base + ".sst";
    file = OpenDatabaseFile(dir, path, table.bytes);
  }
  if (absl::IsNotFound(file.status())) {
    return absl::DataLossError(absl::StrCat(base, ": the manifest names a table that is gone"));
  }
  SINTER_RETURN_IF_ERROR(file.status());
  if (file->bytes != table.bytes) {
    return absl::DataLossError(
        absl::StrCat(path, ": ", file->bytes, " bytes, the manifest says ", table.bytes));
  }
  const auto map = ReadTableMap(dir.ops(), file->fd.get(), file->bytes, path);
  if (!map.ok()) return Annotate(map.status(), path);
  const absl::Status ends = CheckEnds(dir.ops(), *file, path, *map, table);
  return ends.ok() ? ends : Annotate(ends, path);
}

// LevelDB replays a log into a table in memory, which does not bear one name twice: each batch
// begins above where the one before ended.
absl::Status CheckLog(const StoreDirectory& dir, const std::string& path) {
  SINTER_ASSIGN_OR_RETURN(const OpenedFile file, OpenDatabaseFile(dir, path, kMostLogBytes));
  uint64_t last = 0;
  bool any = false;
  const auto batch = [&](absl::string_view head, uint64_t) -> absl::Status {
    ByteReader in(head);
    const uint64_t sequence = in.U64(), count = in.U32();
    if (!in.ok()) return absl::DataLossError(absl::StrCat(path, ": a batch ends early"));
    if (sequence > kMostSequence || count > kMostSequence - sequence || (any && sequence <= last)) {
      return absl::DataLossError(
          absl::StrCat(path, ": a batch of ", count, " from sequence ", sequence));
    }
    last = count == 0 ? sequence : sequence + count - 1;
    any = true;
    return absl::OkStatus();
  };
  const LogLimits limits{2 * kMaxRecordFileBytes, kBatchHeadBytes};
  return VisitLogRecords(dir.ops(), file.fd.get(), file.bytes, path, limits, batch);
}

}  // namespace

absl::StatusOr<TableMap> ReadTableMap(FileOps* ops, int fd, uint64_t file_bytes,
                                      absl::string_view path) {
  const TableBytes read = [&](uint64_t offset, uint64_t size) {
    return ReadExactly(ops, fd, offset, size, path);
  };
  return TableMap::Read(read, file_bytes, KeyOrder::kInternal, kMostTableIndexBytes);
}

absl::Status CheckDatabaseFiles(const StoreDirectory& dir, const std::string& manifest,
                                const std::vector<std::string>& names) {
  DatabaseManifest version;
  const std::string path = InDatabase(manifest);
  const absl::Status read = ReadManifest(dir, path, &version);
  if (!read.ok()) return Annotate(read, path);
  for (const auto& [number, table] : version.tables()) {
    SINTER_RETURN_IF_ERROR(CheckTable(dir, number, table));
  }
  for (const std::string& name : names) {
    if (absl::EndsWith(name, ".log")) SINTER_RETURN_IF_ERROR(CheckLog(dir, InDatabase(name)));
  }
  return absl::OkStatus();
}

}  // namespace sinter
