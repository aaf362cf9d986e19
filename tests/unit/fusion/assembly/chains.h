// Chains whose plans are judged: every problem list and graph of the bench, random graphs, and
// small ones of every kind of kernel.
#pragma once

#include "src/chain/chain.h"
#include "src/fusion/fusion.h"
#include "tests/support/common.h"

namespace sinter::testing {

struct NamedChain {
  std::string name;
  Chain chain;
};

// Chains of tests/bench/problems: each line in its layout and in the other one, each graph.
std::vector<NamedChain> ListedChains();

// One or more of every kind: products gated or not, with biases, residuals, factors and scales;
// sequences of them; layers that mix products and stitched kernels; reductions over columns,
// packed and in-place graphs; with rows M and with constant ones.
std::vector<NamedChain> ChainsOfEveryKind();

// The plans of a chain, the chosen one first; those that only tuning looks at too.
std::vector<Plan> PlansOf(const Chain& chain, int64_t bucket, bool for_tuning = false);

}  // namespace sinter::testing
