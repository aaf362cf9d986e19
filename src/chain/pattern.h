// Pattern: does a value of a graph compute what a small chain says?
#ifndef SINTER_SRC_CHAIN_PATTERN_H_
#define SINTER_SRC_CHAIN_PATTERN_H_

#include <functional>
#include <vector>

#include "src/chain/subgraph.h"

namespace sinter {

// Tries every way in which `value` of `graph` is the first output of `pattern`, with pattern's
// canonical input i bound to values[i], until `accept(values)` says yes; returns whether it did.
// Compares op kinds, attributes and scalars, not dims and dtypes; add, mul, max and min match with
// their operands swapped too. Patterns are small: the search is exhaustive.
bool MatchPattern(const Subgraph& graph, ValueId value, const Chain& pattern,
                  const std::function<bool(const std::vector<ValueId>& values)>& accept);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_PATTERN_H_
