#include "src/product/operand.h"
#include "tests/bench/paper/paper.h"

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
  DataflowReport report{.clusters = 1};
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

namespace {

constexpr int64_t kSmallestTile = 16;
constexpr int64_t kMostExtent = 65536;  // below it the count before any rule fits 64 bits
constexpr uint64_t kMostPoints = 100000000;

struct CountedRule {
  const char* after;
  double published;  // for GPT-6.7B with M = 256
  const char* reading;
};
constexpr CountedRule kSteps[kPaperRules + 1] = {
    {"nothing", 2.75e13, "41 loop schedules x 625 cluster shapes x tiles of multiples of 16"},
    {"rule 1", 1.14e8, "a tile is a multiple of 16 and divides its dimension"},
    {"rule 2", 2.47e7, "cls_m cls_n cls_k <= 16 and cls_m cls_l <= 16"},
    {"rule 3", 1.44e7, "K is spatial or the innermost temporal loop"},
    {"rule 4", 9.62e6, "L is not spatial"},
    {"rule 5", 1.15e6, "tiles fit a block's shared memory, what the loops keep the cluster's"}};

constexpr const char* kLevelNames[kMemoryLevels] = {"registers", "shared", "dsm", "l2", "global"};

bool IsPublished(const PaperProblem& p) {
  return p.m == 256 && p.n == 16384 && p.k == 4096 && p.l == 4096;
}

absl::Status CheckExtents(const PaperProblem& p) {
  const std::pair<const char*, int64_t> extents[] = {
      {"m", p.m}, {"n", p.n}, {"k", p.k}, {"l", p.l}};
  for (const auto& [name, extent] : extents) {
    if (extent > 0 && extent <= kMostExtent && extent % kSmallestTile == 0) continue;
    return Invalid("paper search: ", name, " is ", extent, ", must be a multiple of 16 up to ",
                   kMostExtent, ": rule 1 has tiles that divide it");
  }
  return absl::OkStatus();
}

RuleSet RulesUpTo(int rule) { return rule == 0 ? RuleSet::None() : RuleSet::UpTo(rule); }

std::string ClusterText(const ClusterShape& c) {
  return absl::StrFormat("cluster m%d n%d k%d l%d (shuffle %d, reduce %d)", c.m, c.n, c.k, c.l,
                         c.Shuffle(), c.Reduce());
}

// Levels with bytes, in MB.
std::string LevelsText(const LevelBytes& bytes) {
  std::vector<std::string> parts;
  for (size_t level = 0; level < kMemoryLevels; ++level) {
    if (bytes[level] == 0) continue;
    parts.push_back(absl::StrFormat("%s %.3f", kLevelNames[level], bytes[level] / 1e6));
  }
  return parts.empty() ? "nothing" : absl::StrJoin(parts, ", ");
}

void AppendPoint(size_t rank, const PaperCandidate& candidate, const DataflowReport& dataflow,
                 std::string* text) {
  const PaperPoint& x = candidate.point;
  absl::StrAppendFormat(text, "%2d  %8.2f us  %s  %s  tile m%d n%d k%d l%d  %d clusters\n", rank,
                        candidate.cost_us, x.loops.ToString(), ClusterText(x.cluster), x.tile.m,
                        x.tile.n, x.tile.k, x.tile.l, dataflow.clusters);
  absl::StrAppend(text, "    kept MB a cluster  ", LevelsText(dataflow.mapping),
                  "\n    moved MB           ", LevelsText(dataflow.volume), "\n");
}

}  // namespace

PaperSearchResult PaperSearch(const PaperProblem& problem, const DeviceModel& model, size_t top_k) {
  PaperSearchResult result;
  PaperSpace(problem, model, RuleSet::All()).ForEach([&](const PaperPoint& point) {
    result.survivors++;
    if (!Realisable(problem, point)) return;
    result.realisable++;
    const double cost = MinimaxCost(AnalyzeDataflow(problem, point, model), point, model);
    if (result.best.size() == top_k && !(top_k > 0 && cost < result.best.back().cost_us)) return;
    const auto at = std::upper_bound(
        result.best.begin(), result.best.end(), cost,
        [](double c, const PaperCandidate& candidate) { return c < candidate.cost_us; });
    result.best.insert(at, {point, cost});
    if (result.best.size() > top_k) result.best.pop_back();
  });
  return result;
}

absl::StatusOr<PaperProblem> PaperProblemOf(const ProductSequence& sequence, int64_t m) {
  const int count = sequence.size();
  if (count != 2) {
    return Invalid("paper search: the chain has ", count, " product", count == 1 ? "" : "s",
                   ", must have 2");
  }
  for (const MatrixProduct& product : sequence.products) {
    if (product.pair) {
      return Invalid("paper search: a product has a gate; the published space is for gemm_chain");
    }
    if (product.rows.source == Source::kWindow) {
      return Invalid("paper search: a convolution has more than one tap; the published space is ",
                     "for gemm_chain and convolutions of one tap");
    }
  }
  if (!CanPair(sequence, 0)) return Invalid("paper search: the first product has a residual");
  const auto& products = sequence.products;
  return PaperProblem{m * sequence.rows_per_m, products[0].n, products[0].k, products[1].n};
}

absl::StatusOr<PaperReport> MakePaperReport(const PaperProblem& problem, const DeviceModel& model,
                                            size_t top_k) {
  SINTER_RETURN_IF_ERROR(CheckExtents(problem));
  PaperReport report{.problem = problem, .chip = model.name};
  for (int rule = 0; rule < kPaperRules; ++rule) {
    report.counts[static_cast<size_t>(rule)] = PaperSpace(problem, model, RulesUpTo(rule)).Count();
  }
  const uint64_t walked = report.counts[kPaperRules - 1];
  if (walked > kMostPoints) {
    return ResourceExhausted("paper search: rules 1 to 4 leave ", walked, " points, at most ",
                             kMostPoints, " are walked");
  }
  report.found = PaperSearch(problem, model, top_k);
  report.counts[kPaperRules] = report.found.survivors;
  for (size_t i = 0; i <= kPaperRules; ++i) {
    report.published[i] = IsPublished(problem) ? kSteps[i].published : 0;
  }
  for (const PaperCandidate& candidate : report.found.best) {
    report.dataflows.push_back(AnalyzeDataflow(problem, candidate.point, model));
  }
  return report;
}

std::string PaperReportText(const PaperReport& report) {
  const PaperProblem& p = report.problem;
  std::string text = absl::StrFormat(
      "FlashFuser's space (arXiv 2512.12949, IV-C) of C[m,n] = A[m,k] B[k,n], E[m,l] = C D[n,l]\n"
      "m %d  n %d  k %d  l %d  on %s\n\n%-8s %18s %10s  read as\n",
      p.m, p.n, p.k, p.l, report.chip, "after", "points", "paper");
  for (size_t i = 0; i <= kPaperRules; ++i) {
    const std::string paper =
        report.published[i] > 0 ? absl::StrFormat("%.2e", report.published[i]) : "-";
    absl::StrAppendFormat(&text, "%-8s %18d %10s  %s\n", kSteps[i].after, report.counts[i], paper,
                          kSteps[i].reading);
  }
  absl::StrAppendFormat(&text,
                        "\n%d of them can be carried out by the exchanges; the best by the slowest "
                        "level of Algorithm 1:\n",
                        report.found.realisable);
  for (size_t i = 0; i < report.found.best.size(); ++i) {
    AppendPoint(i + 1, report.found.best[i], report.dataflows[i], &text);
  }
  return text;
}

}  // namespace sinter
