#include "src/product/dataflow/list.h"

#include "src/product/dataflow/dataflow.h"

namespace sinter {
namespace {

#define SINTER_ROW(name) &k##name##Row,
constexpr const DataflowRow* kRows[] = {SINTER_DATAFLOWS(SINTER_ROW)};
#undef SINTER_ROW

constexpr DataflowRow kNoRow;

}  // namespace

absl::Span<const DataflowRow* const> AllDataflows() { return kRows; }

const DataflowRow& RowOf(Dataflow dataflow) {
  const size_t index = static_cast<size_t>(dataflow) - 1;
  return index < AllDataflows().size() ? *kRows[index] : kNoRow;
}

const DataflowRow* FindDataflow(uint8_t byte, uint8_t version) {
  for (const DataflowRow* row : kRows) {
    if (row->byte == byte && row->version == version) return row;
  }
  return nullptr;
}

absl::string_view NameOf(Dataflow dataflow) { return RowOf(dataflow).name; }

absl::string_view NameOf(Medium medium) {
  constexpr absl::string_view kNames[] = {"nothing", "registers", "shared memory", "DSM", "L2"};
  const auto index = static_cast<size_t>(medium);
  return index < 5 ? kNames[index] : "invalid";
}

int GateRanks(const Schedule& s) { return RowOf(s).gate_ranks; }
int FirstWidth(const ProductSequence& p, const Schedule& s) { return p[0].Width() / GateRanks(s); }
int RangesOf(const Schedule& s) { return RowOf(s).ranges ? s.cut : 1; }
int64_t KeptColumns(const ProductSequence& p, const Schedule& s) {
  return RowOf(s).kept_columns(p, s);
}
bool WritesC(const Schedule& s) { return RowOf(s).writes_c; }
bool IsCooperative(const Schedule& s) { return RowOf(s).cooperative; }

}  // namespace sinter
