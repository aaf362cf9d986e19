// QuantizerFinder: which values of a graph are e4m3 codes of another, as AddQuantize makes them.
#ifndef SINTER_SRC_CHAIN_QUANTIZER_FINDER_H_
#define SINTER_SRC_CHAIN_QUANTIZER_FINDER_H_

#include "src/chain/composites.h"
#include "src/chain/subgraph.h"

namespace sinter {

// A quantiser of groups of 128 columns, or of one given scale.
struct FoundQuantizer {
  ValueId x = -1;       // what is quantised
  QuantizeSpec rule;    // kGroup or kStatic; of kStatic with the value of its scale
  ValueId limits = -1;  // of groups: their largest magnitudes, within the bounds
};

// Whether `codes` is the result of such a quantiser. Reads primitives: any spelling of the same
// ops.
bool QuantizerAt(const Subgraph& graph, ValueId codes, FoundQuantizer* found);

// Whether `value` is the scale of the groups that `quantizer` quantises.
bool IsScaleOfGroups(const Subgraph& graph, const FoundQuantizer& quantizer, ValueId value);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_QUANTIZER_FINDER_H_
