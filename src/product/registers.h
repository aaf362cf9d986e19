// Registers of a thread that multiplies: whether they hold a tile's sums and what a kernel has
// beside them. Sums that spill cost more than a narrower tile.
#ifndef SINTER_SRC_PRODUCT_REGISTERS_H_
#define SINTER_SRC_PRODUCT_REGISTERS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "src/product/schedule.h"

namespace sinter {

// A product of a sequence, and the tile that a schedule cuts it by.
struct TileOf {
  absl::string_view name;  // "first" or "second"
  const MatrixProduct& product;
  const ProductTile& tile;
  int width;             // weight matrices of a block
  int64_t accumulators;  // of a thread
};

// Words of a residual that a thread holds beside the sums of `groups` column groups: of both of its
// rows, of wide tiles of one. held_matrix_words of the device library is the same.
constexpr int64_t HeldResidualWords(int64_t groups) { return groups > 16 ? groups : 2 * groups; }

// OK, or the sums that are too many.
absl::Status CheckAccumulators(const ProductSequence& p, const Schedule& s, const TileOf& of);
// The same of promoted sums, which need registers for those of one part besides.
absl::Status CheckPromoted(const ProductSequence& p, const Schedule& s, const TileOf& of);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_REGISTERS_H_
