#include "cache/store/database_manifest.h"

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cache/store/table_map.h"
#include "src/base/status.h"

namespace sinter {
namespace {

constexpr uint64_t kLevels = 7;
constexpr uint64_t kMostFileNumber = uint64_t{1} << 48;
constexpr uint64_t kMostTableBytes = uint64_t{1} << 40;
constexpr absl::string_view kComparator = "leveldb.BytewiseComparator";

enum Tag : uint64_t {
  kComparatorName = 1,
  kLogNumber = 2,
  kNextFile = 3,
  kLastSequence = 4,
  kCompactPointer = 5,
  kDeletedFile = 6,
  kNewFile = 7,
  kPrevLogNumber = 9,
};

absl::Status BadManifest(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("manifest: ", what));
}

absl::Status TakeNumber(absl::string_view* in, uint64_t most, absl::string_view what,
                        uint64_t* out) {
  if (!TakeVarint(in, 10, out)) return BadManifest(absl::StrCat(what, " ends early"));
  if (*out <= most) return absl::OkStatus();
  return BadManifest(absl::StrCat(what, " is ", *out, ", at most ", most));
}

absl::Status TakeText(absl::string_view* in, absl::string_view* out) {
  uint64_t size = 0;
  if (!TakeVarint(in, 5, &size) || size > in->size()) return BadManifest("a text ends early");
  *out = in->substr(0, size);
  in->remove_prefix(size);
  return absl::OkStatus();
}

absl::Status TakeKey(absl::string_view* in, std::string* out) {
  absl::string_view key;
  SINTER_RETURN_IF_ERROR(TakeText(in, &key));
  SINTER_RETURN_IF_ERROR(CheckTableKey(KeyOrder::kInternal, key));
  *out = std::string(key);
  return absl::OkStatus();
}

absl::Status TakeLevel(absl::string_view* in, int* out) {
  uint64_t level = 0;
  SINTER_RETURN_IF_ERROR(TakeNumber(in, kLevels - 1, "a level", &level));
  *out = static_cast<int>(level);
  return absl::OkStatus();
}

absl::Status TakeTable(absl::string_view* in, uint64_t* number, ManifestTable* table) {
  SINTER_RETURN_IF_ERROR(TakeLevel(in, &table->level));
  SINTER_RETURN_IF_ERROR(TakeNumber(in, kMostFileNumber, "a table's number", number));
  SINTER_RETURN_IF_ERROR(TakeNumber(in, kMostTableBytes, "a table's size", &table->bytes));
  SINTER_RETURN_IF_ERROR(TakeKey(in, &table->smallest));
  SINTER_RETURN_IF_ERROR(TakeKey(in, &table->largest));
  const bool ordered = CompareTableKeys(KeyOrder::kInternal, table->smallest, table->largest) <= 0;
  return ordered ? absl::OkStatus() : BadManifest("a table's keys are out of order");
}

}  // namespace

absl::Status DatabaseManifest::Add(absl::string_view edit) {
  std::set<Place> removed;
  std::map<uint64_t, ManifestTable> added;
  while (!edit.empty()) {
    uint64_t tag = 0, number = 0;
    int level = 0;
    absl::string_view text;
    std::string key;
    ManifestTable table;
    SINTER_RETURN_IF_ERROR(TakeNumber(&edit, kPrevLogNumber, "a tag", &tag));
    switch (tag) {
      case kComparatorName:
        SINTER_RETURN_IF_ERROR(TakeText(&edit, &text));
        if (text != kComparator) return BadManifest("its comparator is another one");
        break;
      case kLogNumber:
      case kPrevLogNumber:
        SINTER_RETURN_IF_ERROR(TakeNumber(&edit, kMostFileNumber, "a log's number", &log_));
        break;
      case kNextFile:
        SINTER_RETURN_IF_ERROR(
            TakeNumber(&edit, kMostFileNumber, "the next file's number", &next_file_));
        break;
      case kLastSequence:
        SINTER_RETURN_IF_ERROR(
            TakeNumber(&edit, kMostSequence, "the last sequence", &last_sequence_));
        break;
      case kCompactPointer:
        SINTER_RETURN_IF_ERROR(TakeLevel(&edit, &level));
        SINTER_RETURN_IF_ERROR(TakeKey(&edit, &key));
        break;
      case kDeletedFile:
        SINTER_RETURN_IF_ERROR(TakeLevel(&edit, &level));
        SINTER_RETURN_IF_ERROR(TakeNumber(&edit, kMostFileNumber, "a table's number", &number));
        removed.emplace(level, number);
        break;
      case kNewFile:
        SINTER_RETURN_IF_ERROR(TakeTable(&edit, &number, &table));
        if (!added.emplace(number, std::move(table)).second) {
          return BadManifest(absl::StrCat("table ", number, " comes twice"));
        }
        break;
      default:
        return BadManifest(absl::StrCat("tag ", tag));
    }
  }
  return Apply(removed, added);
}

// As LevelDB does: first what goes, then what comes, whatever their order was.
absl::Status DatabaseManifest::Apply(const std::set<Place>& removed,
                                     const std::map<uint64_t, ManifestTable>& added) {
  for (const Place& place : removed) {
    const auto table = tables_.find(place.second);
    if (table == tables_.end() || table->second.level != place.first) {
      return BadManifest(absl::StrCat("table ", place.second, " goes that is not there"));
    }
    tables_.erase(table);
  }
  for (const auto& [number, table] : added) {
    // LevelDB never gives a number again, and would keep both.
    const bool fresh = named_.emplace(table.level, number).second;
    if (!fresh || !tables_.emplace(number, table).second) {
      return BadManifest(absl::StrCat("table ", number, " comes twice"));
    }
  }
  return absl::OkStatus();
}

absl::Status DatabaseManifest::Check() const {
  std::map<int, std::vector<const ManifestTable*>> levels;
  for (const auto& [number, table] : tables_) {
    if (number >= next_file_) {
      return BadManifest(
          absl::StrCat("table ", number, " is to be written yet: the next file is ", next_file_));
    }
    if (table.level > 0) levels[table.level].push_back(&table);
  }
  for (auto& [level, tables] : levels) {
    const auto below = [](const ManifestTable* a, const ManifestTable* b) {
      return CompareTableKeys(KeyOrder::kInternal, a->smallest, b->smallest) < 0;
    };
    std::sort(tables.begin(), tables.end(), below);
    for (size_t i = 1; i < tables.size(); ++i) {
      if (CompareTableKeys(KeyOrder::kInternal, tables[i - 1]->largest, tables[i]->smallest) >= 0) {
        return BadManifest(absl::StrCat("tables of level ", level, " overlap"));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace sinter
