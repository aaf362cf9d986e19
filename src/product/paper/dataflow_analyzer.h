// Algorithm 1 of FlashFuser: bytes per memory level of one point of the paper's space. I/O tensors
// follow Chimera's keep_reuse rule (arXiv / HPCA 2023): each loop outside the innermost one that
// indexes a tensor reads it again.
#ifndef SINTER_SRC_PRODUCT_PAPER_DATAFLOW_ANALYZER_H_
#define SINTER_SRC_PRODUCT_PAPER_DATAFLOW_ANALYZER_H_

#include <array>
#include <cstdint>

#include "src/base/device_model.h"
#include "src/product/paper/paper_space.h"

namespace sinter {

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

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_PAPER_DATAFLOW_ANALYZER_H_
