// KernelCases: the bodies and schedules whose kernels run on the host.
#pragma once

#include "src/stitch/spec.h"
#include "tests/support/common.h"

namespace sinter::stitch_host {

struct KernelCase {
  std::string name;
  StitchSpec spec;
  int64_t m = 0;
};

// What a schedule is an example of: "flat", "thread", "lanes", "warp", "warps", "block", "cluster",
// "inputs", "values", "alike", "phases", "split", "hold", "segments", "join all",
// "pixels".
std::set<std::string> KindsOf(const Chain& body, const StitchSchedule& schedule);

struct CaseOptions {
  uint64_t first_seed = 1, last_seed = 60;  // of random graphs
  int kinds = 2;                            // schedules of a random graph
};

// Memory chains and random graphs, each with schedules of other kinds, all kinds in turn; blocks
// and launches are small. Deterministic.
std::vector<KernelCase> MakeKernelCases(const CaseOptions& options);

}  // namespace sinter::stitch_host
