#include "src/engine/tuning_set.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "src/base/signing.h"
#include "src/base/status.h"
#include "src/base/transfer.h"

namespace sinter {
namespace {

absl::Status Refused(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("tuning set ", path, ": ", why));
}

absl::Status SystemError(const std::string& path, absl::string_view what) {
  const int code = errno;
  return Refused(path, absl::StrCat(what, ": ", std::generic_category().message(code)));
}

class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  int fd() const { return fd_; }
  // Whether closing succeeded; the file is closed in any case.
  bool Close() { return close(std::exchange(fd_, -1)) == 0; }

 private:
  int fd_;
};

}  // namespace

Digest ChipDigest(const DeviceModel& model) {
  return Sha256(absl::StrCat("sinter chip 1\n", model.name, "\n", model.arch, "\n", model.sm_count,
                             "\n", model.l2_bytes, "\n", model.shared_bytes_per_block, "\n",
                             model.registers_per_sm, "\n"));
}

void TuningSet::Add(TuningEntry entry) {
  const TuningKey key = entry.key;
  entries_[key] = std::move(entry);
}

void TuningSet::Merge(const TuningSet& other) {
  for (const auto& entry : other.entries_) entries_[entry.first] = entry.second;
}

const TuningEntry* TuningSet::Find(const TuningKey& key) const {
  const auto entry = entries_.find(key);
  return entry == entries_.end() ? nullptr : &entry->second;
}

bool TuningSet::HasChip(const Digest& chip) const {
  for (const auto& entry : entries_) {
    if (entry.first.chip == chip) return true;
  }
  return false;
}

absl::StatusOr<TuningSet> ReadTuningFile(const std::string& path) {
  // Opens without blocking: a named pipe is refused below, not waited for.
  const File file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.fd() < 0) return SystemError(path, "cannot be opened");
  struct stat info {};
  if (fstat(file.fd(), &info) != 0) return SystemError(path, "cannot be read");
  const absl::Status trusted = CheckTrustedFile(info);
  if (!trusted.ok()) return Refused(path, trusted.message());
  const uint64_t bytes = static_cast<uint64_t>(info.st_size);
  if (bytes > kMaxTuningFile) {
    return Refused(path, absl::StrCat(bytes, " bytes, must be at most ", kMaxTuningFile));
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  if (!ReadAll(file.fd(), &text)) return SystemError(path, "cannot be read");
  absl::StatusOr<TuningSet> set = TuningSet::FromText(text);
  if (!set.ok()) return Refused(path, set.status().message());
  return set;
}

absl::Status WriteTuningFile(const TuningSet& set, const std::string& path) {
  const std::string text = set.ToText();
  if (text.size() > kMaxTuningFile) {
    return Refused(path, absl::StrCat(text.size(), " bytes, must be at most ", kMaxTuningFile));
  }
  SINTER_ASSIGN_OR_RETURN(const std::string place, ReplaceablePath(path));
  std::string temporary = place + ".XXXXXX";
  File file(mkostemp(&temporary[0], O_CLOEXEC));
  if (file.fd() < 0) return SystemError(path, "cannot be written");
  const bool written = WriteAll(file.fd(), text) && fchmod(file.fd(), 0644) == 0 &&
                       fsync(file.fd()) == 0 && file.Close() &&
                       rename(temporary.c_str(), place.c_str()) == 0;
  if (written) return absl::OkStatus();
  const absl::Status status = SystemError(path, "cannot be written");
  unlink(temporary.c_str());
  return status;
}

}  // namespace sinter
