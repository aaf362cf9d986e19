// ProductRuns: the products of a chain with the ops that their kernels absorb, and sequences of
// products that one kernel may take in pairs; and runs of families' own.
#ifndef SINTER_SRC_FUSION_PRODUCT_RUNS_H_
#define SINTER_SRC_FUSION_PRODUCT_RUNS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "src/base/keep_going.h"
#include "src/chain/chain.h"
#include "src/plan/family.h"
#include "src/product/matcher.h"

namespace sinter {

// Values of a chain that form a sequence of products; or what another family takes as a whole.
struct GraphRun {
  MatchedSequence matched;      // its m is the bucket, or the constant rows
  std::vector<ValueId> values;  // ascending; only `end`, `scale` and `aux` are read outside
  ValueId end = -1;             // its result
  ValueId scale = -1;           // the scales of a result in codes, which its kernel stores too
  // What its last kernel stores beside `end`: outputs of the chain; of a family's own run also what
  // others read.
  std::vector<ValueId> aux;
  bool constant_rows = false;  // its rows are matched.sequence.m, whatever a launch's m
  OwnRun own;                  // of a family's own (own_runs.h); `matched` has its operands alone

  bool IsOwn() const { return own.family != nullptr; }
  DType dtype() const {  // of `end` in memory
    return IsOwn() ? own.result : matched.sequence.back().result;
  }
};

// A chain that MatchWhole takes, as a run: its rows are the launch's, M or not.
GraphRun RunOf(const Chain& chain, MatchedSequence matched);

struct ProductRuns {
  std::vector<GraphRun> runs;              // by first value
  bool all = false;                        // one run is the whole chain
  std::map<ValueId, std::string> refused;  // why a matmul is in no run
};

// A chain that is a sequence of products is one run. In other chains each product takes the longest
// tail of ops that leaves a product step, with at most a cast: scalars, a row factor, a bias, an
// activation, the gate of a pair, a residual.
// A factor of the rows is treated as a factor of the result where nothing is rounded in between and
// nobody else reads the scaled rows. A factor is an operand (an input or another kernel's result)
// of f32 or the weights' dtype; a residual is one of any float. A result may overwrite the residual
// in memory, never data that other blocks read.
// A value of any float that the chain gives out and that only the run's ops read is an auxiliary
// result: what an activation is made of, as a backward pass wants it, or both halves of a gate-up
// pair.
// Products are joined in a run when nobody else reads the results between them. A result that
// products alone read is handed over in their weights' dtype, rounded at most once; any other lies
// in memory as the chain has it. `pace` may be null. Deterministic.
ProductRuns FindProductRuns(const Chain& chain, int64_t bucket, Pace* pace = nullptr,
                            Absorbed absorbed = {});

// Whether its result is codes with scales of 128 columns, by a quantiser that it absorbed.
bool HasGroups(const GraphRun& run);

// Whether runs with norms may be worth planning: there are few rows, and a root of a mean.
bool MayTakeNorms(const Chain& chain, int64_t bucket);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_PRODUCT_RUNS_H_
