// KernelCases: the bodies and schedules whose kernels run on the host.
#ifndef SINTER_TESTS_UNIT_STITCH_KERNELS_KERNEL_CASES_H_
#define SINTER_TESTS_UNIT_STITCH_KERNELS_KERNEL_CASES_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "src/plan/stitch/spec.h"

namespace sinter::stitch_host {

struct KernelCase {
  std::string name;
  StitchSpec spec;
  int64_t m = 0;
};

// What a schedule is an example of: "flat", "thread", "lanes", "warp", "warps", "block", "cluster",
// "inputs", "values", "alike", "phases".
std::set<std::string> KindsOf(const Chain& body, const StitchSchedule& schedule);

// Memory chains and random graphs, each with schedules of other kinds, all kinds in turn; blocks
// and launches are small. Deterministic.
std::vector<KernelCase> MakeKernelCases();

}  // namespace sinter::stitch_host

#endif  // SINTER_TESTS_UNIT_STITCH_KERNELS_KERNEL_CASES_H_
