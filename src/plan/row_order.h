// RowOrder: the part of a kernel that decides the bits of a row of its results. Kernels with equal
// row orders give equal bits for equal rows, whatever their other rows, buckets and grids.
//
// It relies on --fmad=false (KernelSpec::batch_invariant): without contraction an f32 operation of
// the source is one rounded operation, in any kernel and place. The device library then computes an
// element of a product
//   - as one sequence of wgmma steps of 16 along K, from 0, into one accumulator. Tile extents,
//     stages, block_k and pairs of blocks move loads, not steps; steps beyond K multiply zeros;
//   - with split_k > 1 as one such sequence for each range of K, added in the order of the ranges;
//     with ranges > 1 the second product likewise by ranges of N;
//   - through one epilogue in f32, and one rounding where it is stored: for the next product of the
//     kernel, for the next kernel, or as the result.
// The PTX ISA defines an element of wgmma by its row of A, its column of B and its accumulator, not
// by N or its position. It does not say that swapped operands give the same bits, so they are an
// order of their own.
#ifndef SINTER_SRC_PLAN_ROW_ORDER_H_
#define SINTER_SRC_PLAN_ROW_ORDER_H_

#include <string>

#include "src/plan/plan.h"

namespace sinter {

// One line for each product of the kernel, equal to the line of the product alone: extents and
// epilogue, steps of K, ranges of K or of N, order of the parts, swapped operands. A stitched
// kernel has one line: its body, and its schedule without the grid (every unit is computed by the
// same text). Equal where a row's bits are equal. Not versioned, so not for storage.
std::string RowOrder(const KernelSpec& spec);
std::string RowOrderOfProducts(const ProductSequence& sequence, const Schedule& schedule);
// The lines of all kernels, in order: equal for plans that cut a sequence of products differently.
std::string RowOrder(const Plan& plan);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_ROW_ORDER_H_
