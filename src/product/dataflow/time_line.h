// TimeLine: the prediction of a kernel under construction, and what several dataflows put on it.
#ifndef SINTER_SRC_PRODUCT_DATAFLOW_TIME_LINE_H_
#define SINTER_SRC_PRODUCT_DATAFLOW_TIME_LINE_H_

#include "src/model/prediction.h"
#include "src/product/search/fixed_costs.h"
#include "src/product/search/level_times.h"

namespace sinter {

// What is fixed, what went through distributed shared memory, what streamed: microseconds.
struct TimeLine {
  Prediction p;
  double total = 0;

  void Fixed(double us);
  void Dsm(double us, double bytes);
  void Stream(const LevelTimes& times, const ProductLoad& load);
  // A stream's levels without its time.
  void Levels(const LevelTimes& times, const ProductLoad& load);
  Prediction Finish();
};

// The level that takes longest; "latency" where that is what is fixed.
std::string BoundOf(const Prediction& prediction);

// What each of a block's tiles costs in turn, such as their ends: the consumers do nothing else
// meanwhile. That the producer loads the next tile gains little, because what bounds a stream is as
// often the consumers' shared memory.
double EachTurn(double us, const ProductLoad& load);

// What ends a tile of product `product`: its epilogue, and its store.
double EndUs(const ProductDims& dims, const ProductSequence& sequence, int product,
             const Schedule& schedule, const ProductTile& tile, const DeviceModel& model);

// What of the second product's stream of `stream_us` has passed when C is ready: weights load into
// the ring during the hand-over, which takes `window_us`.
double PrefetchedUs(const ProductLoad& load, const Schedule& schedule, double window_us,
                    double stream_us);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_DATAFLOW_TIME_LINE_H_
