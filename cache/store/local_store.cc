#include "cache/store/local_store.h"

#include <ctime>
#include <new>

#include "absl/strings/str_cat.h"
#include "cache/record/record.h"
#include "cache/store/table.h"
#include "src/base/status.h"

namespace sinter {
namespace {

MissReason ReasonOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kNotFound:
      return MissReason::kAbsent;
    case absl::StatusCode::kPermissionDenied:
      return MissReason::kRefusedOwner;
    case absl::StatusCode::kDataLoss:
      return MissReason::kDamaged;
    default:
      return MissReason::kIoError;
  }
}

EnvelopeVerdict Refuse(const absl::Status& status) {
  EnvelopeVerdict verdict;
  verdict.reason = ReasonOf(status);
  verdict.detail = std::string(status.message());
  return verdict;
}

constexpr size_t kMostKnown = 4096;  // files; they take well below a megabyte

int64_t NowUnixSeconds() { return static_cast<int64_t>(time(nullptr)); }

// A record file and what the verifier says about it.
struct Found {
  SharedBytes bytes;    // what `verdict` points into
  struct stat st {};    // set when `opened`
  bool opened = false;  // the file was there and was read
  EnvelopeVerdict verdict;
};

// `known(stat)`: whether an opened file was verified before.
template <typename Known>
Found ReadRecord(const StoreDirectory& dir, RecordKind kind, absl::string_view key,
                 const Digest& digest, const RecordFormat& format, const Known& known) {
  Found found;
  const std::string path = RecordPath(kind, digest);
  auto file = ReadWholeFile(dir.ops(), dir.fd(), path, kMaxRecordFileBytes);
  if (!file.ok()) {
    found.verdict = Refuse(file.status());
    found.opened = absl::IsDataLoss(file.status()) &&
                   dir.ops()->StatAt(dir.fd(), path.c_str(), &found.st) == 0;
    return found;
  }
  found.st = file->st;
  found.opened = true;
  found.bytes = std::move(file->bytes);
  found.verdict = known(found.st) ? VerifyKnownRecordFile(found.bytes, kind, digest, key, format)
                                  : VerifyRecordFile(found.bytes, kind, digest, key, format);
  return found;
}

// `what` is a key or a digest, as `read` takes it.
template <typename What>
EnvelopeVerdict VerifyWith(EnvelopeVerdict read(absl::string_view, RecordKind, What,
                                                const RecordFormat&),
                           absl::string_view file, RecordKind kind, const Digest& digest, What what,
                           const RecordFormat& format) {
  const absl::StatusOr<TableEntry> entry = ReadTable(file);
  if (!entry.ok()) return Refuse(entry.status());
  EnvelopeVerdict verdict = read(entry->value, kind, what, format);
  if (verdict.ok && entry->user_key != TableUserKey(kind, digest)) {
    return Refuse(DataLoss("table: entry has another name"));
  }
  return verdict;
}

}  // namespace

EnvelopeVerdict VerifyRecordFile(absl::string_view file, RecordKind kind, const Digest& digest,
                                 absl::string_view key, const RecordFormat& format) {
  return VerifyWith<absl::string_view>(ReadEnvelopeFor, file, kind, digest, key, format);
}

EnvelopeVerdict VerifyKnownRecordFile(absl::string_view file, RecordKind kind, const Digest& digest,
                                      absl::string_view key, const RecordFormat& format) {
  return VerifyWith<absl::string_view>(ReadVouchedEnvelopeFor, file, kind, digest, key, format);
}

EnvelopeVerdict ReadRecordFile(absl::string_view file, RecordKind kind, const Digest& digest,
                               const RecordFormat& format) {
  return VerifyWith<const Digest&>(ReadEnvelopeOf, file, kind, digest, digest, format);
}

absl::Status CheckRecordSize(uint64_t bytes) {
  if (bytes <= kMaxRecordFileBytes) return absl::OkStatus();
  return OutOfRange("put: ", bytes, " bytes, at most ", kMaxRecordFileBytes);
}

LocalStore::LocalStore(LocalStoreOptions options) : options_(std::move(options)) {
  if (options_.ops == nullptr) options_.ops = std::make_shared<FileOps>();
  auto directory = Open();
  usable_ = directory.status();
  if (directory.ok()) *directory_.Lock() = *std::move(directory);
}

absl::StatusOr<LocalStore::DirectoryPtr> LocalStore::Open() const {
  return StoreDirectory::Open(options_.ops, DirectoryOptions{options_.root, options_.lock_folders});
}

// Also null in the child of a fork if a thread of the parent held the lock at that moment; then the
// folder is opened again.
LocalStore::DirectoryPtr LocalStore::Directory() const {
  DirectoryPtr directory = *directory_.Lock();
  if (directory != nullptr || !usable_.ok()) return directory;
  auto opened = Open();
  if (!opened.ok()) return nullptr;
  *directory_.Lock() = *opened;
  return *std::move(opened);
}

void LocalStore::Reopen() {
  auto directory = Open();
  if (directory.ok()) *directory_.Lock() = *std::move(directory);
}

void LocalStore::Touch(const StoreDirectory& dir, RecordKind kind, const Digest& digest,
                       const struct stat& seen) const {
  if (options_.touch_interval_s < 0) return;
  const int64_t age = NowUnixSeconds() - static_cast<int64_t>(seen.st_mtim.tv_sec);
  if (age >= 0 && age <= options_.touch_interval_s) return;
  (void)dir.ops()->TouchAt(dir.fd(), RecordPath(kind, digest).c_str());
}

void LocalStore::Use(RecordKind kind, const Digest& digest) const {
  const DirectoryPtr dir = Directory();
  struct stat seen;
  if (dir == nullptr) return;
  if (dir->ops()->StatAt(dir->fd(), RecordPath(kind, digest).c_str(), &seen) != 0) return;
  Touch(*dir, kind, digest, seen);
}

// Times are compared too: writing into a file changes them.
bool LocalStore::IsKnown(RecordKind kind, const Digest& digest, const struct stat& st) const {
  const auto known = known_.Lock();
  const auto it = known->find({kind, digest});
  if (it == known->end()) return false;
  const struct timespec &now = st.st_ctim, &then = it->second.st_ctim;
  return SameFile(st, it->second) && now.tv_sec == then.tv_sec && now.tv_nsec == then.tv_nsec;
}

void LocalStore::Know(RecordKind kind, const Digest& digest, const struct stat& st) const {
  const auto known = known_.Lock();
  if (known->size() >= kMostKnown) known->clear();
  (*known)[{kind, digest}] = st;
}

bool LocalStore::PutAside(const StoreDirectory& dir, RecordKind kind, const Digest& digest,
                          const struct stat& seen) {
  if (!MoveAside(dir, kind, digest, seen).ok()) return false;
  moved_aside_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

Lookup LocalStore::Get(RecordKind kind, absl::string_view key, const Digest& digest) {
  try {
    const DirectoryPtr dir = Directory();
    if (dir == nullptr) {
      const bool refused = absl::IsPermissionDenied(usable_);
      return Lookup::Miss(refused ? MissReason::kRefusedOwner : MissReason::kDisabled,
                          std::string(usable_.message()));
    }
    std::string why;
    const absl::StatusOr<bool> buried = IsBuried(*dir, kind, digest, &why);
    if (!buried.ok())
      return Lookup::Miss(MissReason::kIoError, std::string(buried.status().message()));
    if (*buried) return Lookup::Miss(MissReason::kQuarantined, std::move(why));
    const Found found =
        ReadRecord(*dir, kind, key, digest, options_.format,
                   [&](const struct stat& st) { return IsKnown(kind, digest, st); });
    if (!found.verdict.ok) {
      const MissReason reason = found.verdict.reason;
      if (reason == MissReason::kDamaged && found.opened) PutAside(*dir, kind, digest, found.st);
      if (reason == MissReason::kAbsent) return Lookup::Miss(reason, "");
      return Lookup::Miss(reason,
                          absl::StrCat(RecordPath(kind, digest), ": ", found.verdict.detail));
    }
    Know(kind, digest, found.st);
    Touch(*dir, kind, digest, found.st);
    Lookup hit;
    hit.hit = true;
    hit.payload = found.bytes.Slice(found.verdict.envelope.payload);
    hit.tier = "local";
    return hit;
  } catch (const std::bad_alloc&) {
    return Lookup::Miss(MissReason::kIoError, "out of memory");
  }
}

// Whether a put has nothing to do because the same or a better record is there. Moves a damaged one
// aside.
bool LocalStore::KeepsWhatIsThere(const StoreDirectory& dir, const Digest& digest,
                                  const Envelope& envelope) {
  const Found old = ReadRecord(dir, envelope.kind, envelope.key, digest, options_.format,
                               [](const struct stat&) { return false; });
  if (old.verdict.ok) {
    const Envelope& there = old.verdict.envelope;
    return (there.verified && !envelope.verified) || there.payload == envelope.payload;
  }
  if (old.verdict.reason == MissReason::kDamaged && old.opened) {
    PutAside(dir, envelope.kind, digest, old.st);
  }
  return false;
}

absl::Status LocalStore::PutOnce(const Digest& digest, const Envelope& envelope) {
  const DirectoryPtr dir = Directory();
  if (dir == nullptr) return Unavailable("put: the folder cannot be opened");
  const std::string path = RecordPath(envelope.kind, digest);
  SINTER_ASSIGN_OR_RETURN(const bool buried, IsBuried(*dir, envelope.kind, digest, nullptr));
  if (buried) return FailedPrecondition("put ", path, ": key is quarantined");
  // Look first: another process is often done already, and writing a table costs more than a look.
  if (KeepsWhatIsThere(*dir, digest, envelope)) return absl::OkStatus();
  const std::string bytes = EncodeEnvelope(envelope, options_.format);
  SINTER_RETURN_IF_ERROR(CheckRecordSize(bytes.size() + kMostTableOverhead));
  const auto write = [&](int fd) {
    try {
      return WriteTable(TableUserKey(envelope.kind, digest), bytes, [&](absl::string_view piece) {
        return WriteAll(dir->ops(), fd, piece, /*sync=*/false, path);
      });
    } catch (const std::bad_alloc&) {  // caught here so that what was begun is removed
      return ResourceExhausted("put: out of memory");
    }
  };
  const absl::Status fresh = Publish(*dir, path, write, PublishMode::kNew, options_.sync);
  if (!absl::IsAlreadyExists(fresh)) return fresh;
  if (KeepsWhatIsThere(*dir, digest, envelope)) return absl::OkStatus();
  return Publish(*dir, path, write, PublishMode::kReplace, options_.sync);
}

absl::Status LocalStore::PutRecord(const Digest& digest, const Envelope& envelope) {
  if (!usable_.ok()) return usable_;
  try {
    const absl::Status status = PutOnce(digest, envelope);
    if (!absl::IsNotFound(status)) return status;
    Reopen();  // somebody removed the folder
    return PutOnce(digest, envelope);
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("put: out of memory");
  }
}

absl::Status LocalStore::Put(RecordKind kind, absl::string_view key, const Digest& digest,
                             absl::string_view payload) {
  try {
    SINTER_RETURN_IF_ERROR(CheckRecordSize(key.size() + payload.size()));
    return PutRecord(digest, MakeEnvelope(kind, key, payload, options_.producer, NowUnixSeconds(),
                                          options_.format));
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("put: out of memory");
  }
}

bool LocalStore::PutAway(RecordKind kind, absl::string_view key, const Digest& digest,
                         const std::set<Digest>& payloads) {
  try {
    const DirectoryPtr dir = Directory();
    if (dir == nullptr) return false;
    const Found there = ReadRecord(*dir, kind, key, digest, options_.format,
                                   [](const struct stat&) { return false; });
    if (!there.verdict.ok) return false;
    if (payloads.count(Sha256(there.verdict.envelope.payload)) == 0) return false;
    return PutAside(*dir, kind, digest, there.st);
  } catch (const std::bad_alloc&) {
    return false;
  }
}

absl::Status LocalStore::Quarantine(RecordKind kind, const Digest& digest, absl::string_view why) {
  if (!usable_.ok()) return usable_;
  DirectoryPtr dir = Directory();
  if (dir != nullptr) {
    const absl::Status status = Bury(*dir, kind, digest, why);
    if (!absl::IsNotFound(status)) return status;
  }
  Reopen();
  dir = Directory();
  if (dir == nullptr) return Unavailable("quarantine: the folder cannot be opened");
  return Bury(*dir, kind, digest, why);
}

bool LocalStore::IsQuarantined(RecordKind kind, const Digest& digest, std::string* why) const {
  const DirectoryPtr dir = Directory();
  return dir != nullptr && IsBuried(*dir, kind, digest, why).value_or(false);
}

std::shared_ptr<void> LocalStore::LockForBuild(RecordKind kind, const Digest& digest,
                                               int64_t budget_us) const {
  DirectoryPtr dir = Directory();
  return dir == nullptr ? nullptr : LockKey(std::move(dir), kind, digest, budget_us);
}

std::shared_ptr<void> LocalStore::LockJanitor() const {
  DirectoryPtr dir = Directory();
  return dir == nullptr ? nullptr : LockJanitorByte(std::move(dir));
}

}  // namespace sinter
