// What a kernel of products takes: the time of a stream of stages on each level of the memory
// hierarchy, and the costs at the end of a tile, which are no part of the stream. Microseconds;
// every constant is a field of DeviceModel.
#ifndef SINTER_SRC_PRODUCT_SEARCH_COSTS_H_
#define SINTER_SRC_PRODUCT_SEARCH_COSTS_H_

#include "src/base/device_model.h"
#include "src/product/schedule.h"
#include "src/product/search/product_load.h"

namespace sinter {

// Bandwidth of one SM to distributed shared memory, in clusters of `cluster` blocks.
double DsmBytesPerUs(int cluster, const DeviceModel& model);

// dsm_reduce_scatter among tile.split_k ranks: parts written to distributed shared memory, one
// barrier, and the owner's sum from shared memory. 0 when K is not split.
double ReduceUs(const ProductDims& dims, const Schedule& schedule, const ProductTile& tile,
                const DeviceModel& model);
// Bytes that the ranks of one tile write to distributed shared memory. A rank's own part is
// included: it takes the same path.
double ReduceTraffic(const ProductDims& dims, const Schedule& schedule, const ProductTile& tile);

// What a thread computes of its accumulators of one matrix: column terms and activations.
double ComputeUs(const MatrixProduct& product, const Schedule& s, const ProductTile& tile,
                 const DeviceModel& model);
// The same with rounding and the transpose before the store. Warpgroups side by side share the
// schedulers, so they gain nothing.
double EpilogueUs(const MatrixProduct& product, const Schedule& s, const ProductTile& tile,
                  const DeviceModel& model);

// Storing a block's share of a tile of `rows` rows. Threads write 16 bytes of a row, half a sector,
// so twice the bytes are counted.
double StoreUs(const ProductDims& dims, int64_t rows, const Schedule& schedule,
               const ProductTile& tile, const DeviceModel& model);

// Time of one stream of stages on each level alone, in microseconds.
struct LevelTimes {
  double hbm = 0, l2 = 0, intake = 0, shared = 0, tensor = 0;
};

// `stage_bytes`: bytes of one ring stage; the ring holds schedule.stages of them.
LevelTimes TimesOf(const ProductLoad& load, const Schedule& schedule, double stage_bytes,
                   const DeviceModel& model);

// Time of a stream whose levels work at once: their 4-norm, because stages arrive in bursts.
double Combine(const LevelTimes& levels);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEARCH_COSTS_H_
