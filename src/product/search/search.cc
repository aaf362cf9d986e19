#include "src/product/search/search.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "absl/strings/str_cat.h"
#include "src/base/status.h"
#include "src/product/dataflow/dataflow.h"
#include "src/product/schedule_check.h"
#include "src/product/search/space.h"

namespace sinter {
namespace {

struct Ranked {
  double total_us;
  std::string canonical;
  Schedule schedule;
  bool operator<(const Ranked& o) const {
    return total_us != o.total_us ? total_us < o.total_us : canonical < o.canonical;
  }
};

// Keeps the best `limit` schedules.
class TopK {
 public:
  explicit TopK(size_t limit) : limit_(limit) {}
  void Offer(double total_us, const Schedule& schedule) {
    if (best_.size() == limit_ && total_us > best_.back().total_us) return;
    Ranked entry{total_us, schedule.Canonical(), schedule};
    const auto at = std::lower_bound(best_.begin(), best_.end(), entry);
    if (at != best_.end() && at->canonical == entry.canonical) return;
    best_.insert(at, std::move(entry));
    if (best_.size() > limit_) best_.pop_back();
  }
  const std::vector<Ranked>& best() const { return best_; }

 private:
  size_t limit_;
  std::vector<Ranked> best_;
};

// The time of a pushed result's last transfer, which starts after all is computed.
double UnhiddenUs(const ProductSequence& sequence, const Schedule& s,
                  const SearchOptions& options) {
  return options.pushes == 0 ? 0 : options.pushed_us / static_cast<double>(TurnsOf(sequence, s));
}

// In its place of a plan. A cooperative launch waits until all earlier work has ended.
Prediction PredictInPlace(const ProductSequence& sequence, const Schedule& s,
                          const DeviceModel& model, bool behind) {
  const Prediction alone = Predict(sequence, s, model);
  return behind && !IsCooperative(s) ? BehindProgrammaticEdge(alone, model) : alone;
}

}  // namespace

absl::StatusOr<SearchResult> SearchSchedules(const ProductSequence& sequence,
                                             const DeviceModel& model,
                                             const SearchOptions& options) {
  if (options.top_k < 1) {
    return Invalid("search: top_k ", options.top_k, " is below 1");
  }
  SINTER_RETURN_IF_ERROR(CheckSequence(sequence));
  const auto start = std::chrono::steady_clock::now();
  SearchResult result;
  // Prediction errors differ between dataflows, so tuning measures some schedules of each.
  const bool of_each = options.offered == Offered::kTuning;
  std::map<Dataflow, TopK> top;
  absl::Status last_refusal;
  EnumerateSpace(sequence, model, options, [&](Schedule s) {
    s.pushes = options.pushes;
    Step(options.pace);
    result.considered++;
    absl::Status legal = CheckScheduleAlone(sequence, s, model);
    if (legal.ok() && options.batch_invariant) legal = CheckRowOrder(sequence, s);
    if (!legal.ok()) {
      last_refusal = legal;
      return;
    }
    result.legal++;
    const Dataflow list = of_each ? s.dataflow : Dataflow::kNone;
    TopK& best = top.try_emplace(list, static_cast<size_t>(options.top_k)).first->second;
    best.Offer(PredictInPlace(sequence, s, model, options.behind).total_us +
                   UnhiddenUs(sequence, s, options),
               s);
  });
  if (result.legal == 0) {
    return FailedPrecondition(
        "search: none of ", result.considered, " schedules is legal for ", sequence.ToString(),
        last_refusal.ok() ? "" : "; the last refusal was: ", last_refusal.message());
  }
  std::vector<Ranked> ranked;
  for (const auto& [dataflow, best] : top) {
    ranked.insert(ranked.end(), best.best().begin(), best.best().end());
  }
  std::sort(ranked.begin(), ranked.end());
  for (const Ranked& r : ranked) {
    result.ranked.push_back(
        {r.schedule, PredictInPlace(sequence, r.schedule, model, options.behind)});
  }
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
  result.search_us = spent.count();
  return result;
}

// The analytical cost model. Every constant is a field of DeviceModel; the time line of each
// dataflow is in its file of src/product/dataflow.

Prediction Predict(const ProductSequence& sequence, const Schedule& schedule,
                   const DeviceModel& model) {
  return RowOf(schedule).predict(sequence, schedule, model);
}

Prediction BehindProgrammaticEdge(Prediction prediction, const DeviceModel& model) {
  const double saved = std::min(model.programmatic_edge_us, prediction.fixed_us);
  prediction.fixed_us -= saved;
  prediction.total_us += prediction.out_of_step_us - saved;
  prediction.out_of_step_us = 0;
  prediction.bound = BoundOf(prediction);
  return prediction;
}

namespace {

constexpr int64_t kMaxRowTiles = 128;
constexpr int kLeastShareOfBlock = 16;  // columns a warpgroup, of those that share a scale
constexpr int kTurns = 4;               // numbers of tiles a group that widths are balanced for

// Multiples of `step` that divide the columns of groups that share a tile.
std::vector<int> WidthsIn(int64_t bundle, int step, int widest) {
  std::vector<int> widths;
  for (int width = step; width <= std::min<int64_t>(widest, bundle); width += step) {
    if (bundle % width == 0) widths.push_back(width);
  }
  return widths;
}

constexpr int kMostStagesTried = 16;

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
  const int64_t want = std::max<int64_t>(2, std::min<int64_t>(kMostStagesTried, steps * tiles));
  s->stages = static_cast<int>(std::min(fit, want));
}

}  // namespace

std::vector<RowShape> RowShapes(const ProductSequence& p) {
  const int64_t step = RowStep(p), most = std::min<int64_t>(128, RoundUp(p.rows(), step));
  std::vector<int64_t> rows = {8, 16, 32, 64, 128, most};
  if (p.rows() % 96 == 0) rows.push_back(96);
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  std::vector<RowShape> shapes;
  for (int64_t r : rows) {
    if (r > most || r % step != 0 || (r < most && CeilDiv(p.rows(), r) > kMaxRowTiles)) continue;
    const int block_m = static_cast<int>(r);
    if (block_m > 64) {
      shapes.push_back({block_m, 2, 1});
    } else {
      shapes.push_back({block_m, 1, 1});
      shapes.push_back({block_m, 1, 2});
    }
  }
  // Three warpgroups, under windows or where their rows cover the bucket with less padding than two
  // warpgroups' do.
  constexpr int kThree = 192;
  const bool windows = p.front().rows.source == Source::kWindow && p.rows() > 128;
  if (p.size() == 1 && (windows || RoundUp(p.rows(), kThree) < RoundUp(p.rows(), 128)))
    shapes.push_back({kThree, 3, 1});
  return shapes;
}

int RowStep(const ProductSequence& p) {
  return p.front().HasTransposedRows() ? ElementOf(p.element()).swizzle_span : 8;
}

int ColumnStep(const ProductSequence& p, const RowShape& r) {
  if (p.back().HasGroups()) return kScaleBlock;
  const ElementRow element = ElementOf(p.element());
  const int each = p.layout() == Layout::kIO ? element.swizzle_span : element.exact ? 16 : 8;
  return each * r.warpgroups_n;
}

int WidestTile(int64_t columns, int width, int step, const RowShape& r) {
  const int most = (r.warpgroups_m == 3 ? 144 : 256) / width * r.warpgroups_n / step * step;
  return static_cast<int>(std::min<int64_t>(most, RoundUp(columns, step)));
}

std::vector<int> ColumnWidths(int64_t columns, int64_t row_tiles, int64_t groups, int step,
                              int widest) {
  std::vector<int> widths;
  if (widest < step || groups < 1) return widths;
  // With t tiles a group there are at most t * groups tiles, which gives the column ranges of each
  // row tile.
  int found = 0;
  for (int64_t turns = 1; turns <= 64 && found < kTurns; turns++) {
    const int64_t ranges = turns * groups / row_tiles;
    if (ranges < 1) continue;
    const int64_t width = RoundUp(CeilDiv(columns, ranges), step);
    if (width > widest) continue;
    widths.push_back(static_cast<int>(width));
    found++;
  }
  widths.push_back(widest);
  const int half = widest / 2 / step * step;
  if (half >= step) widths.push_back(half);
  std::sort(widths.begin(), widths.end());
  widths.erase(std::unique(widths.begin(), widths.end()), widths.end());
  return widths;
}

std::vector<int> TileWidths(const ProductSequence& p, const RowShape& r, int width, int64_t columns,
                            int64_t row_tiles, int64_t groups, int step) {
  const int widest = WidestTile(columns, width, step, r);
  if (const int64_t bundle = p.front().BundleColumns(); bundle > 0) {
    return WidthsIn(bundle, step, widest);
  }
  if (p.front().weights.scales.kind != ScaleKind::kBlock)
    return ColumnWidths(columns, row_tiles, groups, step, widest);
  std::vector<int> widths;
  for (int each = kLeastShareOfBlock; each <= kScaleBlock; each *= 2) {
    const int block_n = each * r.warpgroups_n;
    if (block_n % step == 0 && block_n <= widest) widths.push_back(block_n);
  }
  // A matrix of fewer columns than the least tile is one tile.
  if (widths.empty() && columns < kLeastShareOfBlock && kLeastShareOfBlock % step == 0) {
    widths.push_back(kLeastShareOfBlock * r.warpgroups_n);
  }
  return widths;
}

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
