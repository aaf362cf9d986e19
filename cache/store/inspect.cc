#include "cache/store/inspect.h"

#include <algorithm>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/record/envelope.h"
#include "cache/store/directory.h"
#include "cache/store/local_store.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr size_t kMaxFindings = 100;

void Note(LocalReport* report, absl::string_view path, absl::string_view cause) {
  if (report->findings.size() < kMaxFindings) {
    report->findings.push_back(absl::StrCat(path, ": ", cause));
  }
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
  Digest digest;
  (void)DigestOfPath(path, ".ldb", &digest);  // a name that is no digest names no record
  const EnvelopeVerdict verdict = ReadRecordFile(file->bytes, kind, digest);
  if (!verdict.ok && verdict.reason == MissReason::kOtherFormat) {
    ++report->other_format;
  } else if (!verdict.ok) {
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
    Note(report, path, why.ok() ? why->bytes.view() : why.status().message());
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
    absl::StatusOr<std::vector<std::string>> paths = ListFanOut(*dir, kind);
    if (!paths.ok()) continue;
    std::sort(paths->begin(), paths->end());
    for (const std::string& path : *paths) InspectFile(*dir, kind, path, &report);
  }
  return report;
}

}  // namespace sinter
