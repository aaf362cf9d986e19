// OpClass: the cost of an op in a fused kernel, and how local it is to a unit.
#ifndef SINTER_SRC_FUSION_STITCH_OP_CLASS_H_
#define SINTER_SRC_FUSION_STITCH_OP_CLASS_H_

#include <cstdint>

#include "src/chain/chain.h"

namespace sinter {

// FusionStitching's three classes of memory-intensive ops, and the others.
enum class OpClass {
  kSource,     // input, scalar, iota: no computation
  kView,       // reads elements elsewhere: broadcast, transpose, reshape, slice, a widening cast
  kLight,      // a few instructions an element
  kExpensive,  // a special function an element: kept rather than computed twice
  kReduction,  // and a fine-grained batched product, a step of rows
  kProduct,    // any other matmul, a sum over ranks: a boundary of every pattern
};

OpClass ClassOf(const Chain& chain, ValueId value);

// Elements of a value at M = m; at least 1.
int64_t ElementsOf(const Op& op, int64_t m);

// The number of equal contiguous parts of the result of `op` such that part i needs only part i of
// operand `slot`. 1: any element may need any other; the element count: parts may be single
// elements. For a reduction the parts are those of its operand.
int64_t LocalUnits(const Chain& chain, const Op& op, size_t slot, int64_t m);

// LocalUnits for a reduction's result: its parts that each need one part of the operand. 1 when an
// outermost axis of more than one element is reduced.
int64_t ReducedUnits(const Chain& chain, const Op& op, int64_t m);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_OP_CLASS_H_
