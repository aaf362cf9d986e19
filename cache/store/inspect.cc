#include "cache/store/inspect.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/record/envelope.h"
#include "cache/store/directory.h"
#include "cache/store/local_store.h"
#include "cache/store/table.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr size_t kMaxFindings = 100;

std::vector<std::string> Names(int dir, const std::string& path) {
  std::vector<std::string> names;
  const int fd = openat(dir, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return names;
  DIR* listing = fdopendir(fd);
  if (listing == nullptr) {
    close(fd);
    return names;
  }
  while (const dirent* entry = readdir(listing)) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  closedir(listing);
  std::sort(names.begin(), names.end());
  return names;
}

void Note(LocalReport* report, absl::string_view path, absl::string_view cause) {
  if (report->findings.size() < kMaxFindings) {
    report->findings.push_back(absl::StrCat(path, ": ", cause));
  }
}

// The verdict a lookup with the record's own key would give, were it asked for at `path`.
EnvelopeVerdict VerifyUnderOwnKey(absl::string_view file, RecordKind kind, const std::string& path,
                                  std::string* storage) {
  absl::StatusOr<TableEntry> entry = ReadTable(file);
  if (!entry.ok()) {
    EnvelopeVerdict verdict;
    verdict.detail = std::string(entry.status().message());
    return verdict;
  }
  const EnvelopeVerdict own = ReadEnvelope(entry->value);
  if (!own.ok) return own;
  const std::string key(own.envelope.key);
  const Digest digest = Sha256(key);
  EnvelopeVerdict verdict = VerifyRecordFile(file, kind, digest, key, storage);
  if (verdict.ok && RecordPath(kind, digest) != path) {
    verdict.ok = false;
    verdict.detail = "record of another key";
  }
  return verdict;
}

void InspectRecord(const StoreDirectory& dir, RecordKind kind, const std::string& path,
                   LocalReport* report) {
  const auto file = ReadWholeFile(dir.ops(), dir.fd(), path, kMaxRecordFileBytes);
  if (!file.ok()) {
    ++report->unsound;
    Note(report, path, file.status().message());
    return;
  }
  report->bytes += file->bytes.size();
  std::string storage;
  const EnvelopeVerdict verdict = VerifyUnderOwnKey(file->bytes, kind, path, &storage);
  if (!verdict.ok) {
    ++report->unsound;
    Note(report, path, verdict.detail);
  } else if (kind == RecordKind::kKernel) {
    ++report->kernels;
    if (verdict.envelope.verified) ++report->verified_kernels;
  } else {
    ++report->plans;
  }
}

void InspectFile(const StoreDirectory& dir, RecordKind kind, const std::string& path,
                 LocalReport* report) {
  if (absl::EndsWith(path, ".ldb")) {
    InspectRecord(dir, kind, path, report);
  } else if (absl::EndsWith(path, ".bad")) {
    ++report->quarantined;
    const auto why = ReadWholeFile(dir.ops(), dir.fd(), path, 4096);
    Note(report, path, why.ok() ? absl::string_view(why->bytes) : why.status().message());
  } else {
    ++report->temporary;
  }
}

}  // namespace

absl::StatusOr<LocalReport> InspectLocalStore(const std::string& root) {
  SINTER_ASSIGN_OR_RETURN(const std::shared_ptr<const StoreDirectory> dir,
                          StoreDirectory::Open(std::make_shared<FileOps>(), root));
  LocalReport report;
  for (const RecordKind kind : {RecordKind::kPlan, RecordKind::kKernel}) {
    const std::string top = kind == RecordKind::kKernel ? "obj" : "plan";
    for (const std::string& fan : Names(dir->fd(), top)) {
      const std::string folder = absl::StrCat(top, "/", fan);
      for (const std::string& name : Names(dir->fd(), folder)) {
        InspectFile(*dir, kind, absl::StrCat(folder, "/", name), &report);
      }
    }
  }
  return report;
}

}  // namespace sinter
