// Resident weights: persistent clusters keep the weights of both products in shared memory and walk
// over tiles of 64 rows, one for each consumer warpgroup. A block takes its range of N in chunks of
// first.block_n columns, which stay in registers. The blocks of a cluster add their parts of E.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/ceil_div.h"
#include "src/product/dataflow/dataflow.h"
#include "src/product/dataflow/time_line.h"
#include "src/product/schedule_refusal.h"
#include "src/product/search/space_walk.h"

namespace sinter {
namespace {

constexpr int kLaneRows = 64;  // of a warpgroup's tile
constexpr int kKStep = 16;     // of a wgmma of 16-bit elements
constexpr int kMostChunks = 8, kMostStages = 16;
// Registers of a thread for a chunk's sums, C and E; with a residual and scaled products.
constexpr int64_t kMostWords = 176, kMostScaledWords = 144;

int64_t Chunks(const ProductSequence& p, const Schedule& s) {
  return CeilDiv(p[0].n, int64_t{s.first.block_n} * s.cluster);
}

int64_t WeightBytes(const ProductSequence& p, const Schedule& s) {
  const int64_t first = RoundUp(p[0].StagedK(), s.block_k) * p[0].Width() * s.first.block_n;
  const int64_t second = RoundUp(s.first.block_n, s.block_k) * s.second.block_n;
  return Chunks(p, s) * (first * p[0].weights.bytes() + second * p[1].weights.bytes());
}

absl::Status CheckChunks(const ProductSequence& p, const Schedule& s) {
  const int64_t chunks = Chunks(p, s);
  if (chunks > kMostChunks) {
    return RefuseSchedule("first.block_n", s.first.block_n,
                          absl::StrCat("makes ", chunks, " chunks, more than ", kMostChunks));
  }
  const int step = chunks * s.cluster > 1 ? s.block_k : kKStep;
  if (s.first.block_n % step != 0) {
    return RefuseSchedule("first.block_n", s.first.block_n,
                          absl::StrCat("is not a multiple of ", step, " in ", NameOf(s.dataflow)));
  }
  const int64_t steps = CeilDiv(p[0].StagedK(), s.block_k);
  if (chunks > 1 && s.stages < steps) {
    return RefuseSchedule("stages", s.stages,
                          absl::StrCat("is below the ", steps, " that all chunks multiply"));
  }
  if (s.stages <= kMostStages) return absl::OkStatus();
  return RefuseSchedule("stages", s.stages, absl::StrCat("is above ", kMostStages));
}

absl::Status CheckResident(const ProductSequence& p, const Schedule& s, const ScheduleSizes&) {
  if (ElementOf(p.element()).bytes != 2) {
    return RefuseSchedule("dataflow", static_cast<int>(s.dataflow),
                          absl::StrCat("(", NameOf(s.dataflow), ") takes elements of 16 bits"));
  }
  if (s.warpgroups_n != 1 || s.block_m != kLaneRows * s.warpgroups_m) {
    return RefuseSchedule(
        "block_m", s.block_m,
        absl::StrCat("is not ", kLaneRows, " for each of ", s.warpgroups_m, " warpgroups along M"));
  }
  if (s.first.split_k != 1) return RefuseSchedule("first.split_k", s.first.split_k, "is not 1");
  if (s.second.split_k != s.cluster) {
    return RefuseSchedule("second.split_k", s.second.split_k,
                          absl::StrCat("is not the cluster of ", s.cluster));
  }
  if (s.second.block_n < p[1].n) {
    return RefuseSchedule("second.block_n", s.second.block_n, absl::StrCat("is below l ", p[1].n));
  }
  const int64_t words = AccumulatorsOf(s, s.first, p[0].Width()) + s.first.block_n / 4 +
                        AccumulatorsOf(s, s.second, 1);
  const bool full = p.scaled() && p.back().epilogue.has_residual();
  const int64_t most_words = full ? kMostScaledWords : kMostWords;
  if (words > most_words) {
    return RefuseSchedule("sums of both products", words,
                          absl::StrCat("is above ", most_words, " registers a thread"));
  }
  const int64_t most = CeilDiv(p.rows(), kLaneRows) * s.cluster;
  if (s.grid > most) {
    return RefuseSchedule("grid", s.grid, absl::StrCat("is above the ", most, " blocks with work"));
  }
  return CheckChunks(p, s);
}

void VisitChunks(const SpaceWalk& w, Schedule s, int step) {
  const int64_t range = CeilDiv(w.p[0].n, s.cluster);
  for (int chunks = 1; chunks <= kMostChunks; ++chunks) {
    s.first = {static_cast<int>(RoundUp(CeilDiv(range, chunks), step)), 1};
    if (s.first.block_n > 256 || Chunks(w.p, s) != chunks) continue;
    w.Visit(s);
  }
}

void EnumerateResident(const SpaceWalk& w) {
  const int span = ElementOf(w.p.element()).swizzle_span;
  const int64_t l = RoundUp(w.p[1].n, w.p.layout() == Layout::kIO ? span : 8);
  if (l > 256) return;
  for (int lanes : {1, 2}) {
    for (int block_k : w.StepsOfK()) {
      for (int cluster : kClusterSizes) {
        Schedule s;
        s.dataflow = Dataflow::kResidentWeights;
        s.block_m = kLaneRows * lanes;
        s.warpgroups_m = lanes;
        s.block_k = block_k;
        s.cluster = cluster;
        s.second = {static_cast<int>(l), cluster};
        const int64_t tiles = CeilDiv(w.p.rows(), kLaneRows);
        const int64_t resident = w.model.ResidentBlocks(cluster) / cluster;
        s.grid = static_cast<int>(std::min(tiles, resident) * cluster);
        if (s.grid > 0) VisitChunks(w, s, block_k);
      }
    }
  }
}

// Both products of the busiest block, whose weights are loaded once.
ProductLoad ResidentLoad(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
  const ProductDims first = FirstDims(p, s), second = SecondDims(p, s);
  const int64_t clusters = s.grid / s.cluster, all = CeilDiv(p.rows(), kLaneRows);
  const int64_t tiles = CeilDiv(all, clusters);
  const int64_t columns = Chunks(p, s) * s.first.block_n, k = first.k;
  const int64_t rows = kLaneRows * k * first.row_bytes;
  // Per row, a product of the whole range as wide as the schedule cuts it: levels of one tile.
  ProductLoad load = LoadOf(first, p, s, {static_cast<int>(columns), 1}, s.grid, model);
  const double tiles_of = static_cast<double>(tiles);
  load.turns = CeilDiv(tiles, s.warpgroups_m);
  load.steps = load.turns * CeilDiv(k, s.block_k);
  load.busy_blocks = std::min(all, clusters) * s.cluster;
  load.block_bytes = tiles_of * static_cast<double>(rows);
  load.intake_bytes =
      load.block_bytes * (1 + model.l2_straddle_loss * load.rows.straddling) +
      tiles_of * static_cast<double>(kLaneRows * p[1].n * second.residual_bytes / s.cluster);
  const double w1 = static_cast<double>(first.width * first.n * k * first.weight_bytes);
  const double w2 = static_cast<double>(second.n * second.k * second.weight_bytes);
  load.weights.bytes = static_cast<double>(clusters) * (first.filled * w1 + w2);
  load.weights.readers = static_cast<double>(clusters);
  load.hbm_bytes += w2;
  load.residual.bytes = static_cast<double>(p.rows() * second.n * second.residual_bytes);
  load.hbm_bytes += load.residual.bytes;
  load.result.bytes = static_cast<double>(p.rows() * second.n * second.result_bytes);
  load.total_bytes = load.weights.bytes + load.rows.bytes + load.residual.bytes;
  const int64_t chunks = Chunks(p, s),
                sums = first.width * columns * k + columns * s.second.block_n;
  load.flop = tiles_of * 2.0 * static_cast<double>(kLaneRows * sums);
  load.shared_bytes =
      tiles_of * static_cast<double>((1 + chunks) * rows + 2 * sums);  // B is read for each tile
  return load;
}

// A warpgroup's time for one tile, alone.
double LaneUs(const ProductSequence& p, const Schedule& s, const ProductLoad& load, double reduce,
              const DeviceModel& model) {
  const double tile = load.flop / static_cast<double>(load.turns * s.warpgroups_m);
  const ProductTile range = {static_cast<int>(Chunks(p, s)) * s.first.block_n, 1};
  return tile / (model.tensor_flop_per_us / model.sm_count) +
         EpilogueUs(p[0].epilogue.activation(), s, range, model) + reduce +
         EndUs(SecondDims(p, s), p, 1, s, s.second, model);
}

Prediction PredictResident(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
  const ProductLoad load = ResidentLoad(p, s, model);
  const ProductDims second = SecondDims(p, s);
  TimeLine line;
  const double weights = static_cast<double>(WeightBytes(p, s)) / model.sm_intake_bytes_per_us;
  line.Fixed(model.launch_us + model.fill_us + weights);
  const LevelTimes times = TimesOf(load, s, static_cast<double>(SizesOf(p, s).stage_bytes), model);
  line.Stream(times, load);
  const double reduce = ReduceUs(second, s, s.second, model);
  line.Dsm(0,
           static_cast<double>(CeilDiv(p.rows(), s.block_m)) * ReduceTraffic(second, s, s.second));
  line.p.dsm_us = reduce * static_cast<double>(load.turns);
  // A warpgroup's tiles follow one another; what other warpgroups hide of them is the stream.
  const double lane = EachTurn(LaneUs(p, s, load, reduce, model), load);
  line.Fixed(std::max(0.0, lane - Combine(times)) + model.drain_us);
  return line.Finish();
}

}  // namespace

constexpr DataflowRow kResidentWeightsRow = [] {
  DataflowRow row;
  row.dataflow = Dataflow::kResidentWeights;
  row.name = "resident-weights";
  row.title = "persistent clusters keep all weights: row tiles pass, c stays in registers";
  row.how = "each warpgroup has a row tile of its own";
  row.medium = Medium::kRegister;
  row.cluster_owns_rows = true;
  row.resident_bytes = WeightBytes;
  row.check = CheckResident;
  row.enumerate = EnumerateResident;
  row.predict = PredictResident;
  return row;
}();

}  // namespace sinter
