// Measuring one case: both plans of the engine and cuBLASLt's serving form, checked and timed.
#pragma once

#include "tests/bench/cublaslt_ffn.h"
#include "tests/bench/energy.h"
#include "tests/bench/prepared_case.h"
#include "tests/gpu/watchdog.h"

namespace sinter::bench {

struct MeasureOptions {
  bool fused = true, unfused = true, cublaslt = true;  // which contestants take part
  bool chosen = true;  // also what was chosen, should it be neither fused nor unfused
  bool batch_invariant = false;
  bool time = true;        // false: check only
  bool only_cold = false;  // no hot, PDL and host times
  int seeds = 1;           // checked with that many sets of inputs
  int64_t check_rows = 0;  // rows compared with the reference; 0: all up to 5e10 FLOP, 64 above
  int replays = 15;
  const EnergyMeter* energy = nullptr;  // null: not measured
};

// Never fails as a whole: what cannot be measured is absent, with a note. `lt` is empty when
// cuBLASLt is not there.
Row MeasureCase(const Ports& ports, const Case& c, const PreparedCase& prepared,
                const std::optional<LtContext>& lt, const MeasureOptions& options,
                gpu_testing::Watchdog* watchdog);

}  // namespace sinter::bench
