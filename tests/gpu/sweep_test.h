// SweepTest: chains of two products by schedules from all over a dataflow's space, with and without
// pauses, for tests of what every kernel does at a product's end.
#pragma once

#include "tests/gpu/gpu_fixture.h"

namespace sinter::gpu_testing {

class SweepTest : public GpuTest {
 protected:
  static constexpr int64_t kRows = 200;  // no multiple of any tile
  static constexpr int64_t kSomeRows[] = {200, 129, 77, 8, 1};

  // `run` with `count` schedules of each chain, whose inputs are drawn from `seed`.
  static void Sweep(const std::vector<FfnSpec>& specs, Dataflow dataflow, size_t count, bool jitter,
                    uint64_t seed, const RunPlan& run);
};

}  // namespace sinter::gpu_testing
