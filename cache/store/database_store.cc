#include "cache/store/database_store.h"

#include <fcntl.h>
#include <leveldb/cache.h>
#include <leveldb/db.h>
#include <leveldb/filter_policy.h>
#include <leveldb/write_batch.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <new>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/store/build_locks.h"
#include "cache/store/database_env.h"
#include "cache/store/database_files.h"
#include "cache/store/quarantine.h"
#include "cache/store/table.h"
#include "src/base/codec.h"
#include "src/base/status.h"

namespace sinter {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kFileBytes = size_t{64} << 20;  // fewer and larger files: far less rewriting
constexpr size_t kBlockCacheBytes = size_t{1} << 20;
constexpr size_t kProbeBytes = size_t{1} << 20;
constexpr int64_t kLongestRetryMs = 60 * 1000;
constexpr char kUsePrefix[] = "m/";  // then the user key: bytes and last use

int64_t NowUnixSeconds() { return static_cast<int64_t>(time(nullptr)); }

class NoLog : public leveldb::Logger {
 public:
  void Logv(const char*, std::va_list) override {}
};

leveldb::Slice ToSlice(absl::string_view v) { return leveldb::Slice(v.data(), v.size()); }
absl::string_view ToView(const leveldb::Slice& v) { return absl::string_view(v.data(), v.size()); }

leveldb::ReadOptions Reading(bool fill_cache) {
  leveldb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = fill_cache;
  return options;
}

// What LevelDB says, as the store says it: NOT_FOUND, DATA_LOSS or UNAVAILABLE.
absl::Status ToStatus(const leveldb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat("database: ", status.ToString());
  if (status.IsNotFound()) return absl::NotFoundError(text);
  if (status.IsCorruption()) return absl::DataLossError(text);
  return absl::UnavailableError(text);
}

std::string EncodeUse(uint64_t bytes, int64_t last) {
  ByteWriter out;
  out.U64(bytes);
  out.I64(last);
  return out.Take();
}

bool SplitName(absl::string_view name, RecordKind* kind, Digest* digest) {
  if (name.size() != 2 + digest->bytes.size()) return false;
  *kind = name[0] == 'k' ? RecordKind::kKernel : RecordKind::kPlan;
  for (size_t i = 0; i < digest->bytes.size(); ++i) {
    digest->bytes[i] = static_cast<uint8_t>(name[2 + i]);
  }
  return TableUserKey(*kind, *digest) == name;
}

}  // namespace

struct DatabaseStore::Handle {
  Handle(std::shared_ptr<const StoreDirectory> dir, bool sync)
      : env(std::move(dir), sync),
        filter(leveldb::NewBloomFilterPolicy(10)),
        cache(leveldb::NewLRUCache(kBlockCacheBytes)) {}

  leveldb::Options Options() {
    leveldb::Options options;
    options.create_if_missing = true;
    options.paranoid_checks = true;
    options.env = &env;
    options.info_log = &log;
    options.write_buffer_size = kFileBytes;
    options.max_file_size = kFileBytes;
    options.max_open_files = 200;
    options.block_cache = cache.get();
    options.compression = leveldb::kNoCompression;
    options.filter_policy = filter.get();
    return options;
  }

  DatabaseEnv env;
  NoLog log;
  std::unique_ptr<const leveldb::FilterPolicy> filter;
  std::unique_ptr<leveldb::Cache> cache;
  std::unique_ptr<leveldb::DB> db;  // last: it borrows the others
};

// ------------------------------------------------------------------ opening and closing

DatabaseStore::DatabaseStore(DatabaseStoreOptions options)
    : RecordStore(options.producer, options.format), options_(std::move(options)), pid_(getpid()) {
  if (options_.ops == nullptr) options_.ops = std::make_shared<FileOps>();
  retry_ms_ = options_.first_retry_ms;
  usable_ = Claim();
  if (usable_.ok()) usable_ = Open();
}

// In the child of a fork nothing of LevelDB may be touched, not even to destroy it.
DatabaseStore::~DatabaseStore() {
  if (!mine()) {
    (void)handle_.release();
    return;
  }
  if (handle_ != nullptr) StoreUses();
  handle_.reset();
  if (claim_.valid()) options_.ops->UnlockByte(claim_.get(), 0);
}

bool DatabaseStore::mine() const { return getpid() == pid_; }

absl::Status DatabaseStore::Claim() {
  SINTER_ASSIGN_OR_RETURN(
      dir_,
      StoreDirectory::Open(options_.ops, DirectoryOptions{options_.root, options_.lock_folders}));
  if (dir_->on_network()) {
    return absl::UnavailableError("database: the folder is on a network file system");
  }
  claim_ = Fd(options_.ops.get(),
              options_.ops->OpenAt(dir_->fd(), kDatabaseLock, O_RDWR | O_CREAT | O_NOFOLLOW, 0600));
  if (!claim_.valid()) {
    return absl::UnavailableError(ErrnoStatus(errno, "open", kDatabaseLock).message());
  }
  if (options_.ops->LockByte(claim_.get(), 0) == 0) return absl::OkStatus();
  const bool held = errno == EAGAIN;
  const absl::Status why = ErrnoStatus(errno, "lock", kDatabaseLock);
  claim_ = Fd();
  if (held) return absl::AbortedError("database: another store owns it");
  return absl::UnavailableError(why.message());
}

absl::Status DatabaseStore::Open() {
  absl::Status status = OpenChecked();
  if (absl::IsDataLoss(status)) {
    handle_.reset();
    SINTER_RETURN_IF_ERROR(MoveDatabaseAside(*dir_));
    moved_aside_.fetch_add(1, std::memory_order_relaxed);
    status = OpenChecked();
  }
  if (status.ok()) return status;
  handle_.reset();
  if (absl::IsPermissionDenied(status) || absl::IsAborted(status)) return status;
  return absl::UnavailableError(status.message());
}

absl::Status DatabaseStore::OpenChecked() {
  SINTER_RETURN_IF_ERROR(CheckDatabaseFolder(*dir_));
  handle_ = std::make_unique<Handle>(dir_, options_.sync);
  leveldb::DB* raw = nullptr;
  const leveldb::Status opened = leveldb::DB::Open(handle_->Options(), kDatabaseFolder, &raw);
  handle_->db.reset(raw);
  absl::Status status = ToStatus(opened);
  if (handle_->env.lock_held_elsewhere()) return absl::AbortedError(status.message());
  if (status.ok()) status = LoadIndex();
  // CURRENT was there: a file that is not is damage.
  return absl::IsNotFound(status) ? absl::DataLossError(status.message()) : status;
}

absl::Status DatabaseStore::LoadIndex() {
  const std::unique_ptr<leveldb::Iterator> it(handle_->db->NewIterator(Reading(false)));
  const absl::string_view prefix = kUsePrefix;
  std::lock_guard<std::mutex> lock(index_mutex_);
  uses_.clear();
  for (it->Seek(ToSlice(prefix)); it->Valid(); it->Next()) {
    const absl::string_view key = ToView(it->key());
    if (!absl::StartsWith(key, prefix)) break;
    ByteReader in(ToView(it->value()));
    Use use;
    use.bytes = in.U64();
    use.last = use.stored = in.I64();
    if (in.AtEnd()) uses_[std::string(key.substr(prefix.size()))] = use;
  }
  return ToStatus(it->status());
}

// Opening writes. On a full disk it would fail, and the handle that can still be read be lost.
bool DatabaseStore::DiskHasRoom() const {
  const Fd probe(options_.ops.get(),
                 options_.ops->OpenAt(dir_->fd(), ".", O_WRONLY | O_TMPFILE, 0600));
  if (!probe.valid()) return errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL;
  const std::string zeros(kProbeBytes, '\0');
  return WriteAll(options_.ops.get(), probe.get(), zeros, options_.sync, "probe").ok();
}

// write_mutex_ is held. True when the database is open afterwards and takes writes.
bool DatabaseStore::ReopenIfDue(bool put_aside) {
  if (Clock::now() < next_try_) return false;
  std::unique_lock<std::shared_mutex> lock(handle_mutex_);
  absl::Status status;
  if (!DiskHasRoom()) status = absl::UnavailableError("database: no room to open it again");
  if (status.ok()) handle_.reset();
  if (status.ok() && put_aside) {
    status = MoveDatabaseAside(*dir_);
    if (status.ok()) moved_aside_.fetch_add(1, std::memory_order_relaxed);
  }
  if (status.ok()) status = Open();
  broken_ = !status.ok();
  retry_ms_ = status.ok() ? options_.first_retry_ms : std::min(retry_ms_ * 2, kLongestRetryMs);
  next_try_ = Clock::now() + std::chrono::milliseconds(retry_ms_);
  return status.ok();
}

// ------------------------------------------------------------------ records

absl::Status DatabaseStore::Refusal() const {
  if (!mine()) return absl::UnavailableError("the database belongs to the parent of this fork");
  return usable_;
}

// write_mutex_ is held.
absl::Status DatabaseStore::Write(leveldb::WriteBatch* batch) {
  if (broken_ && !ReopenIfDue(/*put_aside=*/false)) {
    return absl::UnavailableError("database: broken, to be opened again later");
  }
  leveldb::WriteOptions options;
  options.sync = options_.sync;
  absl::Status status;
  {
    std::shared_lock<std::shared_mutex> lock(handle_mutex_);
    if (handle_ == nullptr) return absl::UnavailableError("database: not open");
    status = ToStatus(handle_->db->Write(options, batch));
  }
  if (status.ok()) return status;
  broken_ = true;
  // A damaged table stops compaction, and with it every write, for good.
  if (absl::IsDataLoss(status)) (void)ReopenIfDue(/*put_aside=*/true);
  return absl::UnavailableError(status.message());
}

Lookup DatabaseStore::Find(RecordKind kind, absl::string_view key, const std::string& name) {
  std::string value;
  absl::Status status;
  {
    std::shared_lock<std::shared_mutex> lock(handle_mutex_);
    if (handle_ == nullptr) return Lookup::Miss(MissReason::kIoError, "database: not open");
    status = ToStatus(handle_->db->Get(Reading(false), name, &value));
  }
  if (absl::IsNotFound(status)) return Lookup::Miss(MissReason::kAbsent, "");
  if (absl::IsUnavailable(status)) {
    return Lookup::Miss(MissReason::kIoError, std::string(status.message()));
  }
  if (!status.ok()) return Lookup::Miss(MissReason::kDamaged, std::string(status.message()));
  EnvelopeVerdict verdict = ReadEnvelopeFor(value, kind, key, format());
  if (!verdict.ok) return Lookup::Miss(verdict.reason, absl::StrCat("database: ", verdict.detail));
  Lookup hit;
  hit.hit = true;
  hit.payload = std::string(verdict.envelope.payload);
  hit.tier = "local";
  return hit;
}

Lookup DatabaseStore::Get(RecordKind kind, absl::string_view key, const Digest& digest) {
  const absl::Status refusal = Refusal();
  if (!refusal.ok()) {
    const bool foreign = absl::IsPermissionDenied(refusal);
    return Lookup::Miss(foreign ? MissReason::kRefusedOwner : MissReason::kDisabled,
                        std::string(refusal.message()));
  }
  try {
    const std::string name = TableUserKey(kind, digest);
    std::string why;
    const absl::StatusOr<bool> buried = IsBuried(*dir_, kind, digest, &why);
    if (!buried.ok())
      return Lookup::Miss(MissReason::kIoError, std::string(buried.status().message()));
    if (*buried) return Lookup::Miss(MissReason::kQuarantined, std::move(why));
    Heal();
    Lookup lookup = Find(kind, key, name);
    if (lookup.hit) {
      std::lock_guard<std::mutex> lock(index_mutex_);
      const auto use = uses_.find(name);
      if (use != uses_.end()) use->second.last = NowUnixSeconds();
    } else if (lookup.reason == MissReason::kDamaged && Forget(name)) {
      moved_aside_.fetch_add(1, std::memory_order_relaxed);
    }
    return lookup;
  } catch (const std::bad_alloc&) {
    return Lookup::Miss(MissReason::kIoError, "out of memory");
  }
}

// A record that cannot be read is shadowed by its deletion, so that it can be put again.
bool DatabaseStore::Forget(const std::string& name) {
  std::lock_guard<std::mutex> write(write_mutex_);
  leveldb::WriteBatch batch;
  batch.Delete(name);
  batch.Delete(absl::StrCat(kUsePrefix, name));
  if (!Write(&batch).ok()) return false;
  std::lock_guard<std::mutex> lock(index_mutex_);
  uses_.erase(name);
  return true;
}

// A handle that writes no more still reads: only where there is none is a new one sought.
void DatabaseStore::Heal() {
  if (!broken_) return;
  {
    std::shared_lock<std::shared_mutex> lock(handle_mutex_);
    if (handle_ != nullptr) return;
  }
  std::lock_guard<std::mutex> write(write_mutex_);
  if (broken_) (void)ReopenIfDue(/*put_aside=*/false);
}

bool DatabaseStore::KeepsWhatIsThere(const std::string& name, const Envelope& envelope) {
  std::string value;
  std::shared_lock<std::shared_mutex> lock(handle_mutex_);
  if (handle_ == nullptr || !handle_->db->Get(Reading(false), name, &value).ok()) return false;
  const EnvelopeVerdict old = ReadEnvelopeFor(value, envelope.kind, envelope.key, format());
  if (!old.ok) return false;
  const bool better = old.envelope.verified && !envelope.verified;
  return better || old.envelope.payload == envelope.payload;
}

absl::Status DatabaseStore::PutRecord(const Digest& digest, const Envelope& envelope) {
  SINTER_RETURN_IF_ERROR(Refusal());
  try {
    const std::string name = TableUserKey(envelope.kind, digest);
    const std::string value = EncodeEnvelope(envelope, format());
    SINTER_RETURN_IF_ERROR(CheckRecordSize(value.size()));
    std::lock_guard<std::mutex> write(write_mutex_);
    SINTER_ASSIGN_OR_RETURN(const bool buried, IsBuried(*dir_, envelope.kind, digest, nullptr));
    if (buried) {
      return absl::FailedPreconditionError("put: key is quarantined");
    }
    if (!broken_ && KeepsWhatIsThere(name, envelope)) return absl::OkStatus();
    return Store(name, value);
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("put: out of memory");
  }
}

// write_mutex_ is held.
absl::Status DatabaseStore::Store(const std::string& name, const std::string& value) {
  const int64_t now = NowUnixSeconds();
  leveldb::WriteBatch batch;
  batch.Put(name, value);
  batch.Put(absl::StrCat(kUsePrefix, name), EncodeUse(value.size(), now));
  SINTER_RETURN_IF_ERROR(Write(&batch));
  std::lock_guard<std::mutex> lock(index_mutex_);
  uses_[name] = Use{value.size(), now, now};
  return absl::OkStatus();
}

absl::Status DatabaseStore::PutUnread(RecordKind kind, const Digest& digest,
                                      absl::string_view envelope) {
  SINTER_RETURN_IF_ERROR(Refusal());
  SINTER_RETURN_IF_ERROR(CheckRecordSize(envelope.size()));
  const std::string name = TableUserKey(kind, digest);
  std::lock_guard<std::mutex> write(write_mutex_);
  SINTER_ASSIGN_OR_RETURN(const bool buried, IsBuried(*dir_, kind, digest, nullptr));
  if (buried) return absl::FailedPreconditionError("put: key is quarantined");
  {
    std::lock_guard<std::mutex> lock(index_mutex_);
    if (uses_.count(name) != 0) return absl::OkStatus();
  }
  return Store(name, std::string(envelope));
}

absl::Status DatabaseStore::Quarantine(RecordKind kind, const Digest& digest,
                                       absl::string_view why) {
  SINTER_RETURN_IF_ERROR(Refusal());
  SINTER_RETURN_IF_ERROR(Bury(*dir_, kind, digest, why));
  Forget(TableUserKey(kind, digest));  // for the room; the tombstone alone decides
  return absl::OkStatus();
}

bool DatabaseStore::IsQuarantined(RecordKind kind, const Digest& digest, std::string* why) const {
  return Refusal().ok() && IsBuried(*dir_, kind, digest, why).value_or(false);
}

std::shared_ptr<void> DatabaseStore::LockForBuild(RecordKind kind, const Digest& digest,
                                                  int64_t budget_us) const {
  return Refusal().ok() ? LockKey(dir_, kind, digest, budget_us) : nullptr;
}

// ------------------------------------------------------------------ janitor and conversion

absl::Status DatabaseStore::ForEach(const RecordVisitor& visitor) {
  SINTER_RETURN_IF_ERROR(Refusal());
  if (visitor.tombstone) SINTER_RETURN_IF_ERROR(ForEachTombstone(*dir_, visitor.tombstone));
  RecordKind kind;
  Digest digest;
  std::shared_lock<std::shared_mutex> lock(handle_mutex_);
  if (handle_ == nullptr) return absl::UnavailableError("database: not open");
  const std::unique_ptr<leveldb::Iterator> it(handle_->db->NewIterator(Reading(false)));
  for (it->SeekToFirst(); it->Valid(); it->Next()) {
    const absl::string_view name = ToView(it->key());
    if (!SplitName(name, &kind, &digest)) continue;
    const EnvelopeVerdict verdict = ReadEnvelope(ToView(it->value()), format());
    if (!verdict.ok && verdict.reason == MissReason::kOtherFormat) {
      if (!visitor.other_format) continue;
      SINTER_RETURN_IF_ERROR(visitor.other_format(kind, digest, ToView(it->value())));
      continue;
    }
    const bool sound =
        verdict.ok && verdict.envelope.kind == kind && Sha256(verdict.envelope.key) == digest;
    if (sound && visitor.record) {
      SINTER_RETURN_IF_ERROR(visitor.record(digest, verdict.envelope));
    } else if (!sound && visitor.unsound) {
      const std::string cause = verdict.ok ? "record of another key" : verdict.detail;
      SINTER_RETURN_IF_ERROR(visitor.unsound(digest.Hex(), cause));
    }
  }
  if (it->status().ok() || !visitor.unsound) return absl::OkStatus();
  return visitor.unsound(kDatabaseFolder, it->status().ToString());
}

absl::StatusOr<std::vector<StoredEntry>> DatabaseStore::List() {
  SINTER_RETURN_IF_ERROR(Refusal());
  std::vector<StoredEntry> entries;
  std::lock_guard<std::mutex> lock(index_mutex_);
  for (const auto& [name, use] : uses_) {
    StoredEntry entry;
    if (!SplitName(name, &entry.kind, &entry.digest)) continue;
    entry.bytes = use.bytes;
    entry.last_use_unix_s = use.last;
    entries.push_back(entry);
  }
  return entries;
}

bool DatabaseStore::Evict(const StoredEntry& entry) {
  if (!Refusal().ok()) return false;
  const std::string name = TableUserKey(entry.kind, entry.digest);
  {
    std::lock_guard<std::mutex> lock(index_mutex_);
    const auto use = uses_.find(name);
    if (use == uses_.end() || use->second.last != entry.last_use_unix_s) return false;
  }
  return Forget(name);
}

std::shared_ptr<void> DatabaseStore::LockJanitor() const {
  return Refusal().ok() ? std::make_shared<int>(0) : nullptr;  // no other process is in here
}

void DatabaseStore::Evicted() {
  if (!Refusal().ok()) return;
  StoreUses();
  std::shared_lock<std::shared_mutex> lock(handle_mutex_);
  if (handle_ != nullptr) handle_->db->CompactRange(nullptr, nullptr);
}

void DatabaseStore::StoreUses() {
  std::lock_guard<std::mutex> write(write_mutex_);
  leveldb::WriteBatch batch;
  bool any = false;
  {
    std::lock_guard<std::mutex> lock(index_mutex_);
    for (auto& [name, use] : uses_) {
      if (use.last - use.stored <= options_.touch_interval_s) continue;
      batch.Put(absl::StrCat(kUsePrefix, name), EncodeUse(use.bytes, use.last));
      use.stored = use.last;
      any = true;
    }
  }
  if (any) (void)Write(&batch);
}

}  // namespace sinter
