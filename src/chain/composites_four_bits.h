// Composites of weights of four bits. Exact formulas: docs/chains.md.
#ifndef SINTER_SRC_CHAIN_COMPOSITES_FOUR_BITS_H_
#define SINTER_SRC_CHAIN_COMPOSITES_FOUR_BITS_H_

#include "absl/status/statusor.h"
#include "src/chain/builder.h"

namespace sinter {

// w is s8 [.., k / 2]: byte i of a row has the codes of elements 2 i, in its low four bits, and
// 2 i + 1. `scale`, floating [.., groups], has one value for each group of k / groups neighbours of
// a row. Results are f32 [.., k], not rounded: exact where scale has 16 bits.
//
// (code - zero) * scale with codes 0 to 15: `zero`, floating, is one number (8 of the symmetric
// form) or has the dims of scale.
absl::StatusOr<ValueId> AddDequantizeU4(ChainBuilder& b, ValueId w, ValueId scale, ValueId zero);
// e2m1 * scale: a sign bit, then 0 .5 1 1.5 2 3 4 6. Scales of E8M0 are exact as bf16.
absl::StatusOr<ValueId> AddDequantizeE2M1(ChainBuilder& b, ValueId w, ValueId scale);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_COMPOSITES_FOUR_BITS_H_
