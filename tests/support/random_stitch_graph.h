// Random graphs of memory-intensive ops: what the stitch family is tested and measured on.
#pragma once

#include <cstdint>

#include "src/chain/chain.h"

namespace sinter::testing {

constexpr int kRandomStitchGraphs = 200;  // seeds 1 to this make the set

struct RandomStitchOptions {
  int64_t max_elements = 1 << 14;  // of the graph's first shape; most values stay near it
};

// A graph of 5 to 60 ops without GEMMs; depends only on its arguments and is the same on every
// machine. Element-wise ops, broadcasts, row, column and middle reductions, softmax and norms,
// transposes, slices, concats, reshapes, selects, casts; ranks 1 to 4, ragged and tiny extents,
// strided and repeating inputs, one to eight outputs of any dtype, some in place.
//
// For inputs in [-1, 1] (s32 in [0, 15]) every value is finite and a kernel that computes in f32
// stays within BoundsFor of the reference: magnitudes are bounded, divisors and arguments of roots
// and logarithms kept away from zero, discontinuous ops (compare, floor) are applied to inputs
// only, and no f32 output depends on a value that was rounded on the way.
Chain MakeRandomStitchGraph(uint64_t seed, const RandomStitchOptions& options = {});

}  // namespace sinter::testing
