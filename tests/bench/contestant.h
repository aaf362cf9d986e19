// Contestant: one plan of the engine, or cuBLASLt, on the data of a case, and its figures.
#pragma once

#include "tests/bench/prepared_case.h"
#include "tests/bench/runnable.h"

namespace sinter::bench {

struct Contestant {
  std::string name;
  std::shared_ptr<const PreparedPlan> plan;
  Runnable run;
  std::string output;  // of a checked run
  std::optional<double> cold_us, hot_us, pdl_us, mj_per_call;
};

// Whether it executes what `prepared` does.
bool Runs(const Contestant& one,
          const absl::StatusOr<std::shared_ptr<const PreparedPlan>>& prepared);

// Its figures in every field of `row` that describes its plan. `batch_invariant`: a plan of
// that kind was asked for.
void KeepFigures(const Contestant& one, const PreparedCase& prepared, bool batch_invariant,
                 Row* row);

}  // namespace sinter::bench
