#include <algorithm>
#include <ctime>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/store/directory.h"
#include "cache/store/local_store.h"
#include "src/base/status.h"

namespace sinter {
namespace {

absl::Status NoFolder() { return Unavailable("the cache folder cannot be opened"); }

absl::Status VisitUnsound(const RecordVisitor& visitor, absl::string_view path,
                          absl::string_view cause) {
  return visitor.unsound ? visitor.unsound(path, cause) : absl::OkStatus();
}

absl::Status VisitRecord(const StoreDirectory& dir, RecordKind kind, const Digest& digest,
                         const std::string& path, const RecordFormat& format,
                         const RecordVisitor& visitor) {
  const auto file = ReadWholeFile(dir.ops(), dir.fd(), path, kMaxRecordFileBytes);
  if (absl::IsNotFound(file.status())) return absl::OkStatus();  // gone meanwhile
  if (!file.ok()) return VisitUnsound(visitor, path, file.status().message());
  const EnvelopeVerdict verdict = ReadRecordFile(file->bytes, kind, digest, format);
  if (!verdict.ok && verdict.reason == MissReason::kOtherFormat) {
    return visitor.other_format ? visitor.other_format(kind, digest) : absl::OkStatus();
  }
  if (!verdict.ok) return VisitUnsound(visitor, path, verdict.detail);
  return visitor.record ? visitor.record(digest, verdict.envelope) : absl::OkStatus();
}

std::vector<std::string> Orphans(const StoreDirectory& dir) {
  std::vector<std::string> orphans;
  ForEachFile(dir, [&](RecordKind, const std::string& path) {
    if (absl::StrContains(path, absl::StrCat("/", kTempPrefix))) orphans.push_back(path);
    return absl::OkStatus();
  }).IgnoreError();
  return orphans;
}

}  // namespace

absl::Status LocalStore::ForEach(const RecordVisitor& visitor) {
  SINTER_RETURN_IF_ERROR(usable_);
  const DirectoryPtr dir = Directory();
  if (dir == nullptr) return NoFolder();
  SINTER_RETURN_IF_ERROR(ForEachFile(*dir, [&](RecordKind kind, const std::string& path) {
    Digest digest;
    if (!absl::EndsWith(path, ".ldb")) return absl::OkStatus();
    return DigestOfPath(path, ".ldb", &digest)
               ? VisitRecord(*dir, kind, digest, path, options_.format, visitor)
               : VisitUnsound(visitor, path, "its name is not a record's");
  }));
  return visitor.tombstone ? ForEachTombstone(*dir, visitor.tombstone) : absl::OkStatus();
}

absl::Status LocalStore::Visit(const StoredEntry& entry, const RecordVisitor& visitor) {
  SINTER_RETURN_IF_ERROR(usable_);
  const DirectoryPtr dir = Directory();
  if (dir == nullptr) return NoFolder();
  return VisitRecord(*dir, entry.kind, entry.digest, RecordPath(entry.kind, entry.digest),
                     options_.format, visitor);
}

absl::StatusOr<std::vector<StoredEntry>> LocalStore::List() {
  SINTER_RETURN_IF_ERROR(usable_);
  const DirectoryPtr dir = Directory();
  if (dir == nullptr) return NoFolder();
  std::vector<StoredEntry> entries;
  SINTER_RETURN_IF_ERROR(ForEachFile(*dir, [&](RecordKind kind, const std::string& path) {
    StoredEntry entry;
    entry.kind = kind;
    if (!DigestOfPath(path, ".ldb", &entry.digest)) return absl::OkStatus();
    if (dir->ops()->StatAt(dir->fd(), path.c_str(), &entry.seen) != 0) return absl::OkStatus();
    entry.bytes = static_cast<uint64_t>(entry.seen.st_size);
    entry.last_use_unix_s = static_cast<int64_t>(entry.seen.st_mtim.tv_sec);
    entries.push_back(entry);
    return absl::OkStatus();
  }));
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
  visitor.other_format = [report](RecordKind, const Digest&) {
    ++report->other_format;
    return absl::OkStatus();
  };
  return visitor;
}

}  // namespace

absl::StatusOr<LocalReport> InspectStore(LocalStore* store, const RecordCheck& check) {
  LocalReport report;
  SINTER_RETURN_IF_ERROR(store->ForEach(Counting(&report, check)));
  SINTER_ASSIGN_OR_RETURN(const std::vector<StoredEntry> entries, store->List());
  for (const StoredEntry& entry : entries) report.bytes += entry.bytes;
  report.temporary = store->CountOrphans();
  std::sort(report.findings.begin(), report.findings.end());
  return report;
}

absl::Status ListStore(LocalStore* store, const ListedRecord& visit) {
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

absl::StatusOr<ClearReport> ClearStore(LocalStore* store, bool dry_run) {
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
  return report;
}

namespace {

// Which kernels each listed plan names.
using NamedKernels = std::map<Digest, std::vector<Digest>>;

NamedKernels KernelsOfPlans(LocalStore* store, const std::vector<StoredEntry>& entries,
                            const KernelsOfPlan& kernels_of) {
  NamedKernels named;
  RecordVisitor visitor;
  visitor.record = [&](const Digest& digest, const Envelope& envelope) {
    named[digest] = kernels_of(envelope.key, envelope.payload);
    return absl::OkStatus();
  };
  for (const StoredEntry& entry : entries) {
    if (entry.kind == RecordKind::kPlan) (void)store->Visit(entry, visitor);
  }
  return named;
}

// When a record counts as used last, and the plan that decides it; no plan: the record itself.
using LastUse = std::pair<int64_t, Digest>;

// A kernel counts as used when any plan that names it was.
std::map<Digest, LastUse> KernelUses(const NamedKernels& named,
                                     const std::vector<StoredEntry>& entries) {
  std::map<Digest, LastUse> uses;
  for (const StoredEntry& entry : entries) {
    const auto plan = named.find(entry.digest);
    if (entry.kind != RecordKind::kPlan || plan == named.end()) continue;
    const LastUse use(entry.last_use_unix_s, entry.digest);
    for (const Digest& kernel : plan->second) {
      LastUse& last = uses.emplace(kernel, use).first->second;
      last = std::max(last, use);
    }
  }
  return uses;
}

// Longest unused first, a plan just before the kernels that no later plan names; within a second
// the larger record, then by name, so that all janitors use one order.
void OrderForEviction(const NamedKernels& named, std::vector<StoredEntry>* entries) {
  const std::map<Digest, LastUse> uses = KernelUses(named, *entries);
  const auto use_of = [&](const StoredEntry& entry) {
    const bool plan = entry.kind == RecordKind::kPlan;
    const LastUse own(entry.last_use_unix_s,
                      plan && named.count(entry.digest) != 0 ? entry.digest : Digest());
    const auto use = uses.find(entry.digest);
    return plan || use == uses.end() ? own : std::max(own, use->second);
  };
  std::sort(entries->begin(), entries->end(), [&](const StoredEntry& a, const StoredEntry& b) {
    const LastUse use_a = use_of(a), use_b = use_of(b);
    if (use_a != use_b) return use_a < use_b;
    const bool together = use_a.second != Digest();  // a plan and its kernels
    if (together && a.kind != b.kind) return a.kind == RecordKind::kPlan;
    return std::tie(b.bytes, a.digest) < std::tie(a.bytes, b.digest);
  });
}

void EvictDownTo(LocalStore* store, std::vector<StoredEntry> entries, uint64_t goal,
                 const KernelsOfPlan& kernels_of, SweepReport* report) {
  const NamedKernels named =
      kernels_of ? KernelsOfPlans(store, entries, kernels_of) : NamedKernels();
  OrderForEviction(named, &entries);
  std::set<Digest> kept;  // kernels of plans that were used meanwhile, and so stay
  uint64_t left = report->bytes;
  for (const StoredEntry& entry : entries) {
    if (left <= goal) break;
    if (entry.kind == RecordKind::kKernel && kept.count(entry.digest) != 0) continue;
    if (!store->Evict(entry)) {
      const auto plan = named.find(entry.digest);
      if (entry.kind == RecordKind::kPlan && plan != named.end())
        kept.insert(plan->second.begin(), plan->second.end());
      continue;
    }
    left -= entry.bytes;
    ++report->evicted;
    report->evicted_bytes += entry.bytes;
  }
}

}  // namespace

absl::StatusOr<SweepReport> Sweep(LocalStore* store, const SweepLimits& limits) {
  SINTER_RETURN_IF_ERROR(store->usable());
  SweepReport report;
  const std::shared_ptr<void> lock = store->LockJanitor();
  if (lock == nullptr) {
    report.busy = true;
    return report;
  }
  report.orphans = store->RemoveOrphans(limits.orphan_age_s);
  SINTER_ASSIGN_OR_RETURN(std::vector<StoredEntry> entries, store->List());
  report.records = entries.size();
  for (const StoredEntry& entry : entries) report.bytes += entry.bytes;
  if (limits.max_bytes != 0 && report.bytes > limits.max_bytes) {
    EvictDownTo(store, std::move(entries), limits.max_bytes / 10 * 9, limits.kernels_of, &report);
  }
  return report;
}

}  // namespace sinter
