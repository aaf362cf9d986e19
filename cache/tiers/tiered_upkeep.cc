// The part of TieredStore that is not the Store port: explanations of misses, export and import,
// upkeep, counters.
#include <new>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cache/key/key.h"
#include "cache/tiers/tiers.h"
#include "src/base/digest.h"
#include "src/base/status.h"

namespace sinter {
namespace {

// Other processes find a record only once it is written, some milliseconds after its put.
constexpr char kBeingBuilt[] =
    "its build lock is held: another context or process builds it just now, or has it queued and "
    "not yet written (flush there, or ask again)";

}  // namespace

void TieredStore::Flush() {
  if (local_ != nullptr) local_->Flush();
}

std::string TieredStore::ExplainMiss(RecordKind kind, absl::string_view key) {
  try {
    Nearest nearest(kind, key);
    RecordVisitor visitor;
    visitor.record = [&](const Digest&, const Envelope& envelope) {
      nearest.Offer(envelope.kind, envelope.key, "the local tier");
      return absl::OkStatus();
    };
    if (local_ != nullptr) (void)local_->records()->ForEach(visitor);
    for (const auto& pack : packs_) {
      for (const PackEntry& entry : pack->manifest().entries) {
        if (entry.kind == kind) nearest.Offer(kind, pack->PeekKey(entry), pack->path());
      }
    }
    std::string text = nearest.Explain();
    const bool writable = local_ != nullptr && !read_only_;
    if (writable && local_->IsBeingBuilt(Id(kind, Sha256(key)))) {
      absl::StrAppend(&text, "; ", kBeingBuilt);
    }
    return text;
  } catch (const std::bad_alloc&) {
    return std::string();
  }
}

absl::StatusOr<PackReport> TieredStore::Export(const PackWriteOptions& options, bool used_only) {
  Flush();
  std::vector<PackItem> used;
  if (used_only) {
    for (const Id& id : *used_.Lock()) used.push_back(PackItem{id.first, id.second});
  }
  LocalStore* local = local_ != nullptr ? local_->records() : nullptr;
  return ExportPack(local, packs_, used_only ? &used : nullptr, options);
}

absl::StatusOr<LocalStore*> TieredStore::Records() const {
  if (local_ == nullptr) {
    const std::string why = absl::StrCat("cache: ", off_detail_);
    const bool refused = off_reason_ == MissReason::kRefusedOwner;
    return refused ? absl::PermissionDeniedError(why) : absl::UnavailableError(why);
  }
  return local_->records();
}

absl::StatusOr<LocalStore*> TieredStore::Writable() const {
  SINTER_ASSIGN_OR_RETURN(LocalStore * local, Records());
  if (read_only_) return absl::UnavailableError("cache: the local tier is read-only");
  return local;
}

absl::StatusOr<LocalReport> TieredStore::Inspect() {
  SINTER_ASSIGN_OR_RETURN(LocalStore * local, Records());
  Flush();
  return InspectStore(local, check_);
}

absl::Status TieredStore::ListLocal(const ListedRecord& visit) {
  SINTER_ASSIGN_OR_RETURN(LocalStore * local, Records());
  Flush();
  return ListStore(local, visit);
}

absl::StatusOr<ClearReport> TieredStore::Clear(bool dry_run) {
  SINTER_ASSIGN_OR_RETURN(LocalStore * local, dry_run ? Records() : Writable());
  Flush();
  return ClearStore(local, dry_run);
}

absl::StatusOr<ImportReport> TieredStore::Import(const PackReader& pack) {
  SINTER_ASSIGN_OR_RETURN(LocalStore * local, Writable());
  return ImportPack(pack, local, check_);
}

absl::StatusOr<SweepReport> TieredStore::Trim(uint64_t max_bytes) {
  SINTER_ASSIGN_OR_RETURN(LocalStore * local, Writable());
  Flush();
  SweepLimits limits;
  limits.max_bytes = max_bytes;
  return Sweep(local, limits);
}

StoreStats TieredStore::Stats() const {
  StoreStats stats;
  stats.memory_hits = memory_hits_.load(std::memory_order_relaxed);
  stats.local_hits = local_hits_.load(std::memory_order_relaxed);
  stats.remote_hits = remote_hits_.load(std::memory_order_relaxed);
  if (remote_ != nullptr) {
    const RemoteStats remote = remote_->stats();
    stats.remote_puts = remote.puts;
    stats.remote_errors = remote.errors + remote.refused;
    stats.remote_opened = remote.opened;
  }
  stats.pack_hits = pack_hits_.load(std::memory_order_relaxed);
  stats.packs_open = packs_.size();
  stats.packs_refused = packs_refused_;
  stats.puts = puts_.load(std::memory_order_relaxed);
  stats.put_failures = put_failures_.load(std::memory_order_relaxed);
  stats.quarantined = quarantines_.load(std::memory_order_relaxed);
  for (size_t i = 0; i < misses_.size(); ++i)
    stats.misses[i] = misses_[i].load(std::memory_order_relaxed);
  if (local_ != nullptr) local_->AddTo(&stats);
  return stats;
}

namespace {

// How much a differing field separates two keys: an entry for another chain is no help, one for
// another bucket is nearly right.
constexpr int kSubject = 1000, kShape = 10, kVersion = 1;

// Fields that differ, and their weight.
class Fields {
 public:
  template <typename T>
  void Shown(const char* name, const T& got, const T& want, int weight) {
    if (got == want) return;
    distance_ += weight;
    texts_.push_back(absl::StrCat(name, " is ", got, ", want ", want));
  }
  template <typename T>
  void Named(const char* name, const T& got, const T& want, int weight) {
    if (got == want) return;
    distance_ += weight;
    texts_.push_back(absl::StrCat("another ", name));
  }
  int distance() const { return distance_; }
  std::string Text() const { return absl::StrJoin(texts_, "; "); }

 private:
  int distance_ = 0;
  std::vector<std::string> texts_;
};

Fields CompareKeys(const PlanKey& got, const PlanKey& want) {
  Fields fields;
  fields.Named("chain", got.chain, want.chain, kSubject);
  fields.Shown("bucket", got.bucket, want.bucket, kShape);
  fields.Named("device model", got.device_model, want.device_model, kShape);
  fields.Shown("library", got.library_version, want.library_version, kVersion);
  fields.Shown("search version", got.search_version, want.search_version, kVersion);
  fields.Shown("flags", got.flags, want.flags, kShape);
  fields.Named("tuning set", got.tuning_set, want.tuning_set, kVersion);
  fields.Shown("format", got.format_version, want.format_version, kVersion);
  return fields;
}

Fields CompareKeys(const KernelKey& got, const KernelKey& want) {
  Fields fields;
  fields.Named("kernel", got.code, want.code, kSubject);
  fields.Named("schedule", got.schedule, want.schedule, kShape);
  fields.Named("source", got.source, want.source, kVersion);
  fields.Named("device headers", got.device_headers, want.device_headers, kVersion);
  fields.Shown("arch", got.arch, want.arch, kShape);
  fields.Shown("options", absl::StrJoin(got.options, " "), absl::StrJoin(want.options, " "),
               kVersion);
  fields.Shown("toolchain", got.toolchain_id, want.toolchain_id, kVersion);
  fields.Shown("format", got.format_version, want.format_version, kVersion);
  return fields;
}

}  // namespace

Nearest::Difference Nearest::Compare(RecordKind kind, absl::string_view got,
                                     absl::string_view want) {
  const auto difference = [](const auto& a, const auto& b) -> Difference {
    if (!a.ok() || !b.ok()) return {2 * kSubject, "its key is of another format"};
    const Fields fields = CompareKeys(*a, *b);
    return {fields.distance(), fields.Text()};
  };
  return kind == RecordKind::kPlan ? difference(DecodePlanKey(got), DecodePlanKey(want))
                                   : difference(DecodeKernelKey(got), DecodeKernelKey(want));
}

void Nearest::Offer(RecordKind kind, absl::string_view key, absl::string_view where) {
  if (kind != kind_) return;
  ++offered_;
  Difference difference = Compare(kind, key, key_);
  if (difference.distance >= distance_) return;
  distance_ = difference.distance;
  best_ = absl::StrCat(Sha256(key).Hex().substr(0, 16), " in ", where, ": ",
                       difference.text.empty() ? "the same key" : difference.text);
}

std::string Nearest::Explain() const {
  const char* what = kind_ == RecordKind::kPlan ? "plans" : "kernels";
  if (offered_ == 0) return absl::StrCat("the cache holds no ", what);
  return absl::StrCat("nearest of ", offered_, " ", what, " is ", best_);
}

}  // namespace sinter
