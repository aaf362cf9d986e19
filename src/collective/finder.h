// FindCollectives: sums over ranks and gathers in a chain, with the ops that one kernel takes
// along.
#ifndef SINTER_SRC_COLLECTIVE_FINDER_H_
#define SINTER_SRC_COLLECTIVE_FINDER_H_

#include <map>
#include <string>
#include <vector>

#include "src/chain/chain.h"
#include "src/collective/collective.h"

namespace sinter {

struct FoundCollective {
  CollectiveProblem problem;
  std::vector<ValueId> inputs;  // x, the residual, gamma
  std::vector<ValueId> values;  // of the kernel, ascending; `end` and `kept` are read outside
  ValueId end = -1;             // its result: the norm where there is one
  ValueId kept = -1;            // the sum, stored beside its norm where it is read outside too
};

// All of a chain, in order, none with a value that is `claimed`. A kernel takes along, where nobody
// else reads what is between: reshapes before and behind parts of ranks; the cast of the sum, a
// matrix of the result's extents and type that is added to it, and the cast of that; also the RMS
// norm of its rows, with a gamma, beside which others may read the sum: over more than two ranks
// only where two shots make it. `refused` gets why no kernel takes a sum, and the way out.
std::vector<FoundCollective> FindCollectives(const Chain& chain, const std::vector<bool>& claimed,
                                             std::map<ValueId, std::string>* refused);

}  // namespace sinter

#endif  // SINTER_SRC_COLLECTIVE_FINDER_H_
