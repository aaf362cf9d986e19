// Source and launch of the kernel of a sum over ranks, or a gather.
#ifndef SINTER_SRC_COLLECTIVE_SOURCE_H_
#define SINTER_SRC_COLLECTIVE_SOURCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/launch_recipe.h"
#include "src/collective/collective.h"

namespace sinter {

std::string CollectiveEntry(const CollectiveProblem& p);   // "sinter_all_reduce"
std::string CollectiveHeader(const CollectiveProblem& p);  // of src/device

// All ranks load the kernel of one source. It does not depend on the schedule's blocks.
std::string CollectiveSource(const CollectiveProblem& p, const CollectiveSchedule& s);

// `places`: x, the residual where there is one, gamma and the norm where there are, the sum where
// it is stored; INVALID_ARGUMENT for another number of them. The launch gives the group's room and
// what ranks of one plan have in common.
absl::StatusOr<LaunchRecipe> CollectiveRecipe(const CollectiveProblem& p,
                                              const CollectiveSchedule& s,
                                              const std::vector<BufferPlace>& places);

}  // namespace sinter

#endif  // SINTER_SRC_COLLECTIVE_SOURCE_H_
