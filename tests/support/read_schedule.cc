#include "tests/support/read_schedule.h"

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "src/product/dataflow/dataflow.h"

namespace sinter {
namespace {

// The number after `name` in "name128".
bool IsField(absl::string_view word, absl::string_view name, int* value) {
  int number = 0;
  if (!absl::ConsumePrefix(&word, name) || !absl::SimpleAtoi(word, &number)) return false;
  *value = number;
  return true;
}

// A pair of numbers like 2x1 or 72/4; a number that is left out stays as it is.
bool ReadPair(absl::string_view text, char between, int* first, int* second) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(between, 1));
  return (parts.first.empty() || absl::SimpleAtoi(parts.first, first)) &&
         (parts.second.empty() || absl::SimpleAtoi(parts.second, second));
}

bool ReadDataflow(absl::string_view word, Schedule* s) {
  int number = 0;
  if (IsField(word, "dataflow", &number)) {
    s->dataflow = static_cast<Dataflow>(number);
    return true;
  }
  for (const DataflowRow* row : AllDataflows()) {
    if (word != row->name) continue;
    s->dataflow = row->dataflow;
    return true;
  }
  return false;
}

bool ReadShare(absl::string_view word, Schedule* s) {
  int number = 0;
  if (IsField(word, "share", &number)) {
    s->share = static_cast<Share>(number);
    return true;
  }
  for (const Share share : {Share::kNone, Share::kWeights, Share::kRows}) {
    if (word != absl::StrCat("share-", NameOf(share))) continue;
    s->share = share;
    return true;
  }
  return false;
}

bool ReadWord(absl::string_view word, Schedule* s) {
  const std::pair<const char*, int*> fields[] = {
      {"bm", &s->block_m}, {"bk", &s->block_k},
      {"st", &s->stages},  {"cl", &s->cluster},
      {"grid", &s->grid},  {"pushes", &s->pushes},
      {"ranges", &s->cut}, {"slab", &s->cut},
      {"cut", &s->cut},    {"columns", &s->pushed_columns}};
  for (const auto& [name, field] : fields)
    if (IsField(word, name, field)) return true;
  if (word == "swapped" || word == "unswapped") {
    s->swapped = word == "swapped";
    return true;
  }
  if (ReadDataflow(word, s) || ReadShare(word, s)) return true;
  return absl::ConsumePrefix(&word, "wg") &&
         ReadPair(word, 'x', &s->warpgroups_m, &s->warpgroups_n);
}

}  // namespace

Schedule With(Schedule schedule, absl::string_view words) {
  ProductTile* tile = nullptr;  // the one that "first" or "second" named last
  for (const absl::string_view word : absl::StrSplit(words, ' ', absl::SkipEmpty())) {
    if (tile == nullptr && (word == "first" || word == "second")) {
      tile = word == "first" ? &schedule.first : &schedule.second;
      continue;
    }
    const bool read = tile != nullptr ? ReadPair(word, '/', &tile->block_n, &tile->split_k)
                                      : ReadWord(word, &schedule);
    if (!read) throw std::runtime_error(absl::StrCat("schedules have no word ", word, ": ", words));
    tile = nullptr;
  }
  return schedule;
}

}  // namespace sinter
