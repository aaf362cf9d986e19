// The median of measurements.
#ifndef SINTER_SRC_BASE_MEDIAN_H_
#define SINTER_SRC_BASE_MEDIAN_H_

#include <algorithm>
#include <cstddef>
#include <vector>

namespace sinter {

// The larger of the two in the middle of an even number. Precondition: there is a value.
inline double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace sinter

#endif  // SINTER_SRC_BASE_MEDIAN_H_
