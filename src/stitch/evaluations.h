// Evaluations: how often a thread computes each op for one element of a loop. A reduction that a
// thread makes alone repeats its operands, and nested reductions multiply.
#ifndef SINTER_SRC_STITCH_EVALUATIONS_H_
#define SINTER_SRC_STITCH_EVALUATIONS_H_

#include <array>
#include <map>
#include <vector>

#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/stitch/program.h"
#include "src/stitch/sectors.h"

namespace sinter {

struct Evaluations {
  std::vector<double> times;  // by op; for a reduction or product: elements that it reduces
  double steps = 0;           // of all serial reductions, one after another
  // By input: memory accesses for one element, in vectors of 1, 2, 4 and 8.
  std::map<ValueId, std::array<double, 4>> accesses;
  // Quotients and remainders by no power of two in their addresses, likewise.
  std::map<ValueId, std::array<double, 4>> divisions;
  std::vector<int> shared;           // by op: elements of a vector that have one value, up to 8
  std::vector<MemoryTouch> touches;  // of inputs, each at each of its places, and of outputs

  // 0 for an input that is not read.
  double AccessesOf(ValueId input, int vector) const;
  double DivisionsOf(ValueId input, int vector) const;
  // Elements of a vector of `vector` that share each value of `id`: computed once for all of them.
  int SharedBy(ValueId id, int vector) const;
};

// A value that several ops read at one place is computed once. `units`: the loop is over units'
// elements. `pace` (may be null) takes one step a visit. `pixels`: results of the program's windows
// that a thread makes at once, for which it computes once what they share.
Evaluations EvaluationsOf(const Chain& body, const StitchProgram& program, const StitchLoop& loop,
                          bool units, Pace* pace = nullptr, int pixels = 1);

}  // namespace sinter

#endif  // SINTER_SRC_STITCH_EVALUATIONS_H_
