// Fuzz target over the index of a pack and the tables of a database: the input is the blocks of a
// table, whose checksums are made right before they are read. The first byte picks the order of its
// keys.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "cache/store/table_map.h"

namespace {

using sinter::BlockSpan;
using sinter::kBlockTrailerSize;
using sinter::kTableFooterBytes;

void Require(bool condition) {
  if (!condition) std::abort();
}

// Writes the trailer of a block where its handle lies inside the table, so that what is behind its
// checksum is reached.
void SealAt(const BlockSpan& span, std::string* table) {
  if (!sinter::EndsBy(span, table->size())) return;
  std::string block = table->substr(span.offset, span.size);
  sinter::SealBlock(0, &block);
  table->replace(span.offset, block.size(), block);
}

void SealParts(std::string* table) {
  if (table->size() < kTableFooterBytes) return;
  const auto footer =
      sinter::ReadFooter(table->substr(table->size() - kTableFooterBytes), table->size());
  if (!footer.ok()) return;
  // What lies between the meta index and the filter's handle is found by the sealed meta index.
  SealAt(footer->meta, table);
  SealAt(footer->index, table);
  const std::string name = "filter.leveldb.BuiltinBloomFilter2";
  const size_t at = table->find(name);
  if (at == std::string::npos) return;
  absl::string_view handle = absl::string_view(*table).substr(at + name.size());
  BlockSpan filter;
  if (sinter::TakeHandle(&handle, &filter)) SealAt(filter, table);
}

void ReadTable(const std::string& table, sinter::KeyOrder order) {
  uint64_t asked = 0;
  const auto read = [&](uint64_t offset, uint64_t size) -> absl::StatusOr<sinter::SharedBytes> {
    Require(offset <= table.size() && size <= table.size() - offset);  // nothing is asked past it
    asked += size;
    Require(asked <= 4 * table.size() + kTableFooterBytes);
    return sinter::SharedBytes(table.substr(offset, size));
  };
  const auto map = sinter::TableMap::Read(read, table.size(), order, 1 << 20);
  if (!map.ok()) return;
  uint64_t end = 0;
  std::string before;
  for (size_t i = 0; i < map->blocks().size(); ++i) {
    const BlockSpan& span = map->blocks()[i].span;
    Require(span.offset == end && sinter::EndsBy(span, table.size()));
    end = span.offset + span.size + kBlockTrailerSize;
    std::string first, last;
    const absl::string_view block =
        absl::string_view(table).substr(span.offset, span.size + kBlockTrailerSize);
    if (!map->CheckBlock(i, block, &first, &last).ok()) continue;
    Require(sinter::CompareTableKeys(order, first, last) <= 0);
    Require(before.empty() || sinter::CompareTableKeys(order, before, first) < 0);
    Require(map->CheckPart(span.offset, block).ok());
    Require(!map->CheckPart(span.offset, block.substr(1)).ok());
    before = last;
  }
  Require(end == map->data_bytes());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string table(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto order = data[0] % 2 == 0 ? sinter::KeyOrder::kBytes : sinter::KeyOrder::kInternal;
  ReadTable(table, order);
  SealParts(&table);
  ReadTable(table, order);
  return 0;
}
