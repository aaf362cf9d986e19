#include "src/plan/report/intermediate_split.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "src/draw/units.h"
#include "src/product/dataflow/dataflow.h"

namespace sinter {

LevelBytes IntermediateSplit(const ProductSequence& p, const Schedule& s) {
  LevelBytes split{};
  if (p.size() < 2) return split;
  const int64_t row_bytes = std::min<int64_t>(s.block_m, p.rows()) * p.front().ResultBytes();
  const auto add = [&](MemoryLevel level, int64_t columns) {
    split[static_cast<size_t>(level)] = static_cast<double>(row_bytes * columns);
  };
  const int64_t kept = KeptColumns(p, s);
  const int64_t own = std::min<int64_t>(s.first.block_n / GateRanks(s), kept);
  add(MemoryLevel::kShared, own);
  add(MemoryLevel::kDsm, kept - own);
  if (RowOf(s).medium == Medium::kRegister) add(MemoryLevel::kRegister, p[0].n);
  if (WritesC(s)) add(MemoryLevel::kL2, p[0].n - kept);
  return split;
}

std::string IntermediateText(const ProductSequence& p, const Schedule& s) {
  const LevelBytes split = IntermediateSplit(p, s);
  std::vector<std::string> parts;
  for (size_t level = 0; level < kMemoryLevels; level++) {
    if (split[level] > 0) {
      parts.push_back(
          absl::StrCat(SizeText(split[level]), " ", NameOf(static_cast<MemoryLevel>(level))));
    }
  }
  if (parts.empty()) return "";
  return absl::StrCat("c of ", RangesOf(s) > 1 ? "a range of " : "",
                      "a row tile: ", absl::StrJoin(parts, " + "));
}

absl::string_view NameOf(MemoryLevel level) {
  switch (level) {
    case MemoryLevel::kRegister:
      return NameOf(Medium::kRegister);
    case MemoryLevel::kShared:
      return NameOf(Medium::kShared);
    case MemoryLevel::kDsm:
      return NameOf(Medium::kDsm);
    case MemoryLevel::kL2:
      return NameOf(Medium::kL2);
    case MemoryLevel::kGlobal:
      return "global memory";
    case MemoryLevel::kCount:
      break;
  }
  return "invalid";
}

}  // namespace sinter
