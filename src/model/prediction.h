// Prediction: a cost model's estimate of one kernel, of either family.
#ifndef SINTER_SRC_MODEL_PREDICTION_H_
#define SINTER_SRC_MODEL_PREDICTION_H_

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

}  // namespace sinter

#endif  // SINTER_SRC_MODEL_PREDICTION_H_
