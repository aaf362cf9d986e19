// What one product of a kernel asks of the chip under a schedule: bytes per memory level, operand
// reads and tensor work, of the busiest block and of all blocks. No time in here; cost_model.h
// turns it into microseconds.
#ifndef SINTER_SRC_SEARCH_PRODUCT_LOAD_H_
#define SINTER_SRC_SEARCH_PRODUCT_LOAD_H_

#include <cstdint>

#include "src/base/device_model.h"
#include "src/plan/schedule.h"

namespace sinter {

struct ProductDims {
  int64_t n = 0, k = 0;
  int width = 1;  // weight matrices side by side
  bool rows_in_ring =
      true;  // false: A is already in shared memory (second product of kClusterExchange)
  bool rows_from_hbm = true;  // false: A was written a moment ago and lies in L2 if it fits
};

ProductDims FirstDims(const FfnProblem& problem);
ProductDims SecondDims(const FfnProblem& problem, Dataflow dataflow);

struct ProductLoad {
  int64_t groups = 1;       // groups of split_k blocks that work at once
  int64_t turns = 0;        // tiles that the busiest group takes, one after another
  int64_t busy_blocks = 0;  // blocks with work in the fullest turn
  int64_t steps = 0;        // ring stages of the busiest block, all turns
  double block_bytes = 0;   // taken in by the busiest block through L2
  double weight_bytes = 0;  // the weights' part of block_bytes
  double total_bytes = 0;   // taken in by all blocks: what L2 delivers
  double own_bytes = 0;     // the weights' part of total_bytes: few blocks read the same of them
  double hbm_bytes = 0;     // what HBM delivers: weights once, A as often as L2 cannot keep it
  double shared_bytes = 0;  // busiest block: ring writes and wgmma operand reads
  double flop = 0;          // busiest block, padded to 64 rows a warpgroup and whole tiles
};

// `concurrent`: blocks that run at once (the grid of a persistent kernel, else what is resident).
ProductLoad LoadOf(const ProductDims& dims, const FfnProblem& problem, const Schedule& schedule,
                   const ProductTile& tile, int64_t concurrent, const DeviceModel& model);

}  // namespace sinter

#endif  // SINTER_SRC_SEARCH_PRODUCT_LOAD_H_
