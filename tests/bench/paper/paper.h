// FlashFuser's own search, as published: its space and its report.
#pragma once

#include "src/base/device_model.h"
#include "src/plan/product_family.h"
#include "src/product/sequence.h"
#include "tests/support/common.h"

namespace sinter {

// Paper mode: FlashFuser's own search space and its five pruning rules (arXiv 2512.12949, section
// IV-C), as published, so that its counts can be checked. The shipping space is src/product/search.

struct ClusterShape {
  int64_t m = 1, n = 1, k = 1, l = 1;
  int64_t Blocks() const { return m * n * k; }
  // Whether both derived sizes are whole: otherwise the primitives cannot be carried out.
  bool Consistent() const { return l % k == 0 && (n * k) % l == 0; }
  // Both need Consistent(). Then m n k == m l Reduce().
  int64_t Shuffle() const { return l / k; }
  int64_t Reduce() const { return n * k / l; }
  SINTER_FIELDS(ClusterShape, m, n, k, l);
};

struct BlockTile {
  int64_t m = 16, n = 16, k = 16, l = 16;  // extent that one block handles
};

// Bytes that cross distributed shared memory in one cluster. The paper prints no formulas; these
// count every byte that leaves a block. C parts and partial E are f32, finished C has 2 bytes an
// element. Gated chains whose gate and up lie in different blocks exchange in the same way
// (operator Mul for Add).
// AllExchangeBytes: one C tile a block, ring all-reduce, 2 (k - 1) tiles a group.
double AllExchangeBytes(const ClusterShape& cluster, const BlockTile& tile);
// One pass of the second product over the cluster's C: every block receives shuffle - 1 slices.
double ShuffleRingBytes(const ClusterShape& cluster, const BlockTile& tile);
// One E tile a block: reduce - 1 partial tiles a group move.
double ReduceScatterBytes(const ClusterShape& cluster, const BlockTile& tile);

struct PaperProblem {
  int64_t m = 0, n = 0, k = 0, l = 0;
};

enum class LoopDim : uint8_t { kM = 0, kN = 1, kK = 2, kL = 3 };
constexpr int kLoopDims = 4;

// One of 41 loop schedules: a non-empty set of spatial dimensions (parallel clusters) and an order
// of the temporal ones.
struct LoopSchedule {
  uint8_t spatial = 0;             // bit d: dimension d is spatial
  std::array<LoopDim, 4> order{};  // temporal dimensions, outermost first
  int temporal = 0;                // entries of `order` in use
  bool IsSpatial(LoopDim d) const { return spatial >> static_cast<int>(d) & 1; }
  int Position(LoopDim d) const;  // in `order`; -1 when spatial
  std::string ToString() const;   // "spatial N, MLK"
};

struct PaperPoint {
  LoopSchedule loops;
  ClusterShape cluster;
  BlockTile tile;
};

// The dimensions of the space, each enumerated by itself.
std::vector<LoopSchedule> AllLoopSchedules();   // 41: Table IV
std::vector<ClusterShape> AllClusterShapes();   // {1,2,4,8,16}^4 = 625
std::vector<int64_t> AllTiles(int64_t extent);  // multiples of 16 (one MMA) up to the extent

// Rule 1 (after MCFuser): a tile divides its dimension, and is made of MMA tiles of 16.
bool Rule1(int64_t extent, int64_t tile);
// Rule 2: the blocks of each product fit the hardware's limit of 16 a cluster; both products have
// the same m.
bool Rule2(const ClusterShape& cluster);
// Rule 3: the activation needs whole sums: K, if temporal, is the innermost loop.
bool Rule3(const LoopSchedule& loops);
// Rule 4: L is not spatial: every tile of E needs all of C, which clusters cannot exchange.
bool Rule4(const LoopSchedule& loops);
// Rule 5: each tensor fits the lowest level that it may spill to: operand and output tiles the
// shared memory of a block; C or partial E, as far as the loop order keeps them, the shared memory
// of the cluster.
bool Rule5(const PaperProblem& problem, const PaperPoint& point, int64_t shared_bytes_per_block);

// A set of rules; bit r - 1 stands for rule r.
class RuleSet {
 public:
  static RuleSet None() { return RuleSet(0); }
  static RuleSet UpTo(int rule) { return RuleSet((1u << rule) - 1); }
  static RuleSet All() { return UpTo(5); }
  RuleSet Without(int rule) const { return RuleSet(bits_ & ~(1u << (rule - 1))); }
  bool Has(int rule) const { return bits_ >> (rule - 1) & 1; }

 private:
  explicit RuleSet(uint32_t bits) : bits_(bits) {}
  uint32_t bits_;
};

// The space under a set of rules. Rules 1 to 4 each concern one dimension of the space (a tile, a
// cluster shape, a loop schedule), so each list is filtered once and the counts are multiplied.
// Rule 5 concerns all dimensions, so the filtered space is walked point by point.
class PaperSpace {
 public:
  PaperSpace(const PaperProblem& problem, const DeviceModel& model, RuleSet rules);
  uint64_t Count() const;
  // Every point, in a fixed order, rule 5 applied if it is in the set.
  void ForEach(const std::function<void(const PaperPoint&)>& visit) const;

 private:
  uint64_t FactoredCount() const;
  template <typename F>
  void Walk(F&& visit) const;

  PaperProblem problem_;
  int64_t shared_bytes_;
  bool rule5_;
  std::vector<int64_t> m_, n_, k_, l_;
  std::vector<ClusterShape> clusters_;
  std::vector<LoopSchedule> loops_;
};

// The report of FlashFuser's own search for a problem: the size of its space after each rule, the
// best points, and where Algorithm 1 places the tensor between the products.

// Algorithm 1 of FlashFuser: bytes per memory level of one point of the paper's space. I/O tensors
// follow Chimera's keep_reuse rule (arXiv / HPCA 2023): each loop outside the innermost one that
// indexes a tensor reads it again.

struct DataflowReport {
  LevelBytes volume{};    // bytes that cross each level, whole chip
  LevelBytes mapping{};   // where the tensor that a cluster keeps (C, or partial E) lies
  double kept_bytes = 0;  // its size in one cluster
  int64_t clusters = 0;   // parallel clusters
};

// TemporalTrips: trips of the loop over `d`, 1 when spatial. SpatialUnits: clusters along `d`, 1
// when temporal.
int64_t TemporalTrips(const PaperProblem& problem, const PaperPoint& point, LoopDim d);
int64_t SpatialUnits(const PaperProblem& problem, const PaperPoint& point, LoopDim d);

// Global bytes that one product reads of an I/O tensor. `indexes` and `loops` are bit sets over
// LoopDim; `tile_bytes` is the footprint of one block's tile.
double GlobalBytes(const PaperProblem& problem, const PaperPoint& point, uint8_t indexes,
                   uint8_t loops, double tile_bytes);

// Whether the primitives can carry out a point: the cluster's derived sizes are whole, and no two
// clusters hold parts of one sum of C (dsm_all_exchange ends at the cluster, and the activation
// needs whole sums). The five rules check neither.
bool Realisable(const PaperProblem& problem, const PaperPoint& point);

// Precondition: Realisable(problem, point).
DataflowReport AnalyzeDataflow(const PaperProblem& problem, const PaperPoint& point,
                               const DeviceModel& model);

// The paper's cost in microseconds: the maximum over the levels of volume / bandwidth. Registers
// cost nothing.
double MinimaxCost(const DataflowReport& report, const PaperPoint& point, const DeviceModel& model);

struct PaperCandidate {
  PaperPoint point;
  double cost_us = 0;
};

struct PaperSearchResult {
  std::vector<PaperCandidate>
      best;                 // at most K, cheapest first; of equal costs the one enumerated first
  uint64_t survivors = 0;   // after the five rules
  uint64_t realisable = 0;  // survivors that the primitives can carry out
};

PaperSearchResult PaperSearch(const PaperProblem& problem, const DeviceModel& model, size_t top_k);

// The problem of a sequence whose rows have `m` units. INVALID_ARGUMENT for what the published
// space and Algorithm 1 do not have: they have two products of one matrix each, and rows that lie
// in memory.
absl::StatusOr<PaperProblem> PaperProblemOf(const ProductSequence& sequence, int64_t m);

constexpr int kPaperRules = 5;
constexpr uint32_t kPaperTopK = 11;  // the number that the paper compiles and times

struct PaperReport {
  PaperProblem problem;
  std::string chip;                                 // the model's name
  std::array<uint64_t, kPaperRules + 1> counts{};   // points before any rule, after rule 1, ..
  std::array<double, kPaperRules + 1> published{};  // the paper's counts; 0: not published
  PaperSearchResult found;
  std::vector<DataflowReport> dataflows;  // one for each of found.best
};

// The search visits every point that rules 1 to 4 leave: 10 million take about 0.3 s.
// INVALID_ARGUMENT naming a dimension that is not a multiple of 16 up to 65536; RESOURCE_EXHAUSTED
// when more than 10^8 points are left. Deterministic, thread-safe.
absl::StatusOr<PaperReport> MakePaperReport(const PaperProblem& problem, const DeviceModel& model,
                                            size_t top_k);

std::string PaperReportText(const PaperReport& report);

}  // namespace sinter
