#include "absl/strings/str_cat.h"
#include "cache/store/table.h"
#include "src/base/codec.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kWordBytes = 4;  // of a restart point, and of their count

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("table: ", what));
}

bool TakeVarint(absl::string_view* in, uint64_t* out) {
  *out = 0;
  for (int shift = 0; shift < 64 && !in->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(in->front());
    in->remove_prefix(1);
    *out |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// Takes one entry off the front of `in` and returns its value.
absl::StatusOr<absl::string_view> TakeEntry(absl::string_view* in) {
  uint64_t shared = 0, key = 0, value = 0;
  if (!TakeVarint(in, &shared) || !TakeVarint(in, &key) || !TakeVarint(in, &value)) {
    return Malformed("an entry ends early");
  }
  if (shared != 0) return Malformed("a key that shares a prefix");
  if (key > in->size() || value > in->size() - key) return Malformed("an entry passes the block");
  const absl::string_view taken = in->substr(key, value);
  in->remove_prefix(key + value);
  return taken;
}

// The block that an index entry names must begin at `*next`, which is moved behind it.
absl::Status CheckHandle(absl::string_view handle, uint64_t index_at, uint64_t* next) {
  uint64_t offset = 0, bytes = 0;
  if (!TakeVarint(&handle, &offset) || !TakeVarint(&handle, &bytes) || !handle.empty()) {
    return Malformed("an index entry names no block");
  }
  if (offset != *next) return Malformed("the index's blocks do not adjoin");
  if (bytes > kMostBlockBytes || bytes + kBlockTrailerBytes > index_at - offset) {
    return Malformed(absl::StrCat("the index names a block of ", bytes, " bytes"));
  }
  *next = offset + bytes + kBlockTrailerBytes;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<uint64_t> CheckFooter(absl::string_view footer, uint64_t table_bytes) {
  uint64_t meta_at = 0, meta_bytes = 0, index_at = 0, index_bytes = 0;
  if (!TakeVarint(&footer, &meta_at) || !TakeVarint(&footer, &meta_bytes) ||
      !TakeVarint(&footer, &index_at) || !TakeVarint(&footer, &index_bytes)) {
    return Malformed("footer");
  }
  const uint64_t end = table_bytes - kTableFooterBytes;
  if (index_at > end || index_bytes > end || index_at + index_bytes + kBlockTrailerBytes != end) {
    return Malformed("the index does not end at the footer");
  }
  return index_at;
}

absl::Status CheckBlock(absl::string_view block, BlockRole role, uint64_t index_at) {
  if (block.size() < kWordBytes + kBlockTrailerBytes) return Malformed("a block ends early");
  const size_t count_at = block.size() - kBlockTrailerBytes - kWordBytes;
  if (block[count_at + kWordBytes] != 0) return Malformed("a compressed block");
  const uint64_t count = ByteReader(block.substr(count_at, kWordBytes)).U32();
  if (count == 0 || count > count_at / kWordBytes) return Malformed("a block's restart points");
  if (role == BlockRole::kRecord && count != 1)
    return Malformed("a block of more than one restart");
  const size_t entries_end = count_at - count * kWordBytes;
  ByteReader restarts(block.substr(entries_end, count * kWordBytes));
  absl::string_view left = block.substr(0, entries_end);
  uint64_t entries = 0, next_block = 0;
  for (; !left.empty(); ++entries) {
    if (entries == count) return Malformed("more than one entry at a restart point");
    if (restarts.U32() != entries_end - left.size())
      return Malformed("a restart point between entries");
    SINTER_ASSIGN_OR_RETURN(const absl::string_view value, TakeEntry(&left));
    if (role == BlockRole::kIndex) {
      SINTER_RETURN_IF_ERROR(CheckHandle(value, index_at, &next_block));
    }
  }
  // A block without entries still has one restart point.
  if (entries == 0 && role == BlockRole::kIndex && count == 1 && restarts.U32() == 0) {
    return absl::OkStatus();
  }
  return entries == count ? absl::OkStatus()
                          : Malformed("a block of fewer entries than restart points");
}

}  // namespace sinter
