#include "src/product/paper/dataflow_analyzer.h"

#include <algorithm>

#include "src/product/element.h"

namespace sinter {
namespace {

constexpr int kElementBytes = ElementOf(DType::kF16).bytes, kPartialBytes = 4;  // bytes
constexpr int64_t kRegisterBytesKept = 128 * 256 * 4;  // accumulators of two warpgroups in a block

constexpr uint8_t Bit(LoopDim d) { return static_cast<uint8_t>(1 << static_cast<int>(d)); }
constexpr uint8_t kM = Bit(LoopDim::kM), kN = Bit(LoopDim::kN), kK = Bit(LoopDim::kK),
                  kL = Bit(LoopDim::kL);

int64_t Extent(const PaperProblem& p, LoopDim d) {
  const int64_t extents[] = {p.m, p.n, p.k, p.l};
  return extents[static_cast<int>(d)];
}

int64_t Blocks(const ClusterShape& c, LoopDim d) {
  const int64_t blocks[] = {c.m, c.n, c.k, c.l};
  return blocks[static_cast<int>(d)];
}

int64_t Units(const PaperProblem& p, const PaperPoint& x, LoopDim d) {
  const int64_t tiles[] = {x.tile.m, x.tile.n, x.tile.k, x.tile.l};
  const int64_t unit = tiles[static_cast<int>(d)] * Blocks(x.cluster, d);
  return (Extent(p, d) + unit - 1) / unit;
}

double Trips(const PaperProblem& p, const PaperPoint& x, LoopDim d) {
  return static_cast<double>(TemporalTrips(p, x, d));
}

// The tensor that a cluster keeps between the products, and how often each of its bytes is read.
struct Kept {
  double bytes = 0, reads = 0;
};

Kept KeptTensor(const PaperProblem& p, const PaperPoint& x) {
  const auto rows = static_cast<double>(x.cluster.m * x.tile.m);
  const double c_tile = rows * static_cast<double>(x.cluster.n * x.tile.n) * kElementBytes;
  const double l_trips = Trips(p, x, LoopDim::kL);
  if (x.loops.IsSpatial(LoopDim::kN)) return {c_tile, l_trips};
  const int l = x.loops.Position(LoopDim::kL), n = x.loops.Position(LoopDim::kN);
  if (l >= 0 && l < n) return {rows * static_cast<double>(p.n) * kElementBytes, l_trips};
  // Every N step but the first reads and writes partial E once.
  return {c_tile + rows * static_cast<double>(p.l) * kPartialBytes, Trips(p, x, LoopDim::kN)};
}

// Fills the fastest level first, then the next slower one: lines 11 to 18 of Algorithm 1.
void PlaceKept(const PaperProblem& p, const PaperPoint& x, const DeviceModel& model,
               DataflowReport* report) {
  const Kept kept = KeptTensor(p, x);
  const auto blocks = static_cast<double>(x.cluster.Blocks());
  const auto shared = static_cast<double>(model.shared_bytes_per_block);
  const LevelBytes capacity = {static_cast<double>(kRegisterBytesKept), shared,
                               shared * (blocks - 1), static_cast<double>(model.l2_bytes),
                               kept.bytes};
  report->kept_bytes = kept.bytes;
  const double sweeps = Trips(p, x, LoopDim::kM) * static_cast<double>(report->clusters);
  double remaining = kept.bytes;
  for (size_t level = 0; level < kMemoryLevels; level++) {
    const double here = std::min(remaining, capacity[level]);
    report->mapping[level] = here;
    report->volume[level] += here * (1 + kept.reads) * sweeps;
    remaining -= here;
  }
}

void AddExchanges(const PaperProblem& p, const PaperPoint& x, DataflowReport* report) {
  const double clusters = static_cast<double>(report->clusters);
  const double m = Trips(p, x, LoopDim::kM), n = Trips(p, x, LoopDim::kN),
               l = Trips(p, x, LoopDim::kL);
  double& dsm = report->volume[static_cast<size_t>(MemoryLevel::kDsm)];
  dsm += clusters * m * n * AllExchangeBytes(x.cluster, x.tile);
  dsm += clusters * m * n * l * ShuffleRingBytes(x.cluster, x.tile);
  dsm += clusters * m * l * ReduceScatterBytes(x.cluster, x.tile);
}

}  // namespace

int64_t TemporalTrips(const PaperProblem& p, const PaperPoint& x, LoopDim d) {
  return x.loops.IsSpatial(d) ? 1 : Units(p, x, d);
}

int64_t SpatialUnits(const PaperProblem& p, const PaperPoint& x, LoopDim d) {
  return x.loops.IsSpatial(d) ? Units(p, x, d) : 1;
}

double GlobalBytes(const PaperProblem& p, const PaperPoint& x, uint8_t indexes, uint8_t loops,
                   double tile_bytes) {
  double bytes = tile_bytes;
  bool touched = false;
  for (int i = x.loops.temporal - 1; i >= 0; i--) {
    const LoopDim d = x.loops.order[static_cast<size_t>(i)];
    if (!(loops & Bit(d))) continue;
    touched = touched || (indexes & Bit(d));
    if (touched) bytes *= Trips(p, x, d);
  }
  for (int i = 0; i < kLoopDims; i++) {
    const auto d = static_cast<LoopDim>(i);
    if (!(loops & Bit(d))) continue;
    if (indexes & Bit(d)) bytes *= static_cast<double>(Blocks(x.cluster, d));
    bytes *= static_cast<double>(SpatialUnits(p, x, d));
  }
  return bytes;
}

bool Realisable(const PaperProblem& p, const PaperPoint& x) {
  return x.cluster.Consistent() && SpatialUnits(p, x, LoopDim::kK) == 1;
}

DataflowReport AnalyzeDataflow(const PaperProblem& p, const PaperPoint& x,
                               const DeviceModel& model) {
  DataflowReport report;
  report.clusters = 1;
  for (int d = 0; d < kLoopDims; d++) {
    report.clusters *= SpatialUnits(p, x, static_cast<LoopDim>(d));
  }
  const BlockTile& t = x.tile;
  const uint8_t first = kM | kN | kK, second = kM | kN | kL;
  double& global = report.volume[static_cast<size_t>(MemoryLevel::kGlobal)];
  global += GlobalBytes(p, x, kM | kK, first, kElementBytes * static_cast<double>(t.m * t.k));
  global += GlobalBytes(p, x, kK | kN, first, kElementBytes * static_cast<double>(t.k * t.n));
  global += GlobalBytes(p, x, kN | kL, second, kElementBytes * static_cast<double>(t.n * t.l));
  // E is written once. With several clusters along N each writes its f32 partial sums
  // (inter_cluster_reduce).
  const auto partial_clusters = static_cast<double>(SpatialUnits(p, x, LoopDim::kN));
  const auto e = static_cast<double>(p.m * p.l);
  global += partial_clusters > 1 ? e * kPartialBytes * partial_clusters : e * kElementBytes;
  PlaceKept(p, x, model, &report);
  AddExchanges(p, x, &report);
  // All global traffic passes L2 and is written to shared memory once.
  report.volume[static_cast<size_t>(MemoryLevel::kL2)] += global;
  report.volume[static_cast<size_t>(MemoryLevel::kShared)] += global;
  return report;
}

double MinimaxCost(const DataflowReport& report, const PaperPoint& x, const DeviceModel& model) {
  const auto volume = [&](MemoryLevel level) { return report.volume[static_cast<size_t>(level)]; };
  const auto busy =
      static_cast<double>(std::min<int64_t>(model.sm_count, report.clusters * x.cluster.Blocks()));
  const double share =
      busy / model.sm_count;  // levels inside an SM work only where there is a block
  const int size = ClusterIndex(static_cast<int>(x.cluster.Blocks()));
  const double dsm = model.dsm_bytes_per_us[static_cast<size_t>(std::max(0, size))];
  return std::max({volume(MemoryLevel::kShared) / (model.shared_bytes_per_us * busy),
                   volume(MemoryLevel::kDsm) / (dsm * share),
                   volume(MemoryLevel::kL2) /
                       std::min(model.l2_bytes_per_us, model.sm_intake_bytes_per_us * busy),
                   volume(MemoryLevel::kGlobal) / model.hbm_bytes_per_us});
}

}  // namespace sinter
