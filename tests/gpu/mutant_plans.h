// What a mutation is tried on: a small chain, and schedules on which it shows.
#pragma once

#include "src/base/device_model.h"
#include "src/plan/plan.h"
#include "tests/gpu/mutations.h"

namespace sinter::gpu_testing {

// The chip whose plans show the mutation, of which `own` is the GPU that runs them. Its `arch` is
// the one that code is made for.
DeviceModel MutantModel(const DeviceModel& own, const Mutation& mutation);
int64_t MutantRows(const Mutation& mutation);
absl::StatusOr<Chain> MakeMutantChain(const Mutation& mutation);
// The number of the chain's input, in canonical order, that has the rows of its first product.
absl::StatusOr<int> RowsOfMutantChain(const Chain& chain, const Mutation& mutation);

// Plans of MakeMutantChain at MutantRows. NOT_FOUND when no schedule has what the mutation needs.
absl::StatusOr<std::vector<Plan>> MutantPlans(const Chain& chain, const DeviceModel& model,
                                              const Mutation& mutation);

}  // namespace sinter::gpu_testing
