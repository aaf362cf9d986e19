// Small files that mean much work: graphs whose values are reached in very many ways.
#pragma once

#include <cstdint>

#include "src/chain/chain.h"

namespace sinter::testing {

enum class DeepGraph : int {
  kReductions,  // (reduce, broadcast, subtract) again and again, over the last axis
  kCrossed,     // the same over one axis and another in turn
  kTurns,       // transposes and reshapes in turn
  kConcats,     // concats of slices of concats
  kShifts,      // sums of two slices of one value
  kFan,         // very many values of one input, joined in pairs
  kOutputs,     // very many outputs of one ladder
  kDag,         // sums of two of the values before
  kTwice,       // a value added to itself
  kChain,       // one op after another
  kProducts,    // fine-grained products of a value with itself
  kMixed,       // steps of all kinds, drawn
  kCount,
};

const char* NameOf(DeepGraph kind);

// About `ops` ops, at most 65,000; depends only on its arguments. `width` (1 to 64): operands of a
// concat, extents. `seed` draws the rest.
Chain MakeDeepGraph(DeepGraph kind, int ops, int width, uint64_t seed);

}  // namespace sinter::testing
