#include "src/product/dataflow/dataflow.h"

#include <algorithm>
#include <string>
#include <utility>

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

void TimeLine::Fixed(double us) {
  p.fixed_us += us;
  total += us;
}

void TimeLine::Dsm(double us, double bytes) {
  p.dsm_us += us;
  p.dsm_bytes += bytes;
  total += us;
}

void TimeLine::Stream(const LevelTimes& times, const ProductLoad& load) {
  Levels(times, load);
  total += Combine(times);
}

void TimeLine::Levels(const LevelTimes& times, const ProductLoad& load) {
  p.hbm_us += times.hbm;
  p.l2_us += times.l2;
  p.intake_us += times.intake;
  p.shared_us += times.shared;
  p.tensor_us += times.tensor;
  p.hbm_bytes += load.hbm_bytes;
  p.l2_bytes += load.total_bytes;
}

Prediction TimeLine::Finish() {
  p.total_us = total;
  p.bound = BoundOf(p);
  return p;
}

std::string BoundOf(const Prediction& p) {
  const std::pair<double, const char*> levels[] = {
      {p.hbm_us, "hbm"}, {p.l2_us, "l2"},         {p.intake_us, "intake"}, {p.shared_us, "shared"},
      {p.dsm_us, "dsm"}, {p.tensor_us, "tensor"}, {p.fixed_us, "fixed"},
  };
  const auto* best = &levels[0];
  for (const auto& level : levels) {
    if (level.first > best->first) best = &level;
  }
  return best->second;
}

double EachTurn(double us, const ProductLoad& load) { return us * static_cast<double>(load.turns); }

double EndUs(const ProductDims& dims, const ProductSequence& p, int product, const Schedule& s,
             const ProductTile& tile, const DeviceModel& model) {
  return StoreUs(dims, p.rows(), s, tile, model) + EpilogueUs(p[product], s, tile, model);
}

double SpareHbm(const LevelTimes& times) {
  const double share = times.hbm / Combine(times);
  return 1 - share * share * share * share;
}

double PrefetchedUs(const ProductLoad& load, const Schedule& s, double window_us,
                    double stream_us) {
  if (load.block_bytes <= 0 || load.steps <= 0) return 0;
  const double ahead = static_cast<double>(std::min<int64_t>(s.stages, load.steps)) /
                       static_cast<double>(load.steps);
  return std::min(window_us, stream_us * ahead * load.weight_bytes / load.block_bytes);
}

}  // namespace sinter
