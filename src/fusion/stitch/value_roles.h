// ValueRoles: the explorer's classification of a chain's values, before vertices are numbered.
#ifndef SINTER_SRC_FUSION_STITCH_VALUE_ROLES_H_
#define SINTER_SRC_FUSION_STITCH_VALUE_ROLES_H_

#include <cstdint>
#include <vector>

#include "src/fusion/stitch/stitch_graph.h"

namespace sinter {

struct ValueRoles {
  std::vector<bool> inlined;  // readers compute it themselves
  std::vector<bool> stored;   // must lie in memory
  std::vector<bool> vertex;   // the result of a vertex; inlined values too when stored
  std::vector<int> run;       // the run of products that contains it; -1
  std::vector<DType> stored_dtype;
  std::vector<std::vector<ValueId>> users;  // distinct ops that use it, ascending
};

ValueRoles RolesOf(const Chain& chain, int64_t bucket, const std::vector<GraphRun>& runs);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_VALUE_ROLES_H_
