// Random graphs of every op and type: what planning, code generation and kernels are tested on.
#pragma once

#include <cstdint>

#include "src/chain/chain.h"

namespace sinter::testing {

struct RandomGraphOptions {
  int64_t max_elements = 1 << 12;  // of the graph's first shape; most values stay near it
  int most_steps = 6;              // each adds one to some ten ops
};

// Depends only on its arguments; the same on every machine. In addition to what
// MakeRandomStitchGraph draws: ops on narrow types, casts from and to every type, channel shuffles,
// GEMMs with epilogues of all kinds and of both layouts, of codes with scales, batched ones,
// convolutions, quantizers. Half of the graphs have M, which leads.
//
// Inputs come from RandomInputs. The bounds of MakeRandomStitchGraph hold, with BoundsOf: codes of
// a computed value are outputs, or come after a cast that BoundsOf counts.
Chain MakeRandomGraph(uint64_t seed, const RandomGraphOptions& options = {});

// A graph whose only casts are on GEMM operands, with f32 outputs only: 16 bits between two kernels
// would be seen at once.
Chain MakeRandomWideGraph(uint64_t seed);

// The rows of a launch with which graph `seed` is tested: 1 to 512.
int64_t RowsOfRandomGraph(uint64_t seed);

}  // namespace sinter::testing
