// Small graphs with steps of rows (top_k, scan) and random numbers, one composition each. Extent 0
// is M.
#pragma once

#include "src/chain/chain.h"
#include "tests/support/common.h"

namespace sinter::testing {

// The places of the `taken` largest of each row of x[rows, columns] of `dtype`.
Chain LargestOfRows(int64_t rows, int64_t columns, int64_t taken, DType dtype);

// The same of s32 numbers of which half are -2^31 and the others 0, or all are -2^31.
Chain LargestOfLeast(int64_t rows, int64_t columns, int64_t taken, bool all);
// The same of s32 numbers in 64 stripes, each `run` columns wide and repeated along the row. All of
// a stripe are larger than all of the one before it, so that few stripes hold the largest.
Chain LargestOfStripes(int64_t rows, int64_t columns, int64_t taken, int64_t run);

// What routes tokens: the places of the `taken` largest of bf16 logits[rows, columns], and their
// shares of softmax(logits), divided by the sum of those. s32 and f32.
Chain Router(int64_t rows, int64_t columns, int64_t taken);

// The same, but the places are chosen by the largest shares.
Chain RouterOfShares(int64_t rows, int64_t columns, int64_t taken);

// The running sums of x[rows, columns] of `dtype`.
Chain SumsOfRows(int64_t rows, int64_t columns, DType dtype);

// The running sums of softmax(x[rows, columns]), less than a half: what keeps the first places. Of
// two groups of a row where `groups`. bf16 to f32.
Chain SumsOfSoftmax(int64_t rows, int64_t columns, bool groups);

// The places of ones among their like in s32 mask[rows, columns]: running sums times the mask, and
// the place of the largest.
Chain PlacesOfOnes(int64_t rows, int64_t columns);

// rmsnorm(r + dropout(x)) of bf16 x and r[rows, columns], with seeds[4] of s64 of which one is read
// and an offset of s32.
Chain DropoutNorm(int64_t rows, int64_t columns);

// The places of the two largest, and the running sums, of rows of f16 x[M, 3, 40], or [3, M, 40],
// which plans once it is normalised.
Chain RowsBesideOthers(bool m_first);

// A token of each row of bf16 logits[rows, columns] and its log probability, drawn from the `count`
// largest, or from all where that is 0; rows have a temperature and bounds of their own.
Chain DrawnTokens(int64_t rows, int64_t columns, int64_t count);

struct RowStepGraph {
  std::string name;
  Chain chain;
  int64_t m = 0;
};
// All of them in several sizes: columns that are a multiple of a vector and of a warp, and others.
std::vector<RowStepGraph> RowStepGraphs();

}  // namespace sinter::testing
