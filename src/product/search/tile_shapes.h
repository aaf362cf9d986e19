// Tile shapes of the chain and gemm families: rows and how warpgroups share them, and ragged column
// widths that share the columns out evenly.
#ifndef SINTER_SRC_PRODUCT_SEARCH_TILE_SHAPES_H_
#define SINTER_SRC_PRODUCT_SEARCH_TILE_SHAPES_H_

#include <cstdint>
#include <vector>

#include "src/product/sequence.h"

namespace sinter {

// Row tile and how warpgroups share it.
struct RowShape {
  int block_m, warpgroups_m, warpgroups_n;
};

// Those that a sequence's bucket is worth cutting by, ascending.
std::vector<RowShape> RowShapes(const ProductSequence& sequence);

// What widths of tiles of `rows` are multiples of.
int ColumnStep(const ProductSequence& sequence, const RowShape& rows);

// wgmma N at most 256 in each warpgroup, 144 in each of three; no wider than the columns there are.
// `width`: matrices side by side.
int WidestTile(int64_t columns, int width, int step, const RowShape& rows);

// Column widths that let `groups` groups share `columns` columns of `m_tiles` row tiles evenly: for
// 1, 2, 3 .. tiles a group, the narrowest width that needs no more; then the widest ones. Multiples
// of `step` up to `widest`, ascending.
std::vector<int> ColumnWidths(int64_t columns, int64_t m_tiles, int64_t groups, int step,
                              int widest);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEARCH_TILE_SHAPES_H_
