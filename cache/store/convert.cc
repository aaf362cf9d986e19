#include "cache/store/convert.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cache/store/database_store.h"
#include "cache/store/local_store.h"
#include "src/base/status.h"

namespace sinter {
namespace {

using Name = std::pair<RecordKind, Digest>;

void NoteFailure(const absl::Status& status, ConvertReport* report) {
  if (report->failed++ == 0) report->first_failure = std::string(status.message());
}

}  // namespace

absl::string_view NameOf(LocalStoreKind kind) {
  return kind == LocalStoreKind::kTables ? "tables" : "leveldb-db";
}

absl::StatusOr<LocalStoreKind> LocalStoreKindFromName(absl::string_view name) {
  for (const LocalStoreKind kind : {LocalStoreKind::kTables, LocalStoreKind::kDatabase}) {
    if (name == NameOf(kind)) return kind;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("store is \"", name, "\", must be tables or leveldb-db"));
}

std::unique_ptr<RecordStore> OpenRecordStore(LocalStoreKind kind, const std::string& root,
                                             const std::string& producer) {
  if (kind == LocalStoreKind::kTables) {
    LocalStoreOptions options;
    options.root = root;
    options.producer = producer;
    return std::make_unique<LocalStore>(std::move(options));
  }
  DatabaseStoreOptions options;
  options.root = root;
  options.producer = producer;
  return std::make_unique<DatabaseStore>(std::move(options));
}

absl::StatusOr<ConvertReport> ConvertStore(RecordStore* from, RecordStore* to, bool remove_source) {
  SINTER_RETURN_IF_ERROR(from->usable());
  SINTER_RETURN_IF_ERROR(to->usable());
  ConvertReport report;
  SINTER_ASSIGN_OR_RETURN(const std::vector<StoredEntry> entries, from->List());
  std::set<Name> taken;
  RecordVisitor visitor;
  visitor.record = [&](const Digest& digest, const Envelope& envelope) {
    const absl::Status put = to->PutRecord(digest, envelope);
    if (put.ok()) {
      ++report.records;
      taken.emplace(envelope.kind, digest);
    } else {
      NoteFailure(put, &report);
    }
    return absl::OkStatus();
  };
  visitor.tombstone = [&](RecordKind kind, const Digest& digest, absl::string_view why) {
    const absl::Status put = to->Quarantine(kind, digest, why);
    if (put.ok()) {
      ++report.tombstones;
    } else {
      NoteFailure(put, &report);
    }
    return absl::OkStatus();
  };
  visitor.other_format = [&](RecordKind kind, const Digest& digest, absl::string_view envelope) {
    const absl::Status put = to->PutUnread(kind, digest, envelope);
    if (put.ok()) {
      ++report.records;
      ++report.other_format;
      taken.emplace(kind, digest);
    } else {
      NoteFailure(put, &report);
    }
    return absl::OkStatus();
  };
  visitor.unsound = [&](absl::string_view, absl::string_view) {
    ++report.unsound;
    return absl::OkStatus();
  };
  SINTER_RETURN_IF_ERROR(from->ForEach(visitor));
  if (!remove_source) return report;
  for (const StoredEntry& entry : entries) {
    const bool copied = taken.count(Name(entry.kind, entry.digest)) != 0;
    if (copied && from->Evict(entry)) ++report.removed;
  }
  if (report.removed > 0) from->Evicted();
  return report;
}

}  // namespace sinter
