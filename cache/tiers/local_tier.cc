#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cache/record/record.h"
#include "cache/store/local_store.h"
#include "cache/tiers/tiers.h"
#include "src/base/digest.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kSweepShare = 32;  // part of the cap that this process writes between two sweeps
// Each lock takes a descriptor of the host process, and the queue may get long if the disk does not
// answer. Jobs queued beyond this many let their lock go, at the risk of a build done twice.
constexpr size_t kMostHeldLocks = 256;
constexpr std::chrono::seconds kCountInterval(60);

}  // namespace

LocalTier::LocalTier(const TierOptions& options)
    : options_(options), unswept_bytes_(options.local_bytes) {
  if (options_.local_root.empty()) {
    usable_ = Unavailable("no local tier");
    return;
  }
  OpenStore();
  if (usable_.ok() && options_.write_behind) {
    writer_ = std::make_unique<WorkQueue>(options_.queue_bytes, options_.queue_jobs);
  }
}

LocalTier::~LocalTier() = default;

void LocalTier::OpenStore() {
  LocalStoreOptions options;
  options.root = options_.local_root;
  options.producer = options_.producer;
  options.sync = options_.sync;
  options.ops = options_.ops;
  options.format = options_.format;
  store_ = std::make_unique<LocalStore>(std::move(options));
  usable_ = store_->usable();
}

Lookup LocalTier::Get(const Id& id, absl::string_view key) {
  Payload waiting;
  if (writer_ != nullptr) {
    const auto state = waiting_.Lock();
    const auto write = state->writes.find(id);
    if (write != state->writes.end()) waiting = write->second;
  }
  if (waiting == nullptr || IsQuarantined(id, nullptr))
    return store_->Get(id.first, key, id.second);
  Lookup hit;
  hit.hit = true;
  hit.payload = SharedBytes(waiting, *waiting);
  hit.tier = "local";
  return hit;
}

void LocalTier::Put(const Id& id, absl::string_view key, Payload payload,
                    const std::set<Digest>& refused) {
  if (writer_ == nullptr) return Write(id, key, *payload, refused);
  bool queued = false;
  try {
    waiting_.Lock()->writes[id] = payload;
    const auto write = [this, id, name = std::string(key), payload, refused, lock = HeldLock(id)] {
      Write(id, name, *payload, refused);
      StopWaiting(id, payload);
    };
    queued = writer_->Push(payload->size() + key.size(), write);
  } catch (const std::bad_alloc&) {
    // The job is dropped, like one that does not fit into the queue.
  }
  if (queued) return;
  dropped_.fetch_add(1, std::memory_order_relaxed);
  StopWaiting(id, payload);
}

void LocalTier::StopWaiting(const Id& id, const Payload& payload) {
  const auto state = waiting_.Lock();
  const auto write = state->writes.find(id);
  if (write != state->writes.end() && write->second == payload) state->writes.erase(write);
}

void LocalTier::Write(const Id& id, absl::string_view key, const std::string& payload,
                      const std::set<Digest>& refused) {
  try {
    if (!refused.empty()) store_->PutAway(id.first, key, id.second, refused);
    const absl::Status status = store_->Put(id.first, key, id.second, payload);
    if (status.ok()) return SweepIfDue(payload.size());
    failures_.fetch_add(1, std::memory_order_relaxed);
    const LogLevel level = warned_.exchange(true) ? LogLevel::kDebug : LogLevel::kWarn;
    options_.log.Log(level, absl::StrCat("cache: record not stored: ", status.message()));
  } catch (const std::bad_alloc&) {
    failures_.fetch_add(1, std::memory_order_relaxed);
  }
}

void LocalTier::SweepIfDue(uint64_t bytes) {
  const uint64_t cap = options_.local_bytes;
  if (cap == 0 || unswept_bytes_.fetch_add(bytes) + bytes < cap / kSweepShare) return;
  unswept_bytes_ = 0;
  SweepLimits limits;
  limits.max_bytes = cap;
  const auto report = Sweep(store_.get(), limits);
  if (!report.ok()) return;
  evicted_.fetch_add(report->evicted, std::memory_order_relaxed);
  evicted_bytes_.fetch_add(report->evicted_bytes, std::memory_order_relaxed);
}

void LocalTier::CountNow() {
  const absl::StatusOr<std::vector<StoredEntry>> entries = store_->List();
  if (!entries.ok()) return;
  std::array<uint64_t, 2> records{}, bytes{};
  for (const StoredEntry& entry : *entries) {
    const size_t kind = entry.kind == RecordKind::kKernel ? 1 : 0;
    ++records[kind];
    bytes[kind] += entry.bytes;
  }
  const auto contents = contents_.Lock();
  contents->counted = true;
  contents->records = records;
  contents->bytes = bytes;
}

void LocalTier::CountRecords() {
  if (writer_ == nullptr || !usable_.ok()) return;
  const auto now = std::chrono::steady_clock::now();
  {
    const auto contents = contents_.Lock();
    if (contents->asked != std::chrono::steady_clock::time_point() &&
        now - contents->asked < kCountInterval) {
      return;
    }
    contents->asked = now;
  }
  try {
    writer_->Push(0, [this] { CountNow(); });
  } catch (const std::bad_alloc&) {  // the next call after the interval tries again
  }
}

absl::Status LocalTier::Quarantine(const Id& id, absl::string_view why) {
  waiting_.Lock()->writes.erase(id);
  return store_->Quarantine(id.first, id.second, why);
}

bool LocalTier::IsQuarantined(const Id& id, std::string* why) const {
  return store_->IsQuarantined(id.first, id.second, why);
}

std::shared_ptr<void> LocalTier::LockForBuild(const Id& id, int64_t budget_us) {
  std::shared_ptr<void> lock = store_->LockForBuild(id.first, id.second, budget_us);
  if (lock == nullptr || writer_ == nullptr) return lock;
  const auto state = waiting_.Lock();
  for (auto it = state->locks.begin(); it != state->locks.end();) {
    it = it->second.expired() ? state->locks.erase(it) : std::next(it);
  }
  state->locks[id] = lock;
  return lock;
}

bool LocalTier::IsBeingBuilt(const Id& id) const {
  return store_->LockForBuild(id.first, id.second, 0) == nullptr;
}

std::shared_ptr<void> LocalTier::HeldLock(const Id& id) {
  const auto state = waiting_.Lock();
  if (state->writes.size() > kMostHeldLocks) return nullptr;
  const auto lock = state->locks.find(id);
  return lock == state->locks.end() ? nullptr : lock->second.lock();
}

void LocalTier::Flush() {
  if (writer_ != nullptr) writer_->Flush();
}

void LocalTier::AddTo(StoreStats* stats) const {
  {
    const auto contents = contents_.Lock();
    stats->counted = contents->counted;
    stats->plans.stored = contents->records[0];
    stats->plans.stored_bytes = contents->bytes[0];
    stats->kernels.stored = contents->records[1];
    stats->kernels.stored_bytes = contents->bytes[1];
  }
  stats->put_failures += failures_.load(std::memory_order_relaxed);
  stats->puts_dropped += dropped_.load(std::memory_order_relaxed);
  stats->evicted += evicted_.load(std::memory_order_relaxed);
  if (store_ != nullptr) stats->quarantined += store_->moved_aside();
}

// The part of TieredStore that is not the Store port: explanations of misses, export and import,
// upkeep, counters.

namespace {

// Other processes find a record only once it is written, some milliseconds after its put.
constexpr char kBeingBuilt[] =
    "its build lock is held: another context or process builds it just now, or has it queued and "
    "not yet written (flush there, or ask again)";

// The envelope of a listed record; NOT_FOUND if it is gone, unsound or not wanted.
absl::StatusOr<std::string> PushedBytes(LocalStore* store, const StoredEntry& entry,
                                        const RecordFilter& wanted) {
  absl::StatusOr<std::string> bytes = NotFound("record is gone or unsound");
  RecordVisitor visitor;
  visitor.record = [&](const Digest&, const Envelope& envelope) {
    if (wanted && !wanted(envelope.kind, envelope.key, envelope.payload)) {
      bytes = NotFound("record is not wanted");
    } else {
      bytes = EncodeEnvelope(envelope);
    }
    return absl::OkStatus();
  };
  SINTER_RETURN_IF_ERROR(store->Visit(entry, visitor));
  return bytes;
}

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
    return refused ? PermissionDenied(why) : Unavailable(why);
  }
  return local_->records();
}

absl::StatusOr<LocalStore*> TieredStore::Writable() const {
  SINTER_ASSIGN_OR_RETURN(LocalStore * local, Records());
  if (read_only_) return Unavailable("cache: the local tier is read-only");
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
  limits.kernels_of = kernels_of_;
  return Sweep(local, limits);
}

absl::StatusOr<PushReport> TieredStore::Push(const RecordFilter& wanted) {
  if (remote_ == nullptr) {
    return FailedPrecondition(
        "cache push: no remote store is configured: set SINTER_REMOTE (redis://HOST) and "
        "SINTER_REMOTE_KEY_FILE");
  }
  SINTER_ASSIGN_OR_RETURN(LocalStore * local, Records());
  Flush();
  SINTER_ASSIGN_OR_RETURN(std::vector<StoredEntry> entries, local->List());
  // Kernels first: where a plan is found, its kernels are too.
  std::sort(entries.begin(), entries.end(), [](const StoredEntry& a, const StoredEntry& b) {
    return a.kind != b.kind ? a.kind == RecordKind::kKernel : a.digest < b.digest;
  });
  std::vector<Id> ids;
  for (const StoredEntry& entry : entries) ids.emplace_back(entry.kind, entry.digest);
  return remote_->Push(ids, [&](size_t i) { return PushedBytes(local, entries[i], wanted); });
}

absl::StatusOr<KeptReport> TieredStore::Kept() {
  SINTER_ASSIGN_OR_RETURN(LocalStore * local, Writable());
  Flush();
  SINTER_ASSIGN_OR_RETURN(const std::vector<StoredEntry> entries, local->List());
  KeptReport report;
  std::set<Id> there;
  for (const StoredEntry& entry : entries) {
    there.emplace(entry.kind, entry.digest);
    report.bytes += entry.bytes;
  }
  report.cap = local_bytes_;
  report.evicted = local_->evicted();
  // A sixteenth more: the same record is some bytes longer when it is made again, for it holds
  // times and is compressed.
  const uint64_t needed = report.bytes + local_->evicted_bytes();
  report.needed_bytes = needed + needed / 16;
  const auto used = used_.Lock();
  report.records = used->size();
  for (const Id& id : *used) {
    const bool packed = std::any_of(packs_.begin(), packs_.end(), [&](const auto& pack) {
      return pack->Has(id.first, id.second);
    });
    if (!packed && there.count(id) == 0) ++report.lost;
  }
  return report;
}

void TieredStore::KindCounters::AddTo(KindStats* stats) const {
  const auto value = [](const Counter& counter) { return counter.load(std::memory_order_relaxed); };
  stats->memory_hits = value(memory_hits);
  stats->local_hits = value(local_hits);
  stats->prefetched_hits = value(prefetched_hits);
  stats->pack_hits = value(pack_hits);
  stats->remote_hits = value(remote_hits);
  for (size_t i = 0; i < misses.size(); ++i) stats->misses[i] = value(misses[i]);
  stats->puts = value(puts);
  stats->hit_bytes = value(hit_bytes);
  stats->put_bytes = value(put_bytes);
  stats->lookups = lookups.Counts();
}

StoreStats TieredStore::Stats() const {
  StoreStats stats;
  plans_.AddTo(&stats.plans);
  kernels_.AddTo(&stats.kernels);
  for (const KindStats* kind : {&stats.plans, &stats.kernels}) {
    stats.memory_hits += kind->memory_hits;
    stats.local_hits += kind->local_hits + kind->prefetched_hits;
    stats.pack_hits += kind->pack_hits;
    stats.remote_hits += kind->remote_hits;
    stats.puts += kind->puts;
    for (size_t i = 0; i < std::size(stats.misses); ++i) stats.misses[i] += kind->misses[i];
  }
  if (remote_ != nullptr) {
    const RemoteStats remote = remote_->stats();
    stats.remote_puts = remote.puts;
    stats.remote_errors = remote.errors + remote.refused;
    stats.remote_opened = remote.opened;
    stats.remote_skipped = remote.skipped;
    stats.remote_withdrawn = remote.withdrawn;
    stats.prefetched = remote.prefetched;
  }
  stats.packs_open = packs_.size();
  stats.packs_refused = packs_refused_;
  stats.put_failures = put_failures_.load(std::memory_order_relaxed);
  stats.quarantined = quarantines_.load(std::memory_order_relaxed);
  if (local_ != nullptr) local_->AddTo(&stats);
  return stats;
}

namespace {

// How much a differing field separates two keys: an entry for another chain does not help, one for
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
