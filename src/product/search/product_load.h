// What one product of a kernel asks of the chip under a schedule: bytes per memory level, operand
// reads and tensor work, of the busiest block and of all blocks. No time in here; level_times.h
// turns it into microseconds.
#ifndef SINTER_SRC_PRODUCT_SEARCH_PRODUCT_LOAD_H_
#define SINTER_SRC_PRODUCT_SEARCH_PRODUCT_LOAD_H_

#include <cstdint>

#include "src/base/device_model.h"
#include "src/product/schedule.h"

namespace sinter {

struct ProductDims {
  int64_t n = 0, k = 0;
  int width = 1;                                              // weight matrices side by side
  int64_t row_bytes = 0, weight_bytes = 0, result_bytes = 0;  // of an element
  int64_t residual_bytes = 0;  // of an element of what is read and added to the result; 0: nothing
  bool rows_in_ring =
      true;  // false: A is already in shared memory (second product, where a cluster owns its rows)
  int64_t rows_bytes = 0;      // of all rows as they lie in memory
  bool rows_from_hbm = true;   // false: A was written a moment ago and lies in L2 if it fits
  Share share = Share::kNone;  // what blocks of two of its tiles load together
  int clusters = 1;            // that share K, by ranges, and add their parts through L2
  bool to_memory = true;       // false: the result stays on the chip
};

ProductDims FirstDims(const ProductSequence& sequence, const Schedule& schedule);
// Over all of C, or over what of it stays in the cluster.
ProductDims SecondDims(const ProductSequence& sequence, const Schedule& schedule);
// Over what of C goes through L2 where a cluster keeps the rest.
ProductDims SpilledDims(const ProductSequence& sequence, const Schedule& schedule);

// What L2 delivers of one operand.
struct L2Stream {
  double bytes = 0;
  double readers = 1;  // blocks, or pairs of blocks that share loads, that take in the same bytes
                       // at about the same time
  double straddling = 0;  // share of the 128-byte rows of its boxes that lie in two lines
};

struct ProductLoad {
  int64_t groups = 1;       // groups of blocks that work at once: split_k of them, or a pair
  int64_t units = 0;        // what groups take one after another: tiles, or pairs of them
  int64_t turns = 0;        // tiles that a block of the busiest group takes, one after another
  int64_t busy_blocks = 0;  // blocks with work in the fullest turn
  int64_t steps = 0;        // ring stages of the busiest block, all turns
  double block_bytes = 0;   // taken in by the busiest block through L2
  double weight_bytes = 0;  // the weights' part of block_bytes
  double intake_bytes = 0;  // block_bytes, and what lines cost more of which boxes take parts
  double total_bytes = 0;   // what L2 delivers: once for both blocks of a pair where they share
  L2Stream weights, rows, residual, result;  // total_bytes by operand; and what is stored
  double hbm_bytes = 0;     // what HBM delivers: weights once, A as often as L2 cannot keep it
  double shared_bytes = 0;  // busiest block: ring writes and wgmma operand reads
  double flop = 0;          // busiest block, padded to 64 rows a warpgroup and whole tiles
};

// `concurrent`: blocks that run at once (the grid of a persistent kernel, else what is resident).
ProductLoad LoadOf(const ProductDims& dims, const ProductSequence& sequence,
                   const Schedule& schedule, const ProductTile& tile, int64_t concurrent,
                   const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEARCH_PRODUCT_LOAD_H_
