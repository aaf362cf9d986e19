// PlanTensors: what each kernel of a plan reads and writes, as tensors rather than places: a place
// in the workspace holds one tensor after another.
#ifndef SINTER_SRC_FUSION_STITCH_PLAN_TENSORS_H_
#define SINTER_SRC_FUSION_STITCH_PLAN_TENSORS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "src/plan/plan.h"

namespace sinter {

struct PlanTensor {
  std::string place;  // "#0", "ws+65536"
  std::string type;
  int64_t bytes = 0;       // distinct elements at the plan's bucket
  int writer = -1;         // kernel; -1: an input of the chain
  bool given_out = false;  // an output of the chain
  std::vector<int> readers;
};

struct KernelTensors {
  std::vector<int> reads, writes;  // of PlanTensors::tensors, in the order of the operands
};

struct PlanTensors {
  std::vector<PlanTensor> tensors;
  std::vector<KernelTensors> kernels;
  std::vector<std::set<int>> readers;  // kernels that read what a kernel wrote
};

// Reads of a place belong to the last kernel before that wrote it.
PlanTensors TensorsOf(const Plan& plan);

}  // namespace sinter

#endif  // SINTER_SRC_FUSION_STITCH_PLAN_TENSORS_H_
