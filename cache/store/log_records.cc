#include "cache/store/log_records.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cache/store/crc32c.h"
#include "src/base/codec.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kLogBlockBytes = 32 << 10;
constexpr uint64_t kLogHeaderBytes = 7;  // u32 masked CRC32C of type and data, u16 length, u8 type

enum Fragment : uint8_t { kZero = 0, kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

class LogVisitor {
 public:
  LogVisitor(absl::string_view path, const LogLimits& limits,
             const std::function<absl::Status(absl::string_view, uint64_t)>& visit)
      : path_(path), limits_(limits), visit_(visit) {}

  // `last`: the file ends with this block, which is not full.
  absl::Status Block(absl::string_view block, bool last) {
    while (block.size() >= kLogHeaderBytes) {
      const uint32_t crc = ByteReader(block).U32();
      const uint64_t length = static_cast<uint8_t>(block[4]) | static_cast<uint8_t>(block[5]) << 8;
      const auto type = static_cast<uint8_t>(block[6]);
      if (length > block.size() - kLogHeaderBytes) {
        return last ? absl::OkStatus() : Bad("a fragment passes its block");
      }
      if (type == kZero && length == 0) {  // a file may be made longer before it is written
        return inside_ ? Bad("a record breaks off") : absl::OkStatus();
      }
      if (MaskCrc(Crc32c(block.substr(6, 1 + length))) != crc) return Bad("crc differs");
      SINTER_RETURN_IF_ERROR(Take(type, block.substr(kLogHeaderBytes, length)));
      block.remove_prefix(kLogHeaderBytes + length);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Bad(absl::string_view what) const {
    return absl::DataLossError(absl::StrCat(path_, ": log: ", what));
  }

  absl::Status Take(uint8_t type, absl::string_view data) {
    if (type < kFull || type > kLast) return Bad(absl::StrCat("a fragment of type ", type));
    const bool begins = type == kFull || type == kFirst;
    if (begins == inside_) return Bad("fragments are out of order");
    if (begins) head_.clear();
    if (begins) bytes_ = 0;
    bytes_ += data.size();
    if (bytes_ > limits_.record_bytes) {
      return Bad(absl::StrCat("a record of more than ", limits_.record_bytes, " bytes"));
    }
    const uint64_t room = limits_.kept_bytes - std::min<uint64_t>(head_.size(), limits_.kept_bytes);
    head_.append(data.data(), static_cast<size_t>(std::min<uint64_t>(room, data.size())));
    inside_ = type == kFirst || type == kMiddle;
    return inside_ ? absl::OkStatus() : visit_(head_, bytes_);
  }

  const absl::string_view path_;
  const LogLimits limits_;
  const std::function<absl::Status(absl::string_view, uint64_t)>& visit_;
  bool inside_ = false;  // a record
  std::string head_;
  uint64_t bytes_ = 0;
};

}  // namespace

absl::Status VisitLogRecords(
    FileOps* ops, int fd, uint64_t file_bytes, absl::string_view path, const LogLimits& limits,
    const std::function<absl::Status(absl::string_view, uint64_t)>& visit) {
  LogVisitor visitor(path, limits, visit);
  for (uint64_t at = 0; at < file_bytes; at += kLogBlockBytes) {
    const uint64_t size = std::min(kLogBlockBytes, file_bytes - at);
    SINTER_ASSIGN_OR_RETURN(const SharedBytes block, ReadExactly(ops, fd, at, size, path));
    SINTER_RETURN_IF_ERROR(visitor.Block(block, size < kLogBlockBytes));
  }
  return absl::OkStatus();
}

}  // namespace sinter
