// Ablation: what each step of FlashFuser's adds, as its Fig. 15 has it: no fusion; fused with
// only shared and global memory (its analyzer, DA); with distributed shared memory and a
// configuration at random (DC + DA); with its search. Dataflows of the paper that planning does not
// offer are measured too.
#pragma once

#include "tests/bench/schedule_runs.h"

namespace sinter::bench {

// The schedule with the shortest predicted time among those that send nothing through distributed
// shared memory; empty when all do.
std::vector<PlacedSchedule> WithoutDsm(const std::vector<PlacedSchedule>& legal);

// Up to `count` of those that do, drawn from `seed`.
std::vector<PlacedSchedule> RandomWithDsm(const std::vector<PlacedSchedule>& legal, size_t count,
                                          uint64_t seed);

// The schedule with the shortest predicted time of each dataflow that only tuning is offered:
// clusters by ranges of N, slabs that spill, spatial gates.
std::vector<PlacedSchedule> OfTuningAlone(const std::vector<PlacedSchedule>& legal);

constexpr char kWithoutDsm[] = "no-dsm", kRandomDsm[] = "dsm-random",
               kTuningAlone[] = "tuning-alone";  // kinds of sweep rows

// A line a problem and geometric means of unfused / step, next to the paper's 1.52, 2.11 and 3.29.
// A random step counts with the geometric mean of its draws.
std::string AblationText(const std::vector<Row>& rows, const std::vector<SweepRow>& sweep);

}  // namespace sinter::bench
