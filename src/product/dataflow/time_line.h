// TimeLine: a kernel's prediction while it is summed up, and the terms that dataflows share.
#ifndef SINTER_SRC_PRODUCT_DATAFLOW_TIME_LINE_H_
#define SINTER_SRC_PRODUCT_DATAFLOW_TIME_LINE_H_

#include <array>
#include <cstdint>

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

// How clusters share a task list: one list of units, first those of the first product, then those
// of the second. Of n clusters each takes every n-th unit of the whole list.

struct TaskCounts {
  int64_t first = 0, second = 0;  // units of each product
};

// The two candidates for the busiest cluster: the one that takes the list's first unit, and the one
// that takes the second product's first unit. Precondition: clusters >= 1.
std::array<TaskCounts, 2> BusiestClusters(int64_t first_units, int64_t second_units,
                                          int64_t clusters);

// Times of one unit of each product, and of the hand-over: from the last stores of a tile of C
// until another cluster has loaded it.
struct TaskTimes {
  double first_us = 0, second_us = 0, hand_over_us = 0;
};

// How long a cluster waits for C in all. Units of the first product end turn by turn, columns
// first, and the second product needs columns in that order. So a cluster waits only for columns of
// the last turn or the one before, if it reaches them before they are ready.
double WaitUs(const TaskCounts& cluster, int64_t first_units, int64_t clusters,
              const TaskTimes& times);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_DATAFLOW_TIME_LINE_H_
