// Seeded changes of well-formed plans: of their fields, and of the bytes of their records.
#ifndef SINTER_TESTS_UNIT_FUSION_FIT_PLAN_MUTATOR_H_
#define SINTER_TESTS_UNIT_FUSION_FIT_PLAN_MUTATOR_H_

#include <random>
#include <string>
#include <vector>

#include "src/plan/plan.h"

namespace sinter::testing {

// The bytes of `plan` with one to three fields changed: to neighbours, to extremes, to what another
// kernel or operand has. `others` are plans of the same chain.
std::string MutateFields(Plan plan, const std::vector<Plan>& others, std::mt19937_64* random);

// `bytes` with one to three bytes or words changed; of the same length.
std::string MutateBytes(std::string bytes, std::mt19937_64* random);

}  // namespace sinter::testing

#endif  // SINTER_TESTS_UNIT_FUSION_FIT_PLAN_MUTATOR_H_
