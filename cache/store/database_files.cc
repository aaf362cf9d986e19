#include "cache/store/database_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "cache/store/database_check.h"
#include "cache/store/quarantine.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr char kBadPrefix[] = "db-";
constexpr uint64_t kMaxCurrentBytes = 64;

std::string PathOf(absl::string_view name) { return absl::StrCat(kDatabaseFolder, "/", name); }

absl::Status CheckFile(const StoreDirectory& dir, const std::string& name) {
  const std::string path = PathOf(name);
  struct stat st;
  if (dir.ops()->StatAt(dir.fd(), path.c_str(), &st) != 0) return ErrnoStatus(errno, "stat", path);
  if (!S_ISREG(st.st_mode)) {
    return absl::PermissionDeniedError(absl::StrCat(path, ": not a regular file"));
  }
  return CheckOwner(st, path);
}

// The manifest that CURRENT names.
absl::StatusOr<std::string> CurrentManifest(const StoreDirectory& dir,
                                            const std::vector<std::string>& names) {
  const auto file = ReadWholeFile(dir.ops(), dir.fd(), PathOf("CURRENT"), kMaxCurrentBytes);
  SINTER_RETURN_IF_ERROR(file.status());
  absl::string_view manifest = file->bytes;
  const bool sound = absl::ConsumeSuffix(&manifest, "\n") &&
                     absl::StartsWith(manifest, "MANIFEST-") &&
                     std::find(names.begin(), names.end(), std::string(manifest)) != names.end();
  if (sound) return std::string(manifest);
  return absl::DataLossError("db/CURRENT names no manifest");
}

// A name that LevelDB gives.
bool IsDatabaseName(absl::string_view name) {
  for (const char* known : {"CURRENT", "LOCK", "LOG", "LOG.old"}) {
    if (name == known) return true;
  }
  bool ended = absl::ConsumePrefix(&name, "MANIFEST-");
  for (const char* suffix : {".ldb", ".sst", ".log", ".dbtmp"}) {
    ended = ended || absl::ConsumeSuffix(&name, suffix);
  }
  return ended && !name.empty() && name.find_first_not_of("0123456789") == name.npos;
}

// A database that was put aside. A file in it that LevelDB did not make stays, and so does the
// folder then.
void RemoveFolder(const StoreDirectory& dir, const std::string& folder) {
  std::vector<std::string> names;
  (void)dir.ops()->List(dir.fd(), folder.c_str(), &names);
  for (const std::string& name : names) {
    if (!IsDatabaseName(name)) continue;
    dir.ops()->UnlinkAt(dir.fd(), absl::StrCat(folder, "/", name).c_str());
  }
  dir.ops()->RmdirAt(dir.fd(), folder.c_str());
}

}  // namespace

absl::Status CheckDatabaseFolder(const StoreDirectory& dir) {
  SINTER_RETURN_IF_ERROR(MakeFolders(dir, kDatabaseFolder));
  struct stat st;
  if (dir.ops()->StatAt(dir.fd(), kDatabaseFolder, &st) != 0) {
    return ErrnoStatus(errno, "stat", kDatabaseFolder);
  }
  SINTER_RETURN_IF_ERROR(CheckOwner(st, kDatabaseFolder));
  std::vector<std::string> names;
  if (dir.ops()->List(dir.fd(), kDatabaseFolder, &names) != 0) {
    return ErrnoStatus(errno, "list", kDatabaseFolder);
  }
  bool current = false, data = false;
  for (const std::string& name : names) {
    SINTER_RETURN_IF_ERROR(CheckFile(dir, name));
    current = current || name == "CURRENT";
    data = data || absl::EndsWith(name, ".ldb") || absl::EndsWith(name, ".log");
  }
  if (!current) return data ? absl::DataLossError("db/CURRENT is missing") : absl::OkStatus();
  SINTER_ASSIGN_OR_RETURN(const std::string manifest, CurrentManifest(dir, names));
  return CheckDatabaseFiles(dir, manifest, names);
}

absl::Status MoveDatabaseAside(const StoreDirectory& dir) {
  SINTER_RETURN_IF_ERROR(MakeFolders(dir, kBadFolder));
  std::vector<std::string> names;
  (void)dir.ops()->List(dir.fd(), kBadFolder, &names);
  for (const std::string& name : names) {
    if (absl::StartsWith(name, kBadPrefix)) RemoveFolder(dir, absl::StrCat(kBadFolder, "/", name));
  }
  const std::string bad = absl::StrCat(kBadFolder, "/", kBadPrefix, RandomName());
  if (dir.ops()->RenameAt(dir.fd(), kDatabaseFolder, bad.c_str(), 0) != 0) {
    return ErrnoStatus(errno, "rename", kDatabaseFolder);
  }
  return absl::OkStatus();
}

}  // namespace sinter
