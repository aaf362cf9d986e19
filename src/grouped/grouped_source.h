// Source and launch of the kernel of a grouped product.
#ifndef SINTER_SRC_GROUPED_GROUPED_SOURCE_H_
#define SINTER_SRC_GROUPED_GROUPED_SOURCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/launch_recipe.h"
#include "src/grouped/grouped.h"

namespace sinter {

inline constexpr char kGroupedEntry[] = "sinter_grouped_product";
// Of the device library, which the source includes.
std::vector<std::string> GroupedHeaders(const GroupedProduct& p, const GroupedSchedule& s);

std::string GroupedSource(const GroupedProduct& p, const GroupedSchedule& s);

// `places`: of rows, weights, ids, scales of both, biases and factors where there are some, then of
// the result.
absl::StatusOr<LaunchRecipe> GroupedRecipe(const GroupedProduct& p, const GroupedSchedule& s,
                                           const std::vector<BufferPlace>& places);

}  // namespace sinter

#endif  // SINTER_SRC_GROUPED_GROUPED_SOURCE_H_
