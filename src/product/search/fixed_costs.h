// Costs of a kernel that are not a stream of stages: what a tile's end takes. Microseconds, of one
// block for one tile.
#ifndef SINTER_SRC_PRODUCT_SEARCH_FIXED_COSTS_H_
#define SINTER_SRC_PRODUCT_SEARCH_FIXED_COSTS_H_

#include "src/product/search/product_load.h"

namespace sinter {

// Distributed shared memory's bandwidth of one SM, in clusters of that size.
double DsmBytesPerUs(int cluster, const DeviceModel& model);

// dsm_reduce_scatter among tile.split_k ranks: the parts' way through distributed shared memory,
// one barrier round, and the sum out of the owner's shared memory. 0 when K is not split.
double ReduceUs(const ProductDims& dims, const Schedule& schedule, const ProductTile& tile,
                const DeviceModel& model);
// Bytes that the ranks of one tile write through distributed shared memory. A rank's own part is
// among them: it takes the same way.
double ReduceTraffic(const ProductDims& dims, const Schedule& schedule, const ProductTile& tile);

// A thread's way through its accumulators of one matrix: activation, rounding, the transpose in
// front of the store. Warpgroups side by side share the schedulers, so they gain nothing.
double EpilogueUs(Activation activation, const Schedule& s, const ProductTile& tile,
                  const DeviceModel& model);

// Storing a block's share of a tile of `rows` rows in all. Threads write rows of 16 bytes, half a
// sector: twice the bytes.
double StoreUs(const ProductDims& dims, int64_t rows, const Schedule& schedule,
               const ProductTile& tile, const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEARCH_FIXED_COSTS_H_
