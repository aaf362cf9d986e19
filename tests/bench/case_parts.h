// CaseParts: the products of a chain that no one kernel takes, each measured inside the chain's
// plan.
#pragma once

#include "src/base/device_model.h"
#include "src/product/search/search.h"
#include "tests/bench/cases.h"

namespace sinter::bench {

// The case itself, if its chain is one sequence; else one case for each kernel of products in the
// plan that is predicted best, with the id "L8_m64/2" of kernel 2. Errors of planning, with the id.
absl::StatusOr<std::vector<Case>> PartsOf(const Case& c, const DeviceModel& model);

// The plan that runs the case's sequence as one kernel with that schedule; of a part the whole
// chain's, whose other kernels stay as they are.
Plan PlanOf(const Case& c, const RankedSchedule& ranked);

}  // namespace sinter::bench
