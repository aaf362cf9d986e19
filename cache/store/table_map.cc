#include "cache/store/table_map.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "src/base/codec.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kKeyTrailerBytes = 8;
constexpr uint64_t kLastKeyType = 1;      // 0: a deletion, 1: a value
constexpr uint8_t kFilterBaseLog = 11;    // a filter for each 2 KiB of the table
constexpr uint64_t kFilterTailBytes = 5;  // where its offsets begin, and kFilterBaseLog

absl::Status BadTable(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("table: ", what));
}

uint64_t TrailerOf(absl::string_view key) {
  return ByteReader(key.substr(key.size() - kKeyTrailerBytes)).U64();
}

// Where the entries of a block end, and its restart points.
struct Restarts {
  absl::string_view entries;
  std::vector<uint32_t> points;
};

absl::StatusOr<Restarts> TakeRestarts(absl::string_view contents, absl::string_view what) {
  const auto bad = [&] { return BadTable(absl::StrCat(what, " block: restart points")); };
  if (contents.size() < 8 || contents.size() > std::numeric_limits<uint32_t>::max()) return bad();
  const uint32_t count = ByteReader(contents.substr(contents.size() - 4)).U32();
  if (count == 0 || count > (contents.size() - 4) / 4) return bad();
  Restarts restarts;
  restarts.entries = contents.substr(0, contents.size() - 4 - uint64_t{4} * count);
  ByteReader points(contents.substr(restarts.entries.size()));
  restarts.points.reserve(count);
  for (uint32_t i = 0; i < count; ++i) restarts.points.push_back(points.U32());
  return restarts;
}

// Calls `visit(key, value)` for each entry of a block's contents. Every length lies inside the
// block, every restart point is an entry that shares nothing.
template <typename Visit>
absl::Status WalkBlock(absl::string_view contents, absl::string_view what, const Visit& visit) {
  const auto bad = [&](absl::string_view why) {
    return BadTable(absl::StrCat(what, " block: ", why));
  };
  SINTER_ASSIGN_OR_RETURN(const Restarts restarts, TakeRestarts(contents, what));
  absl::string_view left = restarts.entries;
  std::string key;
  size_t restart = 0;
  while (!left.empty()) {
    const uint64_t at = restarts.entries.size() - left.size();
    EntryLengths lengths;
    if (!TakeLengths(&left, &lengths) || lengths.key > left.size() ||
        lengths.value > left.size() - lengths.key) {
      return bad("an entry passes the end");
    }
    const uint64_t shared = lengths.shared, own = lengths.key;
    if (shared > key.size()) return bad("an entry shares more than there is");
    if (shared + own > kMostTableKeyBytes) {
      return bad(absl::StrCat("a key of ", shared + own, " bytes, at most ", kMostTableKeyBytes));
    }
    if (restart < restarts.points.size() && restarts.points[restart] == at) {
      if (shared != 0) return bad("a restart point shares");
      ++restart;
    } else if (at == 0) {
      return bad("no restart point at its start");
    }
    key.resize(shared);
    key.append(left.data(), own);
    SINTER_RETURN_IF_ERROR(visit(key, left.substr(own, lengths.value), left.substr(0, own)));
    left.remove_prefix(own + lengths.value);
  }
  const bool empty = restarts.entries.empty() && restarts.points.size() == 1;
  if (empty && restarts.points[0] == 0) return absl::OkStatus();
  return restart == restarts.points.size() ? absl::OkStatus() : bad("a restart point is no entry");
}

// The contents of a block that was read whole, without its trailer.
absl::StatusOr<SharedBytes> ReadBlockAt(const TableBytes& read, const BlockSpan& span,
                                        uint64_t most, absl::string_view what) {
  if (span.size > most) {
    return BadTable(absl::StrCat(what, " block: ", span.size, " bytes, at most ", most));
  }
  SINTER_ASSIGN_OR_RETURN(const SharedBytes block,
                          read(span.offset, span.size + kBlockTrailerSize));
  SINTER_RETURN_IF_ERROR(CheckBlockCrc(block, what));
  return block.Slice(block.view().substr(0, span.size));
}

// Filters, then where each begins, then where those numbers begin, then the log of what each one is
// for.
absl::Status CheckFilter(absl::string_view filter) {
  if (filter.size() < kFilterTailBytes) return BadTable("filter block: ends early");
  const uint64_t end = filter.size() - kFilterTailBytes;
  const uint64_t filters = ByteReader(filter.substr(end)).U32();
  if (filters > end || (end - filters) % 4 != 0 ||
      static_cast<uint8_t>(filter.back()) != kFilterBaseLog) {
    return BadTable("filter block: its tail");
  }
  ByteReader offsets(filter.substr(filters, end - filters));
  uint64_t before = 0;
  while (offsets.remaining() > 0) {
    const uint64_t offset = offsets.U32();
    if (offset < before || offset > filters) return BadTable("filter block: an offset");
    before = offset;
  }
  return absl::OkStatus();
}

}  // namespace

int CompareTableKeys(KeyOrder order, absl::string_view a, absl::string_view b) {
  if (order == KeyOrder::kBytes) return a.compare(b);
  const int names =
      a.substr(0, a.size() - kKeyTrailerBytes).compare(b.substr(0, b.size() - kKeyTrailerBytes));
  if (names != 0) return names;
  const uint64_t left = TrailerOf(a), right = TrailerOf(b);
  return left > right ? -1 : left < right ? 1 : 0;
}

absl::Status CheckTableKey(KeyOrder order, absl::string_view key) {
  if (order == KeyOrder::kBytes) return absl::OkStatus();
  if (key.size() < kKeyTrailerBytes) {
    return BadTable(absl::StrCat("a key of ", key.size(), " bytes, at least ", kKeyTrailerBytes));
  }
  const uint64_t type = TrailerOf(key) & 0xff;
  return type <= kLastKeyType ? absl::OkStatus() : BadTable(absl::StrCat("a key of type ", type));
}

absl::StatusOr<TableMap> TableMap::Read(const TableBytes& read, uint64_t file_bytes, KeyOrder order,
                                        uint64_t most_index_bytes) {
  if (file_bytes < kTableFooterBytes) return BadTable(absl::StrCat(file_bytes, " bytes"));
  TableMap map;
  map.order_ = order;
  map.file_bytes_ = file_bytes;
  map.most_index_bytes_ = most_index_bytes;
  SINTER_ASSIGN_OR_RETURN(map.footer_, read(file_bytes - kTableFooterBytes, kTableFooterBytes));
  SINTER_ASSIGN_OR_RETURN(const TableFooter footer, ReadFooter(map.footer_, file_bytes));
  SINTER_RETURN_IF_ERROR(map.ReadIndex(read, footer.index));
  SINTER_RETURN_IF_ERROR(map.ReadMetaIndex(read, footer.meta));
  map.others_.push_back(footer.index);
  uint64_t end = map.data_bytes_;
  for (const BlockSpan& part : map.others_) {
    if (part.offset != end) return BadTable("blocks do not adjoin");
    end = part.offset + part.size + kBlockTrailerSize;
  }
  if (end + kTableFooterBytes != file_bytes) return BadTable("blocks do not adjoin");
  return map;
}

// Its entries share nothing, so their keys are slices of it.
absl::Status TableMap::ReadIndex(const TableBytes& read, const BlockSpan& index) {
  SINTER_ASSIGN_OR_RETURN(index_, ReadBlockAt(read, index, most_index_bytes_, "index"));
  return WalkBlock(
      index_, "index", [&](absl::string_view key, absl::string_view value, absl::string_view own) {
        Block block;
        block.last = own;
        if (own.size() != key.size()) return BadTable("index block: keys are shared");
        SINTER_RETURN_IF_ERROR(CheckTableKey(order_, own));
        if (!TakeHandle(&value, &block.span) || !value.empty()) {
          return BadTable("index block: a handle");
        }
        if (block.span.offset != data_bytes_ || !EndsBy(block.span, index.offset)) {
          return BadTable("index block: a handle names no data block");
        }
        if (!blocks_.empty() && CompareTableKeys(order_, blocks_.back().last, own) >= 0) {
          return BadTable("index block: order of keys");
        }
        data_bytes_ = block.span.offset + block.span.size + kBlockTrailerSize;
        blocks_.push_back(block);
        return absl::OkStatus();
      });
}

absl::Status TableMap::ReadMetaIndex(const TableBytes& read, const BlockSpan& meta) {
  SINTER_ASSIGN_OR_RETURN(const SharedBytes contents,
                          ReadBlockAt(read, meta, most_index_bytes_, "meta index"));
  SINTER_RETURN_IF_ERROR(WalkBlock(
      contents, "meta index",
      [&](absl::string_view key, absl::string_view value, absl::string_view) {
        BlockSpan filter;
        if (!absl::StartsWith(key, "filter.") || !others_.empty() || !TakeHandle(&value, &filter) ||
            !value.empty() || !EndsBy(filter, meta.offset)) {
          return BadTable("meta index block: an entry that names no filter");
        }
        others_.push_back(filter);
        return absl::OkStatus();
      }));
  if (!others_.empty()) {
    SINTER_ASSIGN_OR_RETURN(const SharedBytes filter,
                            ReadBlockAt(read, others_[0], most_index_bytes_, "filter"));
    SINTER_RETURN_IF_ERROR(CheckFilter(filter));
  }
  others_.push_back(meta);
  return absl::OkStatus();
}

absl::Status TableMap::CheckBlock(size_t i, absl::string_view block, std::string* first,
                                  std::string* last) const {
  const Block& named = blocks_[i];
  if (block.size() != named.span.size + kBlockTrailerSize) return BadTable("data block: its size");
  if (block[named.span.size] != kNoCompression) return BadTable("data block type");
  std::string before(i > 0 ? blocks_[i - 1].last : absl::string_view());
  bool any = i > 0;
  size_t entries = 0;
  SINTER_RETURN_IF_ERROR(
      WalkBlock(block.substr(0, named.span.size), "data",
                [&](absl::string_view key, absl::string_view, absl::string_view) {
                  SINTER_RETURN_IF_ERROR(CheckTableKey(order_, key));
                  if (any && CompareTableKeys(order_, before, key) >= 0) {
                    return BadTable("data block: order of keys");
                  }
                  before.assign(key.data(), key.size());
                  any = true;
                  if (entries++ == 0 && first != nullptr) *first = before;
                  return absl::OkStatus();
                }));
  if (entries == 0) return BadTable("data block: no entry");
  if (CompareTableKeys(order_, before, named.last) > 0) {
    return BadTable("data block: a key above what the index says");
  }
  if (last != nullptr) *last = std::move(before);
  return absl::OkStatus();
}

absl::Status TableMap::CheckPart(uint64_t offset, absl::string_view bytes) const {
  if (offset == file_bytes_ - kTableFooterBytes && bytes == footer_.view()) return absl::OkStatus();
  const auto above =
      std::upper_bound(blocks_.begin(), blocks_.end(), offset,
                       [](uint64_t at, const Block& block) { return at < block.span.offset; });
  const size_t i = static_cast<size_t>(above - blocks_.begin());
  if (i > 0 && blocks_[i - 1].span.offset == offset) {
    return CheckBlock(i - 1, bytes, nullptr, nullptr);
  }
  for (const BlockSpan& part : others_) {
    if (part.offset == offset && part.size + kBlockTrailerSize == bytes.size()) {
      return absl::OkStatus();
    }
  }
  return BadTable(absl::StrCat("no block of ", bytes.size(), " bytes lies at ", offset));
}

}  // namespace sinter
