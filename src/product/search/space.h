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
#include "src/product/search/tile_shapes.h"

namespace sinter {

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
