// Composites of weights of four bits. Exact formulas: docs/four-bit.md.
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

// The same as f32 [n, k] of a packed matrix, whose bytes lie as lanes of mma.sync read them: the
// order of vLLM's Marlin kernels. w is s8 [k / 16, 8 n]: a row has 512 bytes for each 64 columns,
// and byte 16 (4 i + j) + 4 f + 2 e + b of those has, in its low four bits, the code of column
// 16 f + 8 b + i and element 2 j + e of the 16 of k, in its high ones that of element 2 j + e + 8.
// `scale` is [groups, n]; of each 64 columns, place 8 i + j has column 8 j + i. `zero` of u4 is one
// number, or lies as scale.
absl::StatusOr<ValueId> AddDequantizeU4Packed(ChainBuilder& b, ValueId w, ValueId scale,
                                              ValueId zero);
absl::StatusOr<ValueId> AddDequantizeE2M1Packed(ChainBuilder& b, ValueId w, ValueId scale);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_COMPOSITES_FOUR_BITS_H_
