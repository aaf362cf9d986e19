// Mutant: runs kernels of a mutated device library and says whether anything showed.
#pragma once

#include "src/engine/engine.h"
#include "tests/gpu/mutations.h"
#include "tests/gpu/watchdog.h"

namespace sinter::gpu_testing {

enum class Fate { kSurvived, kKilled, kBroken };  // broken: the test itself could not be made

struct Outcome {
  Fate fate = Fate::kBroken;
  std::string detail;  // what killed it, or what went wrong
};

// Several schedules with spin traps, with and without jitter: repeated runs, back-to-back launches
// on programmatic edges, a late predecessor. Stops at the first sign. A mutant that does not
// compile, while the library does, is broken. The device is lost after a trap: one mutant a
// process.
Outcome RunMutant(const Ports& ports, const Mutation& mutation, Watchdog* watchdog);

}  // namespace sinter::gpu_testing
