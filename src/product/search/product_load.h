// The load of one product of a kernel under a schedule: bytes per memory level, operand reads and
// tensor work, of the busiest block and of all blocks. Times are made in costs.cc.
#ifndef SINTER_SRC_PRODUCT_SEARCH_PRODUCT_LOAD_H_
#define SINTER_SRC_PRODUCT_SEARCH_PRODUCT_LOAD_H_

#include <cstdint>

#include "src/base/device_model.h"
#include "src/product/schedule.h"

namespace sinter {

// M units of a band of the walk over units: UnitWalk::kBand of src/device/kernels. The others of
// its constants: of a band that deals row tiles out, and bytes of weights that L2 keeps meanwhile.
constexpr int64_t kBandUnits = 16, kDealtBandUnits = 4, kDealtWeightBytes = 16 << 20;

struct ProductDims {
  int product = 0;       // of the kernel's: 0 or 1
  int64_t n = 0, k = 0;  // k: as stages hold it
  double filled = 1;     // share of k that memory has; the rest are zeros after a tap's channels
  int64_t bundles = 1;   // of groups: parts of the columns that read other rows
  int64_t pitch = 0;     // elements between what boxes begin at along K; 0: k
  int width = 1;         // weight matrices side by side
  int64_t row_bytes = 0, weight_bytes = 0;  // bytes of an element
  int64_t result_bytes = 0;                 // the same, of all results
  int64_t residual_bytes = 0;               // bytes of an element of the residual; 0: none
  int64_t scale_bytes = 0;                  // of a column's scale, of weights of 16 bits; 0: none
  bool rows_in_ring =
      true;  // false: A is already in shared memory (second product, where a cluster owns its rows)
  int64_t rows_bytes = 0;      // of all rows, in their memory layout
  bool rows_from_hbm = true;   // false: A was written a moment ago and lies in L2 if it fits
  Share share = Share::kNone;  // what blocks of two of its tiles load together
  int clusters = 1;            // that share K, by ranges, and add their parts through L2
  bool to_memory = true;       // false: the result stays on the chip
};

ProductDims FirstDims(const ProductSequence& sequence, const Schedule& schedule);
// Over all of C, or over the part that stays in the cluster.
ProductDims SecondDims(const ProductSequence& sequence, const Schedule& schedule);
// Over the part of C that goes through L2 where the cluster keeps the rest.
ProductDims RestDims(const ProductSequence& sequence, const Schedule& schedule);

// L2 traffic of one operand.
struct L2Stream {
  double bytes = 0;
  double readers = 1;     // blocks, or pairs that share loads, that read the same bytes at once
  double straddling = 0;  // share of the 128-byte rows of its boxes that lie in two cache lines
};

struct ProductLoad {
  int64_t groups = 1;       // groups of blocks that work at once: split_k blocks, or a pair
  int64_t units = 0;        // what groups take one after another: tiles, or pairs of tiles
  int64_t turns = 0;        // tiles that a block of the busiest group takes
  int64_t busy_blocks = 0;  // blocks with work in the fullest turn
  int64_t steps = 0;        // ring stages of the busiest block, all turns
  int64_t more_boxes = 0;   // of weights, besides the first of each warpgroup in a stage
  double block_bytes = 0;   // loaded by the busiest block through L2
  double weight_bytes = 0;  // the weights' part of block_bytes
  double intake_bytes = 0;  // block_bytes, and the extra cost of rows in two cache lines
  double total_bytes = 0;   // L2 traffic: once for both blocks of a pair where they share
  bool windows = false;     // rows come by im2col loads
  bool codes = false;       // operands have 8 bits
  L2Stream weights, rows, residual, scales, result;  // total_bytes by operand; the stored result
  double hbm_bytes = 0;     // HBM traffic: weights once, A again where L2 cannot keep it
  double shared_bytes = 0;  // busiest block: ring writes and wgmma operand reads
  // Sums that each warp scheduler of the busiest block adds in f32, of operands of 8 bits.
  double promoted_values = 0;
  double scale_reads = 0;  // clocks in which its warps read scales of rows between products
  double norm_slots = 0;   // instructions of each warp scheduler that sum the squares of rows
  double flop = 0;         // busiest block, padded to 64 rows a warpgroup and whole tiles
};

// `concurrent`: blocks that run at once (the grid of a persistent kernel, else the resident
// blocks).
ProductLoad LoadOf(const ProductDims& dims, const ProductSequence& sequence,
                   const Schedule& schedule, const ProductTile& tile, int64_t concurrent,
                   const DeviceModel& model);

// What a kernel of products takes: the time of a stream of stages on each level of the memory
// hierarchy, and the costs at the end of a tile. The latter are not part of the stream.
// Microseconds; every constant is a field of DeviceModel.

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

// Time of one stream of stages on each level by itself, in microseconds.
struct LevelTimes {
  double hbm = 0, l2 = 0, intake = 0, shared = 0, tensor = 0;
};

// `stage_bytes`: bytes of one ring stage; the ring holds schedule.stages of them.
LevelTimes TimesOf(const ProductLoad& load, const Schedule& schedule, double stage_bytes,
                   const DeviceModel& model);

// Time of a stream whose levels work at once: their 4-norm, because stages arrive in bursts.
double Combine(const LevelTimes& levels);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEARCH_PRODUCT_LOAD_H_
