#include "src/product/search/space.h"

#include <algorithm>

#include "src/product/dataflow/dataflow.h"

namespace sinter {

void EnumerateSpace(const ProductSequence& sequence, const DeviceModel& model,
                    const SearchOptions& options,
                    const std::function<void(const Schedule&)>& visit) {
  if (options.only != nullptr) return options.only->Visit(sequence, model, visit);
  const SpaceWalk walk(sequence, model, visit);
  for (const DataflowRow* row : AllDataflows()) {
    if (row->products != sequence.size() || row->offered > options.offered) continue;
    if (row->cooperative && !options.allow_cooperative) continue;
    row->enumerate(walk);
  }
}

namespace {

constexpr int kMaxStages = 16;

// The most stages that fit, but no more than a block loads: where it walks several tiles, its
// producers run ahead into the next ones.
void FillRing(const ProductSequence& p, const DeviceModel& model, Schedule* s) {
  s->stages = 0;
  const ScheduleSizes z = SizesOf(p, *s);
  const int64_t free = model.shared_bytes_per_block - z.shared_bytes;
  const int64_t fit = free > 0 && z.stage_bytes > 0 ? free / z.stage_bytes : 0;
  const int64_t steps =
      CeilDiv(p[0].StagedK(), s->block_k) + (p.size() == 2 ? CeilDiv(p[0].n, s->block_k) : 0);
  const int64_t clusters = std::max(1, model.ResidentBlocks(s->cluster) / s->cluster);
  const int64_t tiles = p.size() == 1 ? std::max<int64_t>(1, CeilDiv(z.units, clusters)) : 1;
  const int64_t want = std::max<int64_t>(2, std::min<int64_t>(kMaxStages, steps * tiles));
  s->stages = static_cast<int>(std::min(fit, want));
}

}  // namespace

Schedule SpaceWalk::Begin(Dataflow dataflow, const RowShape& r, int block_k) {
  Schedule s;
  s.dataflow = dataflow;
  s.block_m = r.block_m;
  s.warpgroups_m = r.warpgroups_m;
  s.warpgroups_n = r.warpgroups_n;
  s.block_k = block_k;
  return s;
}

std::vector<ProductTile> SpaceWalk::Tiles(const RowShape& r, const Schedule& s, int64_t columns,
                                          int width, int split) const {
  const int step = ColumnStep(p, r);
  const int64_t groups = model.ResidentBlocks(s.cluster) / split;
  std::vector<ProductTile> tiles;
  for (int block_n : TileWidths(p, r, width, columns, RowTiles(r), groups, step)) {
    tiles.push_back({block_n, split});
  }
  return tiles;
}

void SpaceWalk::Visit(Schedule s) const {
  FillRing(p, model, &s);
  visit_(s);
}

}  // namespace sinter
