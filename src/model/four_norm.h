// FourNorm: how the times of levels that work at once add up.
#ifndef SINTER_SRC_MODEL_FOUR_NORM_H_
#define SINTER_SRC_MODEL_FOUR_NORM_H_

#include <cmath>
#include <initializer_list>

namespace sinter {

// FlashFuser takes the largest. On this chip levels that are nearly equal disturb one another, so
// the 4-norm: never below the largest, at most 1.5 times it with five equal ones. IEEE square roots
// round alike on every machine, unlike pow: plans are compared across machines.
inline double FourNorm(std::initializer_list<double> times) {
  double sum = 0;
  for (double t : times) sum += t * t * t * t;
  return std::sqrt(std::sqrt(sum));
}

}  // namespace sinter

#endif  // SINTER_SRC_MODEL_FOUR_NORM_H_
