// RowOrder: what of a kernel decides the bits of a row of its results. Kernels with equal row
// orders give equal bits for equal rows, whatever their other rows, buckets and grids are.
//
// It rests on --fmad=false (KernelSpec::batch_invariant): without contraction an f32 operation of
// the source is one rounded operation, in whichever kernel and place the compiler puts it. The
// device library then gives one element of a product
//   - as one chain of wgmma steps of 16 along K, from 0 on, into one accumulator: tile extents,
//     stages, block_k and pairs of blocks move loads, not steps. Steps behind K multiply zeros;
//   - with split_k > 1 as one such chain a range of K, added in the order of the ranges; with
//     clusters_n > 1 the second product likewise by ranges of N;
//   - through one epilogue, in f32, and one rounding where it is stored, whether for the next
//     product of the same kernel, for the next kernel, or as the result.
// That an element of wgmma depends on its row of A, its column of B and its accumulator, not on N
// or its place, is how the PTX ISA defines the operation; that swapped operands give the same bits
// is not said there, so they are an order of their own.
#ifndef SINTER_SRC_PLAN_ROW_ORDER_H_
#define SINTER_SRC_PLAN_ROW_ORDER_H_

#include <string>

#include "src/plan/plan.h"

namespace sinter {

// One line for each product of the kernel, as the same product alone has it: extents and what is
// applied, steps of K, ranges of K or of N, order of their parts, swapped operands. Of a stitched
// kernel one line: its body, and its schedule but the number of blocks (every unit is computed by
// the same text). Equal where the bits of a row are equal, and versioned nowhere: not for storage.
std::string RowOrder(const KernelSpec& spec);
// Of all kernels, in order: equal for plans that cut a sequence of products differently.
std::string RowOrder(const Plan& plan);

}  // namespace sinter

#endif  // SINTER_SRC_PLAN_ROW_ORDER_H_
