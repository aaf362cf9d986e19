// FindFourBitWeights: matrices of a chain that its composites unpack from codes of four bits.
#ifndef SINTER_SRC_FUSION_FOUR_BIT_WEIGHTS_FINDER_H_
#define SINTER_SRC_FUSION_FOUR_BIT_WEIGHTS_FINDER_H_

#include <optional>
#include <set>

#include "src/chain/chain.h"
#include "src/product/four_bit_weights.h"

namespace sinter {

struct FoundFourBitWeights {
  FourBitWeights format;
  ValueId bytes = -1, scale = -1, zero = -1;  // inputs; zero: -1 of a constant
  std::set<ValueId> values;                   // that unpack it
};

// `value`, [n, k] or [experts, n, k] by its `rank`, as matrices that are unpacked from inputs; none
// where it is something else, or where no kernel reads inputs of these strides.
std::optional<FoundFourBitWeights> FindFourBitWeights(const Chain& chain, ValueId value, int rank);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_FOUR_BIT_WEIGHTS_FINDER_H_
