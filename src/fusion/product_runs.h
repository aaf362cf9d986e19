// ProductRuns: the products of a chain, each with what its kernel absorbs, and sequences of them
// that the chain family may take in pairs.
#ifndef SINTER_SRC_FUSION_PRODUCT_RUNS_H_
#define SINTER_SRC_FUSION_PRODUCT_RUNS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/product/matcher.h"

namespace sinter {

// Values of a chain that are a sequence of products on their own.
struct GraphRun {
  MatchedSequence matched;      // its m is the bucket, or the constant rows
  std::vector<ValueId> values;  // ascending; none but `end` is used outside
  ValueId end = -1;             // its result
  bool constant_rows = false;   // its rows are matched.sequence.m, whatever a launch's are

  DType dtype() const { return matched.sequence.back().result; }  // of `end` in memory
};

// A chain that is one sequence, as the run that it is: its rows are the launch's, M or not.
GraphRun RunOf(const Chain& chain, MatchedSequence matched);

struct ProductRuns {
  std::vector<GraphRun> runs;              // by first value
  bool all = false;                        // one run is the chain
  std::map<ValueId, std::string> refused;  // why a matmul is in no run
};

// A chain that is a sequence of products is one run. Of others each product takes the longest tail
// of ops that leaves it a product step with a cast at most: scalars and a factor of its rows, a
// bias, an activation, the gate of a pair, a residual whose sum the chain rounds. A factor of the
// rows it multiplies is one of its result, where nothing is rounded between and nobody else reads
// the rows so multiplied. A factor is an operand, an input or what another kernel computes, of f32
// or the weights' dtype. A residual is an operand, an input or what another kernel computes, of the
// weights' dtype. A result may take the place of the residual in memory, never of what other blocks
// read. Then products follow one another in a run when nobody else reads what they hand over. A
// result is handed over in the dtype of the weights, rounded at most once; one that the chain gives
// out in another dtype is in no run. `pace` may be null. Deterministic.
ProductRuns FindProductRuns(const Chain& chain, int64_t bucket, Pace* pace = nullptr);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PRODUCT_RUNS_H_
