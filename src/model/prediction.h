// Prediction: a cost model's estimate of one kernel, of either family.
#ifndef SINTER_SRC_MODEL_PREDICTION_H_
#define SINTER_SRC_MODEL_PREDICTION_H_

#include <cmath>
#include <initializer_list>
#include <string>

namespace sinter {

// Predicted time of one kernel, in all and by level, in microseconds; `bound` names the largest
// level.
struct Prediction {
  double total_us = 0;
  double hbm_us = 0, l2_us = 0, intake_us = 0, shared_us = 0, dsm_us = 0, tensor_us = 0,
         fixed_us = 0;
  double hbm_bytes = 0, l2_bytes = 0, dsm_bytes = 0;
  std::string bound;          // "hbm", "l2", "intake", "shared", "dsm", "tensor", "latency"
  double out_of_step_us = 0;  // what total_us would be more, did the blocks not start in step
};

// FourNorm: combines the times of levels that work at once.

// FlashFuser takes the maximum. On this chip levels that are nearly equal slow one another down, so
// the 4-norm is used: at least the maximum, at most 1.5 times it with five equal levels. IEEE
// square roots are equal on every machine, unlike pow, so plans can be compared across machines.
inline double FourNorm(std::initializer_list<double> times) {
  double sum = 0;
  for (double t : times) sum += t * t * t * t;
  return std::sqrt(std::sqrt(sum));
}

}  // namespace sinter

#endif  // SINTER_SRC_MODEL_PREDICTION_H_
