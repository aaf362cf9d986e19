#include "cache/store/inspect.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
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

RecordVisitor Counting(LocalReport* report, const RecordCheck& check) {
  RecordVisitor visitor;
  visitor.record = [report, &check](const Digest& digest, const Envelope& envelope) {
    const absl::Status status = RunCheck(check, envelope.kind, envelope.key, envelope.payload);
    if (!status.ok()) {
      ++report->unsound;
      Note(report, RecordPath(envelope.kind, digest), status.message());
      return absl::OkStatus();
    }
    const bool kernel = envelope.kind == RecordKind::kKernel;
    ++(kernel ? report->kernels : report->plans);
    if (kernel && envelope.verified) ++report->verified_kernels;
    return absl::OkStatus();
  };
  visitor.tombstone = [report](RecordKind kind, const Digest& digest, absl::string_view why) {
    ++report->quarantined;
    Note(report, TombstonePath(kind, digest), why);
    return absl::OkStatus();
  };
  visitor.unsound = [report](absl::string_view name, absl::string_view cause) {
    ++report->unsound;
    Note(report, name, cause);
    return absl::OkStatus();
  };
  visitor.other_format = [report](RecordKind, const Digest&, absl::string_view) {
    ++report->other_format;
    return absl::OkStatus();
  };
  return visitor;
}

}  // namespace

absl::StatusOr<LocalReport> InspectStore(RecordStore* store, const RecordCheck& check) {
  LocalReport report;
  SINTER_RETURN_IF_ERROR(store->ForEach(Counting(&report, check)));
  SINTER_ASSIGN_OR_RETURN(const std::vector<StoredEntry> entries, store->List());
  for (const StoredEntry& entry : entries) report.bytes += entry.bytes;
  report.temporary = store->CountOrphans();
  std::sort(report.findings.begin(), report.findings.end());
  return report;
}

absl::StatusOr<LocalReport> InspectLocalStore(const std::string& root) {
  LocalStoreOptions options;
  options.root = root;
  LocalStore store(std::move(options));
  return InspectStore(&store);
}

absl::Status ListStore(RecordStore* store, const ListedRecord& visit) {
  SINTER_ASSIGN_OR_RETURN(std::vector<StoredEntry> entries, store->List());
  using Name = std::pair<RecordKind, Digest>;
  std::map<Name, const StoredEntry*> unread;
  for (const StoredEntry& entry : entries) unread[Name(entry.kind, entry.digest)] = &entry;
  RecordVisitor visitor;
  visitor.record = [&](const Digest& digest, const Envelope& envelope) {
    const auto it = unread.find(Name(envelope.kind, digest));
    if (it == unread.end()) return absl::OkStatus();
    visit(*it->second, &envelope);
    unread.erase(it);
    return absl::OkStatus();
  };
  SINTER_RETURN_IF_ERROR(store->ForEach(visitor));
  for (const auto& [name, entry] : unread) visit(*entry, nullptr);
  return absl::OkStatus();
}

absl::StatusOr<ClearReport> ClearStore(RecordStore* store, bool dry_run) {
  SINTER_RETURN_IF_ERROR(store->CheckFolder());
  SINTER_ASSIGN_OR_RETURN(const std::vector<StoredEntry> entries, store->List());
  ClearReport report;
  for (const StoredEntry& entry : entries) {
    if (!dry_run && !store->Evict(entry)) {
      ++report.failed;
      continue;
    }
    ++report.records;
    report.bytes += entry.bytes;
  }
  if (!dry_run && report.records > 0) store->Evicted();
  return report;
}

}  // namespace sinter
