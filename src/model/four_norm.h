// FourNorm: combines the times of levels that work at once.
#ifndef SINTER_SRC_MODEL_FOUR_NORM_H_
#define SINTER_SRC_MODEL_FOUR_NORM_H_

#include <cmath>
#include <initializer_list>

namespace sinter {

// FlashFuser takes the maximum. On this chip levels that are nearly equal slow one another down, so
// the 4-norm is used: at least the maximum, at most 1.5 times it with five equal levels. IEEE
// square roots are equal on every machine, unlike pow, so plans can be compared across machines.
inline double FourNorm(std::initializer_list<double> times) {
  double sum = 0;
  for (double t : times) sum += t * t * t * t;
  return std::sqrt(std::sqrt(sum));
}

}  // namespace sinter

#endif  // SINTER_SRC_MODEL_FOUR_NORM_H_
