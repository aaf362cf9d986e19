#include "src/product/search/task_list.h"

#include <algorithm>

namespace sinter {
namespace {

// Units of `units` that cluster `c` takes; cluster 0 takes the first one.
int64_t Taken(int64_t units, int64_t c, int64_t clusters) {
  return units / clusters + (c < units % clusters ? 1 : 0);
}

}  // namespace

std::array<TaskCounts, 2> BusiestClusters(int64_t first_units, int64_t second_units,
                                          int64_t clusters) {
  const int64_t second_begins = first_units % clusters;
  const auto counts = [&](int64_t c) {
    const int64_t behind = (c + clusters - second_begins) % clusters;
    return TaskCounts{Taken(first_units, c, clusters), Taken(second_units, behind, clusters)};
  };
  return {counts(0), counts(second_begins)};
}

double WaitUs(const TaskCounts& cluster, int64_t first_units, int64_t clusters,
              const TaskTimes& times) {
  if (cluster.second == 0) return 0;
  const int64_t turns = (first_units + clusters - 1) / clusters;
  const double arrives = static_cast<double>(cluster.first) * times.first_us;
  double wait = 0;
  for (int64_t turn = std::max<int64_t>(1, turns - 1); turn <= turns; turn++) {
    const double there = static_cast<double>(turn) * times.first_us + times.hand_over_us;
    const double before = static_cast<double>((turn - 1) * clusters) /
                          static_cast<double>(std::max<int64_t>(1, first_units));
    wait = std::max(wait, there - arrives - before * times.second_us);
  }
  return wait;
}

}  // namespace sinter
