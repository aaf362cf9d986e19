// Costs of a kernel that are not a stream of stages: what a tile's end takes. Microseconds, of one
// block for one tile.
#ifndef SINTER_SRC_PRODUCT_SEARCH_FIXED_COSTS_H_
#define SINTER_SRC_PRODUCT_SEARCH_FIXED_COSTS_H_

#include "src/product/search/product_load.h"

namespace sinter {

// dsm_reduce_scatter among tile.split_k ranks: the parts' way through distributed shared memory,
// one barrier round, and the sum out of the owner's shared memory. 0 when K is not split.
double ReduceUs(const ProductDims& dims, const Schedule& schedule, const ProductTile& tile,
                const DeviceModel& model);
// Bytes that the ranks of one tile write through distributed shared memory. A rank's own part is
// among them: it takes the same way.
double ReduceTraffic(const ProductDims& dims, const Schedule& schedule, const ProductTile& tile);

// dsm_shuffle of kClusterExchange: a block's slice of C, the result of `dims`, to every peer, and
// one barrier round.
double ShuffleUs(const ProductDims& dims, const Schedule& schedule, const DeviceModel& model);
double ShuffleTraffic(const ProductDims& dims,
                      const Schedule& schedule);  // bytes that a block writes, to itself too

// inter_cluster_reduce of the clusters that share an M tile: a block's part of E to L2, its flag,
// the others' flags, its share of all parts, the sum. 0 with one cluster.
double PartsUs(const Schedule& schedule, const DeviceModel& model);
double PartsBytes(const Schedule& schedule);  // a block gives, and takes

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
