// Tile shapes of kernels of products: row shapes, and ragged column widths that share the columns
// evenly.
#ifndef SINTER_SRC_PRODUCT_SEARCH_TILE_SHAPES_H_
#define SINTER_SRC_PRODUCT_SEARCH_TILE_SHAPES_H_

#include <cstdint>
#include <vector>

#include "src/product/sequence.h"

namespace sinter {

// Rows of a tile, and how warpgroups share it.
struct RowShape {
  int block_m, warpgroups_m, warpgroups_n;
};

// The row shapes worth trying for a sequence's bucket, ascending.
std::vector<RowShape> RowShapes(const ProductSequence& sequence);

// The step of tile heights: transposed rows come in whole rows of the swizzle.
int RowStep(const ProductSequence& sequence);
// The step of tile widths.
int ColumnStep(const ProductSequence& sequence, const RowShape& rows);

// The widest tile: wgmma N at most 256 a warpgroup (144 with three warpgroups), and no wider than
// `columns`. `width`: matrices side by side.
int WidestTile(int64_t columns, int width, int step, const RowShape& rows);

// Widths that let `groups` groups share `columns` columns of `row_tiles` row tiles evenly: for 1,
// 2, 3 .. tiles a group the narrowest width that needs no more tiles; then the widest tile and half
// of it. Multiples of `step` up to `widest`, ascending.
std::vector<int> ColumnWidths(int64_t columns, int64_t row_tiles, int64_t groups, int step,
                              int widest);

// The same for tiles of a single product or the first of two, `width` matrices side by side: where
// blocks of columns share scales, widths of which a warpgroup has no more than one block.
std::vector<int> TileWidths(const ProductSequence& p, const RowShape& r, int width, int64_t columns,
                            int64_t row_tiles, int64_t groups, int step);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEARCH_TILE_SHAPES_H_
