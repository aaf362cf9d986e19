// TimeLine: a kernel's prediction while it is summed up, and the terms that dataflows share.
#ifndef SINTER_SRC_PRODUCT_DATAFLOW_TIME_LINE_H_
#define SINTER_SRC_PRODUCT_DATAFLOW_TIME_LINE_H_

#include "src/model/prediction.h"
#include "src/product/search/product_load.h"

namespace sinter {

// Sums fixed times, distributed shared memory and streams, in microseconds.
struct TimeLine {
  Prediction p;
  double total = 0;

  void Fixed(double us);
  void Dsm(double us, double bytes);
  void Stream(const LevelTimes& times, const ProductLoad& load);
  // Adds a stream's levels without its time.
  void Levels(const LevelTimes& times, const ProductLoad& load);
  Prediction Finish();
};

// The level that takes longest; "fixed" where the fixed times are longest.
std::string BoundOf(const Prediction& prediction);

// A cost that a block pays once a tile, such as the tile's end: the consumers do nothing else
// meanwhile. The producer's loads of the next tile hide little of it, because a stream is as often
// bound by the consumers' shared memory.
double EachTurn(double us, const ProductLoad& load);

// The end of a tile of product `product`: its epilogue and its store.
double EndUs(const ProductDims& dims, const ProductSequence& sequence, int product,
             const Schedule& schedule, const ProductTile& tile, const DeviceModel& model);

// The share of a stream in which HBM could take in more: what the levels beside it add to the
// 4-norm. Blocks that end a stream early load the next one's weights while others still read HBM
// for this one. Where HBM bounds the stream, that only delays the others.
double SpareHbm(const LevelTimes& times);

// How much of the second product's stream of `stream_us` has passed when C is ready. Weights load
// into the ring during the hand-over, which takes `window_us`.
double PrefetchedUs(const ProductLoad& load, const Schedule& schedule, double window_us,
                    double stream_us);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_DATAFLOW_TIME_LINE_H_
