// MakePlan: a plan of given schedules.
#pragma once

#include <vector>

#include "src/fusion/plan_assembly.h"

namespace sinter {

// For a chain that is `matched`, at its m: one kernel for each segment, with its schedule.
inline Plan MakePlan(const Chain& chain, const MatchedSequence& matched,
                     const Segmentation& segments, const std::vector<RankedSchedule>& ranked) {
  const GraphRun run = RunOf(chain, matched);
  PlanStep step{.run = &run, .segments = segments, .ranked = ranked};
  Plan plan = AssemblePlan(chain, matched.sequence.m, {step});
  plan.fused = PairsOf(segments) > 0;
  return plan;
}

}  // namespace sinter
