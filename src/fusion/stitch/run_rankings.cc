#include "src/fusion/stitch/run_rankings.h"

#include <algorithm>

#include "src/base/status.h"

namespace sinter {

absl::StatusOr<const Rankings*> RunRankings::Of(const GraphRun& run) {
  const ProductSequence& sequence = run.matched.sequence;
  const auto key = std::make_pair(sequence.Canonical(), sequence.m);
  auto known = known_.find(key);
  if (known == known_.end()) {
    SINTER_ASSIGN_OR_RETURN(Rankings made, Rankings::Make(sequence, model_, options_));
    known = known_.emplace(key, std::move(made)).first;
  }
  return &known->second;
}

absl::StatusOr<PlanStep> RunRankings::StepOf(const GraphRun& run, bool pairs, int choice) {
  SINTER_ASSIGN_OR_RETURN(const Rankings* rankings, Of(run));
  PlanStep step;
  step.run = &run;
  for (int i = 0; i < run.matched.size(); ++i) step.segments.push_back({i, 1});
  if (pairs) {
    const auto cost = [&](const Segment& segment) { return rankings->CostOf(segment); };
    step.segments = BestSegmentations(run.matched.size(), cost, 1).front();
  }
  for (const Segment& segment : step.segments) {
    const std::vector<RankedSchedule>& ranked = rankings->Of(segment);
    step.ranked.push_back(ranked[std::min(ranked.size() - 1, static_cast<size_t>(choice))]);
  }
  return step;
}

}  // namespace sinter
