// Evaluations: how often a thread computes each op for one element of a loop. Reductions that a
// thread does alone repeat what they are made of, and inside one another they multiply.
#ifndef SINTER_SRC_STITCH_EVALUATIONS_H_
#define SINTER_SRC_STITCH_EVALUATIONS_H_

#include <array>
#include <map>
#include <vector>

#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/stitch/program.h"

namespace sinter {

struct Evaluations {
  std::vector<double> times;  // by op; of a reduction or product: elements that it takes in
  double steps = 0;           // of all reductions that a thread does alone, one after another
  // By input, accesses of memory for one element: in vectors of 1, 2, 4 and 8.
  std::map<ValueId, std::array<double, 4>> accesses;

  // 0 where the input is not read.
  double AccessesOf(ValueId input, int vector) const;
};

// What several ops read at one place is computed once. `units`: the loop is over units' elements.
// `pace` (may be null) takes a step a visit.
Evaluations EvaluationsOf(const Chain& body, const StitchProgram& program, const StitchLoop& loop,
                          bool units, Pace* pace = nullptr);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_EVALUATIONS_H_
