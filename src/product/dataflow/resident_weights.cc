// Resident weights: persistent clusters keep the weights of both products in shared memory and walk
// over tiles of 64 rows, one for each consumer warpgroup. A block takes its range of N in chunks of
// first.block_n columns, which stay in registers. The blocks of a cluster add their parts of E.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "src/base/numbers.h"
#include "src/product/dataflow/dataflow.h"
#include "src/product/schedule_check.h"
#include "src/product/search/space.h"

namespace sinter {
namespace {

constexpr int kLaneRows = 64;  // of a warpgroup's tile
constexpr int kKStep = 16;     // of a wgmma of 16-bit elements
constexpr int kMostChunks = 8, kMostStages = 16;
// Instructions for a value of C: bias or scale, activation, half of a conversion, as round_c() of
// the device library is written.
constexpr int kRoundedValueInstructions = 3;
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

int64_t TilesOfCluster(const ProductSequence& p, const Schedule& s) {
  return CeilDiv(CeilDiv(p.rows(), kLaneRows), s.grid / s.cluster);
}

// Multiplications of a row of a tile in one block.
int64_t SumsOfRow(const ProductSequence& p, const Schedule& s) {
  const int64_t k = RoundUp(p[0].StagedK(), s.block_k);
  return Chunks(p, s) * s.first.block_n * (p[0].Width() * k + s.second.block_n);
}

// What the busiest block takes while row tiles pass. Its weights, loaded before, count in
// total_bytes and hbm_bytes alone.
ProductLoad ResidentLoad(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
  const ProductDims first = FirstDims(p, s), second = SecondDims(p, s);
  const int64_t clusters = s.grid / s.cluster, chunks = Chunks(p, s);
  const auto tiles = static_cast<double>(TilesOfCluster(p, s));
  const int64_t rows = kLaneRows * RoundUp(first.k, s.block_k) * first.row_bytes;
  // Rows are read once for all chunks.
  const ProductTile range = {static_cast<int>(chunks) * s.first.block_n, 1};
  ProductLoad load = LoadOf(first, p, s, range, s.grid, model);
  load.turns = CeilDiv(TilesOfCluster(p, s), s.warpgroups_m);
  load.steps = load.turns * CeilDiv(first.k, s.block_k);
  load.busy_blocks = std::min(CeilDiv(p.rows(), kLaneRows), clusters) * s.cluster;
  load.block_bytes = tiles * static_cast<double>(rows);
  load.intake_bytes =
      load.block_bytes * (1 + model.l2_straddle_loss * load.rows.straddling) +
      tiles * static_cast<double>(kLaneRows * p[1].n * second.residual_bytes / s.cluster);
  const double w1 = static_cast<double>(first.width * first.n * first.k * first.weight_bytes);
  const double w2 = static_cast<double>(second.n * second.k * second.weight_bytes);
  load.residual.bytes = static_cast<double>(p.rows() * second.n * second.residual_bytes);
  load.result.bytes = static_cast<double>(p.rows() * second.n * second.result_bytes);
  load.hbm_bytes += w2 + load.residual.bytes;
  load.total_bytes = static_cast<double>(clusters) * (first.filled * w1 + w2) + load.rows.bytes +
                     load.residual.bytes;
  load.weights.bytes = load.weight_bytes = 0;
  load.flop = tiles * static_cast<double>(2 * kLaneRows * SumsOfRow(p, s));
  load.shared_bytes =
      tiles * static_cast<double>((1 + chunks) * rows + first.weight_bytes * SumsOfRow(p, s));
  return load;
}

// The weights of a block's first chunk, over its SM's bandwidth, or with the chunks of all other
// blocks over the bandwidth of L2. The other chunks load meanwhile.
double WeightsUs(const ProductSequence& p, const Schedule& s, const ProductLoad& load,
                 const DeviceModel& model) {
  const int64_t clusters = s.grid / s.cluster;
  ProductLoad weights;
  weights.weights = {load.total_bytes - load.rows.bytes - load.residual.bytes,
                     static_cast<double>(clusters), load.weights.straddling};
  const double intake = static_cast<double>(WeightBytes(p, s)) / model.sm_intake_bytes_per_us;
  return std::max(intake, TimesOf(weights, s, 1, model).l2) / static_cast<double>(Chunks(p, s));
}

// Rows stay in the ring until the last of several chunks is done with them. The kernel waits for
// the part of the next tile that does not fit next to them.
double AwaitedRowsUs(const ProductSequence& p, const Schedule& s, const ProductLoad& load,
                     const DeviceModel& model) {
  if (Chunks(p, s) == 1) return 0;
  const auto steps = static_cast<double>(CeilDiv(p[0].StagedK(), s.block_k));
  return EachTurn(model.fill_us * std::clamp(2 - s.stages / steps, 0.0, 1.0), load);
}

// A turn of `lanes` warpgroups, each with a tile of its own. Half of the time they meet at the
// tensor cores and at distributed shared memory: they begin together.
double TurnUs(const ProductSequence& p, const Schedule& s, int64_t lanes,
              const DeviceModel& model) {
  const double meeting = static_cast<double>(1 + lanes) / 2;
  const double tensor = static_cast<double>(2 * kLaneRows * SumsOfRow(p, s)) /
                        (model.tensor_flop_per_us / model.sm_count);
  const auto chunks = static_cast<double>(Chunks(p, s));
  const ProductTile chunk = {s.first.block_n, 1};
  // C is rounded in registers: no store, so that a value takes few instructions.
  const int values = p[0].Width() * s.first.block_n / 2;
  const double epilogue =
      ComputeUs(p[0], s, chunk, model) + kRoundedValueInstructions * values / model.clock_mhz;
  Schedule lane = s;
  lane.block_m = kLaneRows;
  const ProductDims second = SecondDims(p, s);
  const double reduce = ReduceUs(second, lane, s.second, model);
  const double released = s.cluster > 1 ? model.cluster_barrier_us : 0;
  return meeting * (tensor + reduce) + released + chunks * (model.register_chunk_us + epilogue) +
         EndUs(second, p, 1, lane, s.second, model);
}

Prediction PredictResident(const ProductSequence& p, const Schedule& s, const DeviceModel& model) {
  const ProductLoad load = ResidentLoad(p, s, model);
  const ProductDims second = SecondDims(p, s);
  const int64_t tiles = TilesOfCluster(p, s), lanes = s.warpgroups_m;
  TimeLine line;
  line.Fixed(model.launch_us + model.fill_us + WeightsUs(p, s, load, model) + model.drain_us);
  LevelTimes times = TimesOf(load, s, static_cast<double>(SizesOf(p, s).stage_bytes), model);
  line.Levels(times, load);
  line.Dsm(0,
           static_cast<double>(CeilDiv(p.rows(), s.block_m)) * ReduceTraffic(second, s, s.second));
  line.p.dsm_us = static_cast<double>(load.turns) * ReduceUs(second, s, s.second, model);
  // A warpgroup does one thing after another; the other levels work meanwhile.
  times.tensor = static_cast<double>(tiles / lanes) * TurnUs(p, s, lanes, model);
  if (tiles % lanes > 0) times.tensor += TurnUs(p, s, tiles % lanes, model);
  times.tensor += AwaitedRowsUs(p, s, load, model);
  line.total += Combine(times);
  return line.Finish();
}

}  // namespace

constexpr DataflowRow kResidentWeightsRow = [] {
  DataflowRow row;
  row.dataflow = Dataflow::kResidentWeights;
  row.byte = 8;
  row.name = "resident-weights";
  row.title = "persistent clusters keep all weights: row tiles pass, c stays in registers";
  row.how = "as wgmma's rows";
  row.medium = Medium::kRegister;
  row.cluster_owns_rows = true;
  row.resident_bytes = WeightBytes;
  row.check = CheckResident;
  row.enumerate = EnumerateResident;
  row.predict = PredictResident;
  return row;
}();

}  // namespace sinter
