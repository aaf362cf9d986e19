// The parts of DatabaseStore that claim, open, check and open again.
#include <fcntl.h>
#include <leveldb/db.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cache/store/database_files.h"
#include "cache/store/database_handle.h"
#include "cache/store/database_store.h"
#include "src/base/codec.h"
#include "src/base/status.h"

namespace sinter {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kProbeBytes = size_t{1} << 20;
constexpr int64_t kLongestRetryMs = 60 * 1000;

}  // namespace

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
    options_.log.Log(LogLevel::kWarn, absl::StrCat("cache: the database was put aside, to ",
                                                   dir_->root(), "/v1/bad: ", status.message()));
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

}  // namespace sinter
