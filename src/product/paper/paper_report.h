// The report of FlashFuser's own search for a problem: the size of its space after each rule, the
// best points, and where Algorithm 1 places the tensor between the products. Text for people, JSON
// for tools.
#ifndef SINTER_SRC_PRODUCT_PAPER_PAPER_REPORT_H_
#define SINTER_SRC_PRODUCT_PAPER_PAPER_REPORT_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "src/base/device_model.h"
#include "src/product/paper/paper_space.h"

namespace sinter {

// Algorithm 1 of FlashFuser: bytes per memory level of one point of the paper's space. I/O tensors
// follow Chimera's keep_reuse rule (arXiv / HPCA 2023): each loop outside the innermost one that
// indexes a tensor reads it again.

enum class MemoryLevel : uint8_t { kRegister = 0, kShared, kDsm, kL2, kGlobal, kCount };
constexpr size_t kMemoryLevels = static_cast<size_t>(MemoryLevel::kCount);
using LevelBytes = std::array<double, kMemoryLevels>;

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
// {"schema": 1, "problem", "chip", "rules": [{"after", "points", "published", "reading"}],
// "survivors", "realisable", "best": [{"us", "loops", "cluster", "tile", "kept_bytes", "mapping",
// "volume"}]}; levels by name, bytes.
std::string PaperReportJson(const PaperReport& report);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_PAPER_PAPER_REPORT_H_
