// The shipping space: the schedules of a sequence that are worth costing. FlashFuser's knobs (cls_k
// and cls_reduce are split_k, blk_* are block_*), with ragged column ranges instead of power-of-two
// tiles.
#ifndef SINTER_SRC_PRODUCT_SEARCH_SPACE_H_
#define SINTER_SRC_PRODUCT_SEARCH_SPACE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "src/base/device_model.h"
#include "src/base/numbers.h"
#include "src/product/schedule.h"
#include "src/product/search/search.h"
#include "src/product/sequence.h"

namespace sinter {

// Tile shapes of kernels of products: row shapes, and ragged column widths that share the columns
// evenly.

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

// Calls `visit` for every candidate, in a fixed order. A candidate has as many stages as shared
// memory allows; it may still be illegal (CheckSchedule decides). Precondition:
// CheckSequence(sequence) is OK.
void EnumerateSpace(const ProductSequence& sequence, const DeviceModel& model,
                    const SearchOptions& options,
                    const std::function<void(const Schedule&)>& visit);

// Shared by the spaces of all dataflows: row shapes, widths balanced over the resident blocks, the
// number of stages. Sequence, model and visitor must outlive it. Not thread-safe.
class SpaceWalk {
 public:
  SpaceWalk(const ProductSequence& sequence, const DeviceModel& model,
            const std::function<void(const Schedule&)>& visit)
      : p(sequence), model(model), visit_(visit) {}

  static constexpr int kSplits[] = {1, 2, 4, 8};  // of K

  // Calls `f(row shape, schedule with that shape)` for each K of a stage.
  template <typename F>
  void ForEachShape(Dataflow dataflow, F&& f) const {
    for (const RowShape& r : RowShapes(p)) {
      for (int block_k : StepsOfK()) f(r, Begin(dataflow, r, block_k));
    }
  }
  // K of a stage: one or two spans of the swizzle.
  std::array<int, 2> StepsOfK() const {
    const int span = ElementOf(p.element()).swizzle_span;
    return {span, 2 * span};
  }
  int64_t RowTiles(const RowShape& r) const { return CeilDiv(p.rows(), r.block_m); }
  // Tiles of `columns` columns of `width` matrices; `split` blocks share K.
  std::vector<ProductTile> Tiles(const RowShape& r, const Schedule& s, int64_t columns, int width,
                                 int split) const;
  // Sets the number of stages, then visits.
  void Visit(Schedule s) const;

  const ProductSequence& p;
  const DeviceModel& model;

 private:
  static Schedule Begin(Dataflow dataflow, const RowShape& r, int block_k);

  const std::function<void(const Schedule&)>& visit_;
};

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEARCH_SPACE_H_
