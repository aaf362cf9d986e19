#include "src/product/dataflow/time_line.h"

#include <algorithm>
#include <string>
#include <utility>

namespace sinter {

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
