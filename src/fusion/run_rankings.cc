#include "src/fusion/run_rankings.h"

#include <algorithm>
#include <utility>

#include "src/base/status.h"

namespace sinter {
namespace {

Segmentation AllApart(int products) {
  Segmentation segments;
  for (int i = 0; i < products; ++i) segments.push_back({i, 1});
  return segments;
}

}  // namespace

const Segmentation& RankedRun::CutAt(bool fused, size_t i) const {
  return fused ? cuts[std::min(cuts.size() - 1, i)] : apart;
}

size_t RankedRun::Depth(const Segmentation& cut) const {
  size_t depth = 0;
  for (const Segment& segment : cut) depth = std::max(depth, rankings.Of(segment).size());
  return depth;
}

std::vector<RankedSchedule> RankedRun::SchedulesAt(const Segmentation& cut, size_t i) const {
  std::vector<RankedSchedule> schedules;
  for (const Segment& segment : cut) {
    const std::vector<RankedSchedule>& ranked = rankings.Of(segment);
    schedules.push_back(ranked[std::min(ranked.size() - 1, i)]);
  }
  return schedules;
}

absl::StatusOr<const RankedRun*> RunRankings::Of(const GraphRun& run, bool behind) {
  const ProductSequence& sequence = run.matched.sequence;
  const auto key = std::make_tuple(sequence.Canonical(), sequence.m, behind);
  auto known = known_.find(key);
  if (known == known_.end()) {
    SINTER_ASSIGN_OR_RETURN(Rankings made, Rankings::Make(sequence, model_, options_, behind));
    RankedRun ranked{std::move(made), {}, AllApart(sequence.size())};
    ranked.cuts = BestSegmentations(
        sequence.size(), [&](const Segment& s) { return ranked.rankings.CostOf(s); },
        static_cast<size_t>(options_.top_k));
    known = known_.emplace(key, std::move(ranked)).first;
  }
  return &known->second;
}

uint64_t RunRankings::considered() const {
  uint64_t sum = 0;
  for (const auto& [key, run] : known_) sum += run.rankings.considered();
  return sum;
}

uint64_t RunRankings::legal() const {
  uint64_t sum = 0;
  for (const auto& [key, run] : known_) sum += run.rankings.legal();
  return sum;
}

}  // namespace sinter
