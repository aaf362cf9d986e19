// PlanTensors: the tensors that each kernel of a plan reads and writes. A place in the workspace
// holds several tensors, one after another.
#ifndef SINTER_SRC_EXPLAIN_TENSORS_H_
#define SINTER_SRC_EXPLAIN_TENSORS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "src/explain/explain.h"

namespace sinter {

struct PlanTensor {
  std::string place;  // "#0", "ws+65536"
  std::string type;
  std::string name;        // of a buffer of the caller's
  int64_t bytes = 0;       // distinct elements at the plan's bucket
  int writer = -1;         // kernel; -1: an input of the chain
  bool given_out = false;  // an output of the chain
  std::vector<int> readers;
};

struct KernelTensors {
  std::vector<int> reads, writes;  // indices in PlanTensors::tensors, in the order of the operands
};

struct PlanTensors {
  std::vector<PlanTensor> tensors;
  std::vector<KernelTensors> kernels;
  std::vector<std::set<int>> readers;  // by kernel: the kernels that read its results
};

// A read of a place belongs to the last kernel before it that wrote the place.
PlanTensors TensorsOf(const Plan& plan, const BufferNames& names = {});

}  // namespace sinter

#endif  // SINTER_SRC_EXPLAIN_TENSORS_H_
