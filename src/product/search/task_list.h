// How clusters share a task list: one list of units, first those of the first product, then those
// of the second. Of n clusters each takes every n-th unit of the whole list.
#ifndef SINTER_SRC_PRODUCT_SEARCH_TASK_LIST_H_
#define SINTER_SRC_PRODUCT_SEARCH_TASK_LIST_H_

#include <array>
#include <cstdint>

namespace sinter {

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

#endif  // SINTER_SRC_PRODUCT_SEARCH_TASK_LIST_H_
