// Chains that the explorer's tests fuse, and a stand-in for the latency-evaluator.
#pragma once

#include "src/chain/chain.h"
#include "src/fusion/stitch/evaluators.h"
#include "tests/support/chips.h"
#include "tests/support/common.h"

namespace sinter::testing {

// w, m, v f32 and g bf16 of each size; outputs m', v', w' aliasing their inputs, and w' in bf16.
Chain AdamOver(const std::vector<int64_t>& sizes);

// Random memory-intensive DAG of about `ops` ops over one [rows, cols] space: element-wise ops,
// row and column means spread again. Values stay finite. Operands are among the last `window`
// values: the fewer, the longer the graph. `products`: of 100 ops so many are matmuls (rows =
// cols).
Chain RandomDag(uint32_t seed, int ops, int64_t rows, int64_t cols, int window = 12,
                int products = 0);

// `layers` of pre-norm transformer glue around products that are in the way: about 55 ops each.
Chain TransformerGlue(int layers, int64_t rows, int64_t hidden);

// Bytes in and out at an HBM's pace and a launch; refuses a body for which `refuse` gives a reason.
class SimpleCosts : public StitchCosts {
 public:
  using Refusal = std::function<std::string(const Chain&)>;
  explicit SimpleCosts(Refusal refuse = nullptr) : refuse_(std::move(refuse)) {}
  absl::StatusOr<double> LatencyUs(const Chain& body) override;
  int asked() const { return asked_; }

 private:
  Refusal refuse_;
  int asked_ = 0;
};

}  // namespace sinter::testing
