// Composites that bring weights of four bits into the order in which kernels read them. Formats and
// formulas: docs/four-bit.md.
#ifndef SINTER_SRC_CHAIN_COMPOSITES_PACKING_H_
#define SINTER_SRC_CHAIN_COMPOSITES_PACKING_H_

#include "absl/status/statusor.h"
#include "src/chain/builder.h"
#include "src/chain/choices.h"

namespace sinter {

// Codes of a matrix [n, k], n a multiple of 64 and k of 16, as bytes s8 [k / 16, 8 n], which
// dequantize_u4_packed and dequantize_e2m1_packed read. w is s8: [n, k / 2] of kRows and
// kCompressedTensors, [k, n / 2] of kAwq, [k / 8, 4 n] of both GPTQ's.
absl::StatusOr<ValueId> AddPackCodes(ChainBuilder& b, ValueId w, Checkpoint checkpoint);
// Scales of the matrix, or zeros that are floating, as [groups, n] of their type. `scale` is
// floating: [n, groups] of kRows and kCompressedTensors, else [groups, n].
absl::StatusOr<ValueId> AddPackScales(ChainBuilder& b, ValueId scale, Checkpoint checkpoint);
// Zeros that a checkpoint has as codes of four bits, in the order of packed scales: f32
// [groups, n] of 0 to 15. zero is s8: [n / 8, 4 groups] of kCompressedTensors, [groups, n / 2] of
// kAwq and both GPTQ's. kRows has none.
absl::StatusOr<ValueId> AddPackZeros(ChainBuilder& b, ValueId zero, Checkpoint checkpoint);
// Scales of E8M0, s8 of any dims, as f32: a byte b from 0 to 254 is 2^(b - 127), 255 is NaN.
absl::StatusOr<ValueId> AddDequantizeE8M0(ChainBuilder& b, ValueId scale);

}  // namespace sinter

#endif  // SINTER_SRC_CHAIN_COMPOSITES_PACKING_H_
