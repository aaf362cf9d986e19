// OwnRuns: what families take of a chain as a whole: the list of their finders.
#ifndef SINTER_SRC_FUSION_OWN_RUNS_H_
#define SINTER_SRC_FUSION_OWN_RUNS_H_

#include <map>
#include <string>
#include <vector>

#include "src/chain/chain.h"
#include "src/fusion/product_runs.h"

namespace sinter {

struct OwnFinder {
  // The family's runs in a chain, none with a value that is `claimed`. `refused`, which may be
  // null, gets why no kernel of the family takes an op.
  std::vector<GraphRun> (*find)(const Chain& chain, const std::vector<bool>& claimed,
                                std::map<ValueId, std::string>* refused) = nullptr;
  // Whether a plan has such runs, where other kernels may take their ops; null: every plan has.
  bool Absorbed::*optional = nullptr;
};

// A row for each family with runs of its own, in the order in which they claim ops. Tests add rows
// before they plan; nothing else changes it.
std::vector<OwnFinder>& OwnFinders();

// The run of `own` that computes `values`, ascending, of which others read `end` alone. A run whose
// result are codes also has `scale`, which lies in front of the result among its kernels' places.
GraphRun MakeOwnRun(const Chain& chain, OwnRun own, std::vector<ValueId> values, ValueId end);

// A run for each grouped product. Its kernel takes along, where nobody else reads what is between:
// the gate of a pair, a product with a number of each slot, the cast of the result.
std::vector<GraphRun> FindGroupedRuns(const Chain& chain, const std::vector<bool>& claimed,
                                      std::map<ValueId, std::string>* refused);
// The same where one of them at least takes along the quantiser of its result by groups of columns;
// none where none does.
std::vector<GraphRun> FindQuantizedGroupedRuns(const Chain& chain, const std::vector<bool>& claimed,
                                               std::map<ValueId, std::string>* refused);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_OWN_RUNS_H_
