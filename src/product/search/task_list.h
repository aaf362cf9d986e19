// Who takes what of a task list: clusters walk one list of units, all of the first product's, then
// all of the second's, each cluster every so many-th of the whole list.
#ifndef SINTER_SRC_PRODUCT_SEARCH_TASK_LIST_H_
#define SINTER_SRC_PRODUCT_SEARCH_TASK_LIST_H_

#include <array>
#include <cstdint>

namespace sinter {

struct TaskCounts {
  int64_t first = 0, second = 0;  // units of each product
};

// Of the two clusters one of which has most to do: the list's first one, and the one with which the
// second product begins. Precondition: clusters >= 1.
std::array<TaskCounts, 2> BusiestClusters(int64_t first_units, int64_t second_units,
                                          int64_t clusters);

// Times of a cluster's units, and of the hand-over between the products: how long from a tile of
// C's last stores until another cluster has loaded it.
struct TaskTimes {
  double first_us = 0, second_us = 0, hand_over_us = 0;
};

// What a cluster waits for C, all in all. Units of the first product end turn by turn, columns
// first; the second product needs columns in that order, so it waits for those of the last turn, or
// of the one before, only where it comes to them before they are there.
double WaitUs(const TaskCounts& cluster, int64_t first_units, int64_t clusters,
              const TaskTimes& times);

}  // namespace sinter

#endif  // SINTER_SRC_PRODUCT_SEARCH_TASK_LIST_H_
