// Evaluator: all ops of a chain, once, for some rows of M.
#ifndef SINTER_SRC_REFERENCE_EVALUATOR_H_
#define SINTER_SRC_REFERENCE_EVALUATOR_H_

#include <vector>

#include "src/chain/chain.h"
#include "src/reference/tensor.h"

namespace sinter::reference {

struct Pass {
  const Chain* chain = nullptr;
  int64_t m = 0;  // real M: strides and row numbers refer to it
  const std::vector<const void*>* inputs = nullptr;
  const std::vector<int64_t>* rows = nullptr;  // the rows to compute; nullptr: all, in order
  std::vector<bool> wanted;                    // per output: evaluate it
  bool skip_final_cast = false;
  int threads = 1;
};

// The wanted outputs (others stay empty). Values live only as long as an op still needs them;
// movements are views where strides can express them. A result may be a view of an input.
std::vector<Tensor> Evaluate(const Pass& pass);

}  // namespace sinter::reference

#endif  // SINTER_SRC_REFERENCE_EVALUATOR_H_
