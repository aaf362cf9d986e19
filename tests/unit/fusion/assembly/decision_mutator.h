// Seeded changes of well-formed decisions: of their fields, and of their bytes.
#pragma once

#include "src/plan/plan.h"
#include "tests/support/common.h"

namespace sinter::testing {

// The bytes of `decisions` with one to three fields changed: to neighbours, to extremes, to what
// another kernel has. `others` are decisions of the same chain.
std::string MutateFields(Decisions decisions, const std::vector<Decisions>& others,
                         std::mt19937_64* random);

// `bytes` with one to three bytes or words changed; of the same length.
std::string MutateBytes(std::string bytes, std::mt19937_64* random);

}  // namespace sinter::testing
