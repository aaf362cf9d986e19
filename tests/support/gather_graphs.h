// Small graphs that take rows or elements by ids, one composition each. Extent 0 is M.
#pragma once

#include "src/chain/chain.h"
#include "tests/support/common.h"

namespace sinter::testing {

// layernorm(words[ids] + places[positions]) of bf16 tables [vocabulary, columns] and [64, columns],
// ids [rows] and positions [rows] of `dtype`. bf16.
Chain Embedding(int64_t rows, int64_t vocabulary, int64_t columns, DType dtype);

// The elements of softmax(x[rows, columns]) that ids [rows, taken] of s32 name, divided by their
// sum. bf16 to f32.
Chain TakenOfSoftmax(int64_t rows, int64_t columns, int64_t taken);

// z + what ids [rows, taken] of s32 name in [x, y] of bf16 x and y[rows, columns]. bf16 to f32.
Chain TakenOfJoined(int64_t rows, int64_t columns, int64_t taken);

// rmsnorm of the rows of x[M, columns] that `count` ids of s64 name: the last one of each sequence.
Chain RowsOfRows(int64_t columns, int64_t count);

// table[ids] of table[9, columns] of `dtype`, ids floor(8 f32 x[rows]) - 1 as s32, which may be
// outside; unchanged.
Chain ComputedIds(int64_t rows, int64_t columns, DType dtype);

// Views around it: of every second row of table[40, 3, 4] seen as [20, 12], ids [4, 6] turned.
Chain GatherOfViews(DType ids);

// x[before, columns] between its rows at `behind` places, as PyTorch enlarges images: the rows next
// to each place are kept inside by a minimum and a maximum. f32.
Chain PixelsBetween(int64_t before, int64_t behind, int64_t columns);

struct GatherGraph {
  std::string name;
  Chain chain;
  int64_t m = 0;
};
// All of them in several sizes: columns that are a multiple of a vector and others, both types of
// ids, all types of tables.
std::vector<GatherGraph> GatherGraphs();

}  // namespace sinter::testing
